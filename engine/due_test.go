package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// abandoned creates sessions of an agent whose runs a dead process left behind.
func abandoned(t *testing.T, st store.Store, agent string, n int) {
	t.Helper()
	for i := range n {
		id := fmt.Sprint(agent, i)
		_, err := st.Commit(t.Context(), id, &driver.Commit{Guard: driver.Guard{New: true}, Create: &cairn.Session{Agent: agent},
			StartRun: &cairn.Run{ID: "run_" + id, Agent: agent, Kind: cairn.RunExecute, Status: cairn.RunRunning},
			Messages: []cairn.Message{{ID: id, Role: cairn.RoleUser, Parts: []cairn.Part{cairn.TextPart("go")}}},
			Status:   cairn.SessionActive, Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "dead", TTL: time.Second}})
		if err != nil {
			t.Fatal(err)
		}
	}
	testclock.Advance(time.Minute)
}

// serve has an engine work for a time of a fake clock.
func serve(t *testing.T, eng *engine.Engine, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := eng.Work(ctx); err != nil {
		t.Error(err)
	}
}

func quiet(o *engine.Options) { o.SweepInterval = -1; o.WorkInterval = time.Second }

// Sessions that a worker does not serve hide nothing, and are reported once.
func TestWorkerSeesItsOwnBehindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		st := tapOn(nil)
		abandoned(t, st, "other", 1000)
		abandoned(t, st, "bot", 1)
		eng := open(t, st, bot(scripted.New(scripted.Text("done"))), quiet,
			with(func(o *engine.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }))
		serve(t, eng, 3*time.Second)
		if row := load(t, st, "bot0"); row.Status != cairn.SessionCompleted {
			t.Errorf("the worker's own session is %s", row.Status)
		}
		said := strings.Count(log.String(), "agent=other")
		if said != 1 || strings.Count(log.String(), "not taken on") > 0 {
			t.Errorf("of sessions that are not served the log speaks %d times:\n%.2000s", said, log.String())
		}
	})
}

// Sessions that cannot be claimed, whatever their number, hide nothing either.
func TestWorkerLooksPastWhatItCannotTakeOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &unreadable{tap: tapOn(nil), err: cairn.Errorf(cairn.ErrUnavailable, "its part of the store is down")}
		st.which = func(id string) bool {
			return id != "bot" && strings.HasPrefix(id, "bot") && len(id) > 3 && id != "bot-own"
		}
		abandoned(t, st.tap, "bot", 700)
		_, err := st.tap.Commit(t.Context(), "bot-own", &driver.Commit{Guard: driver.Guard{New: true}, Create: &cairn.Session{Agent: "bot"},
			StartRun: &cairn.Run{ID: "own", Agent: "bot", Kind: cairn.RunExecute, Status: cairn.RunRunning}, Status: cairn.SessionActive,
			Messages: []cairn.Message{{ID: "m", Role: cairn.RoleUser, Parts: []cairn.Part{cairn.TextPart("go")}}},
			Lease:    driver.LeaseChange{Action: driver.LeaseTake, Owner: "dead", TTL: time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		testclock.Advance(2 * time.Second)
		serve(t, open(t, st, bot(scripted.New(scripted.Text("done"))), quiet), 3*time.Second)
		if row := load(t, st.tap, "bot-own"); row.Status != cairn.SessionCompleted {
			t.Errorf("the session that can be read is %s", row.Status)
		}
	})
}

// A session with unreadable data is failed, with the reason, and is not retried forever.
func TestSessionThatCannotBeReadIsFailed(t *testing.T) {
	waits := func(t *testing.T, st store.Store) {
		turn(t, open(t, st, asking(), named("a")), "bot0", "go")
		testclock.Advance(10 * time.Minute)
	}
	for name, leave := range map[string]func(t *testing.T, st store.Store){
		"crashed": func(t *testing.T, st store.Store) { abandoned(t, st, "bot", 1) }, "waiting": waits,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &unreadable{tap: tapOn(nil), err: cairn.Errorf(cairn.ErrCorrupt, "stored message does not decode")}
				leave(t, st.tap)
				st.which = func(string) bool { return true }
				serve(t, open(t, st, asking(), named("b"), quiet), 5*time.Minute)
				row := load(t, st.tap, "bot0")
				run, err := driver.FindRun(t.Context(), st.tap, "bot0", row.RunID)
				if err != nil || row.Status != cairn.SessionFailed || run.Status != cairn.RunFailed || run.Error == nil || run.Error.Code != cairn.ErrCorrupt {
					t.Fatalf("the session is %s, its run %+v, %v", row.Status, run, err)
				}
				if due := dueOf(t, st.tap); len(due) > 0 {
					t.Errorf("due: %+v", due)
				}
				if n := st.tries.Load(); n > 3 {
					t.Errorf("it was read %d times", n)
				}
				events := history(t, st.tap, "bot0")
				if last := events[len(events)-1]; last.Type != cairn.EventRunEnd || last.Status != cairn.RunFailed {
					t.Errorf("the last event is %s %s", last.Type, last.Status)
				}
				page, err := st.tap.Calls(t.Context(), store.CallQuery{Statuses: []cairn.CallStatus{cairn.CallOpen}})
				if err != nil || len(page.Items) > 0 {
					t.Errorf("open calls: %+v, %v", page.Items, err)
				}
			})
		})
	}
}

// unreadable is a store with sessions that cannot be read in full.
type unreadable struct {
	*tap
	err   error
	which func(id string) bool
	tries atomic.Int32
}

func (s *unreadable) Read(ctx context.Context, id string, want driver.Want) (*driver.Contents, error) {
	if want.State && s.which(id) {
		s.tries.Add(1)
		return nil, s.err
	}
	return s.tap.Read(ctx, id, want)
}

// A worker that is asked to stop while it claims a session finishes that: otherwise the session would have a lease that
// no process renews or releases.
func TestWorkerThatStopsFinishesTakingOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		agent := bot(counter(1))
		abandoned(t, st.Store, agent.Name, 1)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		st.stepIn(nil, func(ctx context.Context, op string) error {
			if op == "Commit" {
				stop()
			}
			return ctx.Err() // a caller that is gone gets no answer
		})
		eng := open(t, st, agent, quiet)
		if err := eng.Work(ctx); err != nil {
			t.Error(err)
		}
		testclock.Advance(time.Second)
		if row := load(t, st.Store, agent.Name+"0"); row.Status != cairn.SessionCompleted {
			t.Errorf("the session is %s, with the lease %+v", row.Status, row.Lease)
		}
	})
}

// A worker that is cut off while it claims a session releases the lease.
func TestTakingOverThatIsCutOffGivesTheLeaseBack(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"Commit", "Snapshot"} {
		synctest.Test(t, func(t *testing.T) {
			st := tapOn(nil)
			agent := bot(counter(1))
			abandoned(t, st.Store, agent.Name, 1)
			ctx, cut := context.WithCancel(t.Context())
			defer cut()
			took := false
			st.stepIn(nil, func(ctx context.Context, what string) error {
				if took = took || what == "Commit"; took && what == op {
					cut()
				}
				return ctx.Err()
			})
			if _, err := open(t, st, agent).Resume(ctx, agent.Name+"0"); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", op, err)
			}
			if row := load(t, st.Store, agent.Name+"0"); !row.Crashed(row.AsOf) || row.Recoveries != 1 {
				t.Errorf("%s: the session is %s after %d recoveries, with the lease %+v", op, row.Status, row.Recoveries, row.Lease)
			}
		})
	}
}
