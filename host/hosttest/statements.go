package hosttest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// Table is a table of the users of a store that executes statements, see [driver.Execer]. It is in the store's
// database. Its keys are unique.
type Table struct {
	// Insert records, with a call, a statement that adds a row.
	Insert func(call *cairn.Call, key string, n int) error
	// Rows returns the rows.
	Rows func() (map[string]int, error)
}

// InProcess is the default host of an engine.
var InProcess = Host{Name: "inprocess", Start: func(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
	eng, err := engine.New(st, agents, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return eng
}}

// RunStatements checks that statements that tools record with a store's Exec are executed once per committed step,
// on hosts whose effects share a process and on others. newTable creates a table in the database of a store.
func RunStatements(t *testing.T, place Store, newTable func(testing.TB, driver.Store) Table) {
	for _, h := range []Host{InProcess, Cold, Repeating, Alternating} {
		t.Run(h.Name, func(t *testing.T) {
			for name, check := range map[string]func(*clerk){
				"committed": (*clerk).committed, "failed": (*clerk).failed, "dead": (*clerk).dead, "unanswered": (*clerk).unanswered,
				"deferred": (*clerk).deferred, "refused": (*clerk).refused, "retried": (*clerk).retried,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					st := place.Open(t, time.Now)
					check(&clerk{T: t, host: h, st: st, table: newTable(t, st)})
				})
			}
		})
	}
}

// clerk is a test whose agents have tools that add rows to a table.
type clerk struct {
	*testing.T
	host  Host
	st    driver.Store
	table Table
	again atomic.Bool // tools insert rows under other keys
}

// agent returns an agent that gives the replies. Each of its tools adds a row with its argument as the key. Then
// the tool "oops" fails, and the tool "close" ends the turn.
func (c *clerk) agent(d cairn.Durability, replies ...scripted.Step) *cairn.Agent {
	tool := func(name string, opts ...cairn.ToolOption) cairn.Tool {
		return cairn.Func(name, "Adds a row.", func(_ context.Context, call *cairn.Call, in words) (string, error) {
			key := in.Text
			if c.again.Load() {
				key += " again"
			}
			err := c.table.Insert(call, key, len(call.ID))
			if err == nil && name == "oops" {
				err = errors.New("oops")
			}
			return "done", err
		}, opts...)
	}
	a := bot(plays(append(replies, scripted.Text("Done."))...), tool("pay"), tool("oops"), tool("close", cairn.FinishWith()))
	a.Durability = d
	return a
}

// start starts a process over a store. Its leases last as long as by default, since the machine may be busy.
func (c *clerk) start(st driver.Store, a *cairn.Agent) *engine.Engine { return c.startLeased(st, a, 0) }

// startLeased starts a process whose leases last for a time; 0 is the default.
func (c *clerk) startLeased(st driver.Store, a *cairn.Agent, lease time.Duration) *engine.Engine {
	eng := c.host.Start(c.T, st, []*cairn.Agent{a}, &engine.Options{LeaseTTL: lease})
	c.Cleanup(func() { _ = eng.Close(context.WithoutCancel(c.Context())) })
	return eng
}

// ends waits for the end of a run.
func (c *clerk) ends(run *engine.Run, err error) *cairn.Result {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
	res, err := run.Wait(c.Context())
	if err != nil && !driver.IsStatementFailed(err) {
		c.Fatal(err)
	}
	return res
}

// want compares the keys of the table's rows.
func (c *clerk) want(keys ...string) {
	c.Helper()
	rows, err := c.table.Rows()
	if err != nil {
		c.Fatal(err)
	}
	want := map[string]int{}
	for _, key := range keys {
		want[key] = len("c1")
	}
	if !maps.Equal(rows, want) {
		c.Errorf("the rows are %v, want %v", rows, want)
	}
}

// Statements of several calls and steps are executed. Those of a failed call are not.
func (c *clerk) committed() {
	a := c.agent(cairn.PerStep, scripted.Reply(asks("c1", "pay", "a"), asks("c2", "pay", "b"), asks("c3", "oops", "c")), asks("c4", "close", "d"))
	if res := c.ends(c.start(c.st, a).Execute(c.Context(), "s", "bot", cairn.Text("go"))); res.Status != cairn.RunCompleted {
		c.Fatalf("the run is %s: %v", res.Status, res.Error)
	}
	c.want("a", "b", "d")
}

// With a durability that defers commits, a step with a statement is committed at its end.
func (c *clerk) deferred() {
	a := c.agent(cairn.Manual, asks("c1", "pay", "a"), scripted.Reply(asks("c2", "pay", "b"), scripted.Text("And now?")))
	rows := -1
	a.StopWhen = func(context.Context, *cairn.Step) bool {
		got, err := c.table.Rows()
		if rows = len(got); err != nil {
			c.Error(err)
		}
		return false
	}
	c.ends(c.start(c.st, a).Execute(c.Context(), "s", "bot", cairn.Text("go")))
	if rows != 1 {
		c.Errorf("%d rows before the second step's end, want 1", rows)
	}
	c.want("a", "b")
}

// A statement that fails discards its step and fails the run, which can be retried.
func (c *clerk) failed() {
	eng := c.start(c.st, c.agent(cairn.PerTool, asks("c1", "pay", "a"), scripted.Reply(asks("c2", "pay", "b"), asks("c3", "pay", "a"))))
	res := c.ends(eng.Execute(c.Context(), "s", "bot", cairn.Text("go")))
	if res.Status != cairn.RunFailed || res.Error.Code != cairn.ErrStatement || !strings.Contains(res.Error.Message, `tool "pay"`) {
		c.Errorf("the run is %s: %v", res.Status, res.Error)
	}
	c.want("a")
	row, err := driver.Load(c.Context(), c.st, "s")
	if err != nil || row.Step != 1 || row.MessageCount != 3 {
		c.Fatalf("the session is %+v, %v", row, err)
	}
	c.again.Store(true)
	if res = c.ends(eng.Retry(c.Context(), "s")); res.Status != cairn.RunCompleted {
		c.Errorf("the run is %s: %v", res.Status, res.Error)
	}
	c.want("a", "b again", "a again")
}

// A process that dies before it commits has executed nothing. The process that takes over executes what was staged,
// once.
func (c *clerk) dead() {
	a := c.agent(cairn.PerTool, scripted.Reply(asks("c1", "pay", "a"), asks("c2", "pay", "b")))
	var calls atomic.Int64
	a.Hooks = &cairn.Hooks{BeforeTool: func(context.Context, *cairn.Call) error { calls.Add(1); return nil }}
	cut := &commits{Store: c.st, around: func(func() (*cairn.Session, error)) (*cairn.Session, error) { return nil, errCut }}
	run, err := c.startLeased(cut, a, 3*time.Second).Execute(c.Context(), "s", "bot", cairn.Text("go"))
	if err != nil {
		c.Fatal(err)
	}
	if _, err := run.Wait(c.Context()); err == nil {
		c.Fatal("a process without its store ended the run")
	}
	c.want()
	two := c.start(c.st, a)
	testclock.Await(c, "the lease to lapse", func() bool {
		run, err = two.Resume(c.Context(), "s")
		return !errors.Is(err, cairn.ErrAlreadyRunning)
	})
	if res := c.ends(run, err); res.Status != cairn.RunCompleted {
		c.Errorf("the run is %s: %v", res.Status, res.Error)
	}
	if n := calls.Load(); n != 2 {
		c.Errorf("%d calls of the tool", n)
	}
	c.want("a", "b")
}

// A commit whose response is lost is not repeated.
func (c *clerk) unanswered() {
	var lost atomic.Int64
	deaf := &commits{Store: c.st, around: func(commit func() (*cairn.Session, error)) (*cairn.Session, error) {
		row, err := commit()
		if err == nil && lost.Add(1)%2 == 1 {
			return nil, cairn.Errorf(cairn.ErrUnavailable, "the answer was lost")
		}
		return row, err
	}}
	a := c.agent(cairn.PerStep, asks("c1", "pay", "a"), asks("c2", "pay", "b"), asks("c3", "close", "d"))
	if res := c.ends(c.start(deaf, a).Execute(c.Context(), "s", "bot", cairn.Text("go"))); res.Status != cairn.RunCompleted {
		c.Fatalf("the run is %s: %v", res.Status, res.Error)
	}
	if n := lost.Load(); n < 6 {
		c.Errorf("%d commits with statements were asked for", n)
	}
	c.want("a", "b", "d")
}

// Statements of a failed attempt at a tool are not executed.
func (c *clerk) retried() {
	a := c.agent(cairn.PerTool, asks("c1", "try", "a"))
	var tries atomic.Int64
	a.Tools = append(a.Tools, cairn.Func("try", "", func(_ context.Context, call *cairn.Call, in words) (string, error) {
		err := c.table.Insert(call, in.Text, len(call.ID))
		if err == nil && tries.Add(1) < 3 {
			err = errors.New("not yet")
		}
		return "done", err
	}, cairn.Retry(cairn.RetryPolicy{First: time.Millisecond, When: func(error) bool { return true }})))
	if res := c.ends(c.start(c.st, a).Execute(c.Context(), "s", "bot", cairn.Text("go"))); res.Status != cairn.RunCompleted {
		c.Fatalf("the run is %s: %v", res.Status, res.Error)
	}
	if n := tries.Load(); n != 3 {
		c.Errorf("%d attempts", n)
	}
	c.want("a")
}

// A statement for another database is an error of the call. So is a statement of code that may not write.
func (c *clerk) refused() {
	var other, late error
	a := c.agent(cairn.PerStep, asks("c1", "try", "a"))
	a.Tools = append(a.Tools, cairn.Func("try", "", func(_ context.Context, call *cairn.Call, _ words) (string, error) {
		other = driver.Exec(call, "Fortran", "SELECT 1")
		return "", nil
	}, cairn.RequireApprovalIf(func(_ context.Context, call *cairn.Call, _ words) (bool, error) {
		late = c.table.Insert(call, "a", 1)
		return false, nil
	})))
	c.ends(c.start(c.st, a).Execute(c.Context(), "s", "bot", cairn.Text("go")))
	if !errors.Is(other, cairn.ErrInvalid) || !strings.Contains(fmt.Sprint(other), "Fortran") {
		c.Errorf("a statement for another database: error %v", other)
	}
	if !errors.Is(late, cairn.ErrInvalid) {
		c.Errorf("a statement of an approval's condition: error %v", late)
	}
	c.want()
}

// commits is a store that passes commits with statements to around.
type commits struct {
	driver.Store
	around func(commit func() (*cairn.Session, error)) (*cairn.Session, error)
}

func (s *commits) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	commit := func() (*cairn.Session, error) { return s.Store.Commit(ctx, id, c) }
	if len(c.Statements) == 0 {
		return commit()
	}
	return s.around(commit)
}

func (s *commits) Self() driver.Store   { return s }
func (s *commits) Dialect() string      { return s.Store.(driver.Execer).Dialect() }
func (s *commits) EventLog() driver.Log { return s.Store.(driver.LogProvider).EventLog() }
