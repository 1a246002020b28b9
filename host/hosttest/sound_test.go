package hosttest

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

func inProcess(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
	eng, err := engine.New(st, agents, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return eng
}

// answered returns the tree of a session with an answered call of its own, one of a child, and a pending call.
func answered(t *testing.T) *tree {
	t.Helper()
	s := newScene(t, Host{Start: inProcess}, Store{Open: func(_ testing.TB, now func() time.Time) driver.Store {
		return memstore.New(&memstore.Options{Now: now})
	}})
	s.twins()
	s.agents[0].Tools = append(s.agents[0].Tools, s.tool("pay", func(context.Context, *cairn.Call, words) (string, error) {
		return "paid", nil
	}, cairn.RequireApproval(), cairn.WaitAtMost(time.Hour)))
	s.agents[0].Model = plays(delegates("c1", "payer"), asks("c2", "pay", "1"), asks("c3", "pay", "2"))
	p := s.process()
	p.turn("s", "go")
	for _, tool := range []string{"refund", "pay"} {
		p.submit("s", cairn.Approve(s.open("s", tool)), cairn.OutcomeAccepted)
		p.resume("s")
	}
	got, err := readTree(t.Context(), s.st, s.log, "s")
	s.must(err)
	return got
}

// where returns the index of the first event of a kind.
func where(t *tree, kind cairn.EventType) int {
	return slices.IndexFunc(t.events, func(ev cairn.Event) bool { return ev.Type == kind })
}

// forget removes an event from the log.
func (t *tree) forget(i int) {
	t.events = slices.Delete(slices.Clone(t.events), i, i+1)
	t.renumber()
}

// again duplicates an event.
func (t *tree) again(i int) {
	t.events = slices.Insert(slices.Clone(t.events), i, t.events[i])
	t.renumber()
}

func (t *tree) renumber() {
	for i := range t.events {
		t.events[i].Sequence = int64(i) + 1
	}
	for _, r := range t.sessions {
		r.events = slices.DeleteFunc(slices.Clone(t.events), func(ev cairn.Event) bool { return ev.SessionID != r.row.ID })
	}
}

func TestUnsoundSeesDamage(t *testing.T) {
	t.Parallel()
	if problems := answered(t).unsound(); len(problems) > 0 {
		t.Fatalf("a sound tree has problems: %q", problems)
	}
	call := func(t *tree, status cairn.CallStatus) *cairn.PendingCall {
		calls := t.sessions[0].calls
		return &calls[slices.IndexFunc(calls, func(c cairn.PendingCall) bool { return c.Status == status })]
	}
	for name, damage := range map[string]struct {
		do   func(*tree)
		says string
	}{
		"a sequence is left out": {func(t *tree) { t.events[3].Sequence++ }, "event 4 has sequence 5"},
		"a message is repeated":  {func(t *tree) { t.sessions[0].messages[2].ID = t.sessions[0].messages[1].ID }, "repeated"},
		"a result is lost":       {func(t *tree) { t.sessions[0].messages[2].Parts = nil }, "has 0 results"},
		"a result comes twice": {func(t *tree) {
			parts := &t.sessions[0].messages[2].Parts
			*parts = append(*parts, (*parts)[0])
		}, "has 2 results"},
		"a run is missing":          {func(t *tree) { t.sessions[0].runs = t.sessions[0].runs[1:] }, "run 1 has turn 2"},
		"a run's beginning is lost": {func(t *tree) { t.forget(where(t, cairn.EventRunStart)) }, "0 times run_"},
		"a run's end comes twice":   {func(t *tree) { t.again(where(t, cairn.EventRunEnd)) }, "2 times run_"},
		"a step is repeated":        {func(t *tree) { t.again(where(t, cairn.EventStepCommitted)) }, "2 times run_"},
		"words are lost":            {func(t *tree) { t.forget(where(t, cairn.EventTextDelta)) }, "a reader saw"},
		"a call's end is lost":      {func(t *tree) { t.forget(where(t, cairn.EventToolEnd)) }, "0 times the end of call"},
		"a child's end comes early": {func(t *tree) {
			end := t.events[where(t, cairn.EventSubagentEnd)]
			t.forget(where(t, cairn.EventSubagentEnd))
			t.events = slices.Insert(t.events, where(t, cairn.EventSubagentStart)+1, end)
			t.renumber()
		}, "outside of the call"},
		"a child's beginning is lost":  {func(t *tree) { t.forget(where(t, cairn.EventSubagentStart)) }, "but not its beginning"},
		"no answer is asked for":       {func(t *tree) { t.forget(where(t, cairn.EventToolApproval)) }, "asks 0 times"},
		"an answer is asked for twice": {func(t *tree) { t.again(where(t, cairn.EventToolApproval)) }, "asks 2 times"},
		"it is still active":           {func(t *tree) { t.sessions[1].row.Status = cairn.SessionActive }, "still active"},
		"a lease is held": {func(t *tree) {
			t.sessions[1].row.Lease = cairn.Lease{Owner: "o", Until: t.sessions[1].row.UpdatedAt.Add(time.Hour)}
		}, "holds its lease"},
		"something is staged":     {func(t *tree) { t.sessions[1].staged = make([]driver.Staged, 1) }, "still staged"},
		"messages are miscounted": {func(t *tree) { t.sessions[1].row.MessageCount++ }, "the row counts"},
		"a taint is lost": {func(t *tree) {
			m := &t.sessions[0].messages[0]
			m.Hidden, m.Trust = true, cairn.TrustTainted
		}, "the row says tainted false"},
		"usage is miscounted":       {func(t *tree) { t.sessions[0].row.Usage.ToolCalls++ }, "the usage rows"},
		"a usage row is lost":       {func(t *tree) { t.sessions[0].usage = t.sessions[0].usage[1:] }, "the usage rows"},
		"calls are miscounted":      {func(t *tree) { t.sessions[0].row.OpenCalls++ }, "open calls"},
		"the deadline is forgotten": {func(t *tree) { t.sessions[0].row.NextDeadline = time.Time{} }, "next deadline"},
		"it is paused without a step": {func(t *tree) {
			t.sessions[0].row.SuspendedStep = ""
		}, "step \"\" has"},
		"an open call is settled": {func(t *tree) { call(t, cairn.CallOpen).Status = cairn.CallSettled }, "but has no result"},
		"a used answer is open":   {func(t *tree) { call(t, cairn.CallSettled).Status = cairn.CallAnswered }, "is not suspended for it"},
		"an answer has no trail":  {func(t *tree) { call(t, cairn.CallSettled).Trail = nil }, "no trail"},
		"an answer is lost":       {func(t *tree) { call(t, cairn.CallSettled).Answer = nil }, "its answer is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := answered(t)
			damage.do(tree)
			problems := strings.Join(tree.unsound(), "\n")
			if !strings.Contains(problems, damage.says) {
				t.Errorf("nothing says %q; the problems are:\n%s", damage.says, problems)
			}
		})
	}
}

func TestEveryFileHasItsScenario(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(golden, "testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for _, sc := range scenarios {
		names[sc.name]++
	}
	for name, n := range names {
		if n > 1 {
			t.Errorf("%d scenarios are called %s", n, name)
		}
	}
	for _, file := range files {
		if name := strings.TrimSuffix(path.Base(file), ".txt"); names[name] == 0 {
			t.Errorf("%s belongs to no scenario", file)
		}
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ want, got, says string }{
		{"a\nb\nc", "a\nb\nc", ""},
		{"a\nb\nc", "a\nc", "    2 - b\n"},
		{"a\nc", "a\nb\nc", "    2 + b\n"},
		{"a", "b", "    1 - a\n    1 + b\n"},
	} {
		if said := difference(c.want, c.got); said != c.says {
			t.Errorf("%q and %q differ by %q, want %q", c.want, c.got, said, c.says)
		}
	}
}

func TestNamed(t *testing.T) {
	t.Parallel()
	one, two := "call_"+strings.Repeat("a", 26), "call_"+strings.Repeat("b", 26)
	run := "run_" + strings.Repeat("7", 26)
	text := two + " of " + run + "/1, " + one + ", " + two + " until 2026-01-02T03:04:05Z, call_x"
	if got, want := named(text), "call1 of run1/1, call2, call1 until …, call_x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
