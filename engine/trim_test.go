package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// unabridged is a memory store whose log, as a test reads it, still has what was trimmed through trim.
type unabridged struct {
	*memstore.Store
	trimmed []cairn.Event
}

// trim removes the events of a session's log but for the last keep.
func (s *unabridged) trim(t *testing.T, id string, keep int64) {
	t.Helper()
	log := load(t, s.Store, id).Log()
	all, err := s.Read(t.Context(), log, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	before := max(int64(len(all))+1-keep, 1)
	s.trimmed = slices.Clone(all[:before-1])
	if err := s.Store.EventLog().Trim(t.Context(), log, before); err != nil {
		t.Fatal(err)
	}
}

// Read reads what was trimmed and then what is left.
func (s *unabridged) Read(ctx context.Context, log string, after int64, limit int) ([]cairn.Event, error) {
	if n := int64(len(s.trimmed)); after < n {
		return s.trimmed[after:], nil
	}
	return s.Store.EventLog().Read(ctx, log, after, limit)
}

func (s *unabridged) EventLog() store.Log { return readAs{s.Store.EventLog(), s} }

// readAs is a log that is read elsewhere.
type readAs struct {
	store.Log
	from *unabridged
}

func (l readAs) Read(ctx context.Context, log string, after int64, limit int) ([]cairn.Event, error) {
	return l.from.Read(ctx, log, after, limit)
}

// However much of a log is trimmed while its session is crashed or suspended, what the next process does leaves a log on which
// everything was published once, as a reader has it who read all along.
func TestWhatWasTrimmedIsNotPublishedAgain(t *testing.T) {
	t.Parallel()
	ask := cairn.ClientTool[in, string]("ask", "Asks.")
	script := func(cut func()) *cairn.Agent {
		a := bot(scripted.New(scripted.Call("note", in{"1"}), scripted.Reply(scripted.Text("half "), scripted.Do(cut), scripted.Pause(time.Hour))), note())
		return a
	}
	// crashed leaves a run whose process died in its first or second step.
	crashed := func(t *testing.T, st *memstore.Store, agent func(cut func()) *cairn.Agent) {
		tp := tapOn(st)
		start(t, open(t, tp, agent(tp.cut), shortLease, named("a")), "s", "go")
		time.Sleep(2 * ttl)
	}
	suspended := func(t *testing.T, st *memstore.Store) {
		eng := open(t, st, bot(scripted.New(scripted.Text("first"), scripted.Call("ask", in{"?"})), ask), named("a"))
		wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
		if res := turn(t, eng, "s", "and"); !res.Status.Suspends() {
			t.Fatal(res.Status)
		}
	}
	pasts := map[string]func(t *testing.T, st *memstore.Store){
		"crashed in the first step": func(t *testing.T, st *memstore.Store) {
			crashed(t, st, func(cut func()) *cairn.Agent {
				return bot(scripted.New(scripted.Reply(scripted.Text("half "), scripted.Do(cut), scripted.Pause(time.Hour))), note(), ask)
			})
		},
		"crashed in the second step": func(t *testing.T, st *memstore.Store) { crashed(t, st, script) },
		"crashed in the third turn": func(t *testing.T, st *memstore.Store) {
			eng := open(t, st, bot(scripted.New(scripted.Text("one"), scripted.Text("two"))), named("z"))
			turn(t, eng, "s", "one")
			turn(t, eng, "s", "two")
			crashed(t, st, script)
		},
		"suspended": suspended,
		"completed": func(t *testing.T, st *memstore.Store) {
			eng := open(t, st, counterBot(2), named("a"))
			for range 3 {
				wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
			}
		},
	}
	nexts := map[string]func(t *testing.T, eng *engine.Engine){
		"recovered, resumed or nothing": func(t *testing.T, eng *engine.Engine) {
			if row, err := eng.Session(t.Context(), "s"); err != nil {
				t.Fatal(err)
			} else if row.Status == cairn.SessionPaused {
				answerAll(t, eng, "s")
			} else if row.Status == cairn.SessionCompleted {
				return
			}
			run, err := eng.Resume(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		},
		"interrupted": func(t *testing.T, eng *engine.Engine) {
			if row, err := eng.Session(t.Context(), "s"); err != nil {
				t.Fatal(err)
			} else if row.Status == cairn.SessionCompleted {
				return
			}
			if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
				t.Fatal(err)
			}
		},
		"replaced by another turn": func(t *testing.T, eng *engine.Engine) {
			wantStatus(t, turn(t, eng, "s", "on"), cairn.RunCompleted, cairn.ReasonReply)
		},
	}
	for past, happened := range pasts {
		for next, then := range nexts {
			for _, keep := range []int64{0, 1, 2, 3, 5, 8} {
				t.Run(fmt.Sprintf("%s/%s/%d kept", past, next, keep), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						st := &unabridged{Store: memstore.New(nil)}
						happened(t, st.Store)
						st.trim(t, "s", keep)
						then(t, open(t, st.Store, bot(scripted.New(scripted.Text("done")), note(), ask), named("b")))
						after := open(t, st.Store, bot(scripted.New(scripted.Text("more")), note(), ask), named("c"))
						wantStatus(t, turn(t, after, "s", "more"), cairn.RunCompleted, cairn.ReasonReply)
						wantQuiet(t, st, after)
						wantSound(t, st, "s")
					})
				})
			}
		}
	}
}

// wantQuiet checks that a reader of what is left of the log finds nothing to complete.
func wantQuiet(t *testing.T, st *unabridged, eng *engine.Engine) {
	t.Helper()
	log := load(t, st.Store, "s").Log()
	_, last, err := st.Store.EventLog().Bounds(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, err := range eng.Events(ctx, "s", cairn.After(last)) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, now, err := st.Store.EventLog().Bounds(t.Context(), log); err != nil || now != last {
		t.Errorf("a reader made the log grow from %d to %d: %v", last, now, err)
	}
}

func counterBot(n int) *cairn.Agent { return bot(counter(n), note()) }

// answerAll answers what a session waits for with "yes".
func answerAll(t *testing.T, eng *engine.Engine, id string) {
	t.Helper()
	page, err := eng.Inbox(t.Context(), store.CallQuery{RootID: id, Statuses: []cairn.CallStatus{cairn.CallOpen}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range page.Items {
		if _, err := eng.Submit(t.Context(), id, cairn.Answer(page.Items[i].CallRef, "yes")); err != nil {
			t.Fatal(err)
		}
	}
}
