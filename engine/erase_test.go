package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// Everything of one user is erased, in any state, and nothing of another.
func TestEraseUser(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := &broken{Store: memstore.New(nil)}
		helper := &cairn.Agent{Name: "helper", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("ok") })}
		agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			switch last := req.Messages[len(req.Messages)-1]; {
			case last.Text() == "wait":
				return scripted.Pause(time.Hour)
			case last.Role == cairn.RoleUser:
				return scripted.Call("helper", task{"go"})
			}
			return scripted.Text("done")
		}), cairn.SubAgent(helper))
		eng := open(t, st, agent)
		ada, bob := engine.WithUser("ada"), engine.WithUser("bob")
		turn(t, eng, "idle", "go", ada)
		turn(t, eng, "deleted", "go", ada)
		turn(t, eng, "stuck", "go", ada)
		turn(t, eng, "bob's", "go", bob)
		turn(t, eng, "expired", "go", ada, engine.WithExpiry(time.Now().Add(time.Minute)))
		testclock.Advance(2 * time.Minute)
		start(t, open(t, st, agent, named("b")), "running", "wait", ada) // in another process
		if err := eng.Delete(t.Context(), "deleted"); err != nil {
			t.Fatal(err)
		}
		logs := map[string]string{}
		for _, id := range []string{"idle", "running"} {
			logs[id] = load(t, st, id).Log()
		}
		testclock.Advance(time.Second)

		put := func(key, user string) {
			w := store.RecordWrite{Namespace: store.UserRecords, Key: key, Index: driver.UserIndex(user), Value: []byte("1"), Seen: store.AnyVersion}
			if _, err := eng.Records().Put(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 120 { // more than a page
			put(fmt.Sprint("a/", i), "ada")
		}
		put("b", "bob")

		st.fail("Remove stuck")
		r, err := eng.EraseUser(t.Context(), "ada")
		if err != nil || r.Erased != 4 || r.Stopped != 1 || r.Failed != 1 || r.Errors[0].SessionID != "stuck" || r.Records != 120 {
			t.Fatalf("report %+v, %v", r, err)
		}
		st.fail()
		if r, err = eng.EraseUser(t.Context(), "ada"); err != nil || r.Erased != 1 || r.Failed != 0 {
			t.Fatalf("what was left: %+v, %v", r, err)
		}
		if r, err = eng.EraseUser(t.Context(), "ada"); err != nil || r.Erased != 0 {
			t.Fatalf("nothing is left, and yet %+v, %v", r, err)
		}
		if page, err := eng.Records().List(t.Context(), store.RecordQuery{Namespace: store.UserRecords}); err != nil || len(page.Items) != 1 || page.Items[0].Key != "b" {
			t.Errorf("the records are %+v, %v", page.Items, err)
		}
		for _, removed := range [][]store.Removal{nil, {store.Deleted, store.Expired}} {
			page, err := eng.Sessions(t.Context(), store.SessionQuery{UserID: "ada", Removed: removed})
			if err != nil || len(page.Items) > 0 {
				t.Errorf("of %v are left %+v, %v", removed, page.Items, err)
			}
		}
		for _, id := range []string{"idle", "deleted", "expired", "running", "stuck"} {
			if _, err := driver.Load(t.Context(), st, id); driver.IsGone(err) || err == nil {
				t.Errorf("the id %s is not free: %v", id, err)
			}
		}
		for id, log := range logs {
			if events, err := st.EventLog().Read(t.Context(), log, 0, 10); len(events) > 0 {
				t.Errorf("the log of %s has %d events, %v", id, len(events), err)
			}
		}
		if n, err := driver.CountTree(t.Context(), st, "bob's"); err != nil || n != 2 {
			t.Errorf("of another user are left %d sessions, %v", n, err)
		}
		_, err = eng.EraseUser(t.Context(), "")
		wantError(t, err, cairn.ErrInvalid)
	})
}

// appends is a log that keeps the types of the appended events.
type appends struct {
	*memstore.Log
	types []cairn.EventType
	drops error
}

func (l *appends) Append(ctx context.Context, log string, expect int64, list ...cairn.Event) (int64, error) {
	for i := range list {
		l.types = append(l.types, list[i].Type)
	}
	return l.Log.Append(ctx, log, expect, list...)
}

func (l *appends) Drop(ctx context.Context, log string) error {
	if l.drops != nil {
		return l.drops
	}
	return l.Log.Drop(ctx, log)
}

// An erased session's log is dropped at once, so that nothing is appended to it: its readers end with ErrDeleted. If it
// cannot be dropped, the session stays deleted, and its log says so.
func TestEraseAppendsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &appends{Log: memstore.New(nil).EventLog().(*memstore.Log)}
		eng := open(t, memstore.New(nil), bot(scripted.New(scripted.Text("one"), scripted.Text("two"))),
			with(func(o *engine.Options) { o.Log = log }))
		turn(t, eng, "s", "go")
		ended := make(chan error, 1)
		go func() {
			var last error
			for _, err := range eng.Events(t.Context(), "s", cairn.Cursor{}) {
				last = err
			}
			ended <- last
		}()
		synctest.Wait()
		log.types = nil
		if err := eng.Erase(t.Context(), "s"); err != nil || len(log.types) > 0 {
			t.Errorf("the erasure appended %v, %v", log.types, err)
		}
		wantError(t, <-ended, cairn.ErrDeleted)

		turn(t, eng, "stuck", "go")
		log.types, log.drops = nil, cairn.Errorf(cairn.ErrUnavailable, "the log is away")
		if err := eng.Erase(t.Context(), "stuck"); !errors.Is(err, cairn.ErrUnavailable) || fmt.Sprint(log.types) != "[session_deleted]" {
			t.Errorf("the erasure that failed appended %v, %v", log.types, err)
		}
	})
}

// Sweeps and erasures report how far they are. Interrupted, they report what was done.
func TestRemovalReportsItsProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		eng := open(t, st, bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("ok") })))
		for i := range 6 {
			turn(t, eng, fmt.Sprint("old-", i), "go", engine.WithExpiry(time.Now().Add(time.Minute)))
			turn(t, eng, fmt.Sprint("ada-", i), "go", engine.WithUser("ada"))
		}
		testclock.Advance(2 * time.Minute)
		for round := range 2 { // the first is interrupted
			ctx, stop := context.WithCancel(t.Context())
			var swept []int
			r, err := eng.Sweep(ctx, func(r engine.SweepReport) {
				if swept = append(swept, r.Expired); round == 0 && r.Expired == 4 {
					stop()
				}
			})
			if round == 0 && (!errors.Is(err, context.Canceled) || r.Expired != 4 || fmt.Sprint(swept) != "[1 2 3 4]") ||
				round == 1 && (err != nil || r.Expired != 2 || fmt.Sprint(swept) != "[1 2]") {
				t.Errorf("sweep %d: %+v, %v, with the progress %d", round, r, err, swept)
			}
			stop()
		}
		for round, want := range []int{4, 6} {
			ctx, stop := context.WithCancel(t.Context())
			var erased []int
			e, err := eng.EraseUser(ctx, "ada", func(r engine.EraseReport) {
				if erased = append(erased, r.Erased); round == 0 && r.Erased == 4 {
					stop()
				}
			})
			if got := e.Erased + 4*round; got != want || (err != nil) != (round == 0) || len(erased) != e.Erased {
				t.Errorf("erasure %d: %+v, %v, with the progress %d", round, e, err, erased)
			}
			stop()
		}
	})
}

// The memory of one user is erased, with those of the user's sessions, and nothing of another.
func TestEraseUserForgets(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	eng := open(t, st, bot(scripted.New(scripted.Text("ok"))))
	turn(t, eng, "ada's", "go", engine.WithUser("ada"))
	kept := []driver.MemoryScope{driver.UserMemories("bob"), {Kind: driver.MemoryOfGroup, Name: "ada"}, driver.SessionMemories("other", "")}
	s := load(t, st, "ada's")
	gone := []driver.MemoryScope{driver.UserMemories("ada"), driver.SessionMemories(s.ID, s.Incarnation)}
	for _, scope := range append(kept, gone...) {
		if _, err := st.Memories().Write(t.Context(), driver.MemoryWrite{Scope: scope, Puts: []driver.MemoryEntry{{Key: "k", Value: []byte("v")}}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []bool{true, false} {
		r, err := eng.EraseUser(t.Context(), "ada")
		if err != nil || r.Memory != want {
			t.Fatalf("report %+v, error %v; want memory %t", r, err, want)
		}
	}
	page, err := st.Memories().Scopes(t.Context(), driver.MemoryScopeQuery{})
	if err != nil || len(page.Items) != len(kept) {
		t.Fatalf("scopes %+v, error %v", page.Items, err)
	}
	for _, row := range page.Items {
		if row.Kind == driver.MemoryOfUser && row.Name == "ada" {
			t.Error("the user's memory is still there")
		}
	}
}
