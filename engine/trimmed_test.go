package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// trimmed is a memory store that records what is trimmed from its logs.
type trimmed struct {
	*memstore.Store
	log *trimmedLog
}

type trimmedLog struct {
	*memstore.Log
	mu    sync.Mutex
	gone  map[string][]cairn.Event
	whole bool // Read pretends that nothing was trimmed
}

func newTrimmed() *trimmed {
	st := memstore.New(nil)
	return &trimmed{Store: st, log: &trimmedLog{Log: st.EventLog().(*memstore.Log), gone: map[string][]cairn.Event{}}}
}

func (s *trimmed) EventLog() store.Log { return s.log }

func (l *trimmedLog) Trim(ctx context.Context, log string, before int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, last, err := l.Bounds(ctx, log)
	if n := min(before, last+1) - first; err == nil && n > 0 {
		var list []cairn.Event
		list, err = l.Log.Read(ctx, log, first-1, int(n))
		l.gone[log] = append(l.gone[log], list...)
	}
	if err != nil {
		return err
	}
	return l.Log.Trim(ctx, log, before)
}

func (l *trimmedLog) Read(ctx context.Context, log string, after int64, limit int) ([]cairn.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if gone := l.gone[log]; l.whole && after < int64(len(gone)) {
		return gone[after:], nil
	}
	return l.Log.Read(ctx, log, after, limit)
}

// wantSoundWhole is wantSound for a tree with everything that was ever on its log.
func (s *trimmed) wantSoundWhole(t *testing.T, id string) {
	t.Helper()
	s.log.whole = true
	defer func() { s.log.whole = false }()
	wantSound(t, s, id)
}

// keepLast trims all but the last events of a session's log.
func (s *trimmed) keepLast(t *testing.T, id string, keep int64) {
	t.Helper()
	_, last := boundsOf(t, s, id)
	if err := s.log.Trim(t.Context(), load(t, s, id).Log(), last+1-keep); err != nil {
		t.Fatal(err)
	}
}

// However much of a log is trimmed while its session is crashed or suspended, the next process leaves a log on which
// everything was published once, as seen by a reader that read all along.
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
		testclock.Advance(2 * ttl)
	}
	suspended := func(t *testing.T, st *memstore.Store) {
		eng := open(t, st, bot(scripted.New(scripted.Text("first"), scripted.Call("ask", in{"?"})), ask), named("a"))
		wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
		if res := turn(t, eng, "s", "and"); res.Status != cairn.RunSuspended {
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
			wantStatus(t, turn(t, eng, "s", "on", withdraw), cairn.RunCompleted, cairn.ReasonReply)
		},
	}
	for past, happened := range pasts {
		for next, then := range nexts {
			for _, keep := range []int64{0, 1, 2, 3, 5, 8} {
				t.Run(fmt.Sprintf("%s/%s/%d kept", past, next, keep), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						st := newTrimmed()
						happened(t, st.Store)
						st.keepLast(t, "s", keep)
						then(t, open(t, st, bot(scripted.New(scripted.Text("done"), scripted.Text("done")), note(), ask), named("b")))
						after := open(t, st, bot(scripted.New(scripted.Text("more")), note(), ask), named("c"))
						wantStatus(t, turn(t, after, "s", "more"), cairn.RunCompleted, cairn.ReasonReply)
						wantQuiet(t, st, after)
						st.wantSoundWhole(t, "s")
					})
				})
			}
		}
	}
}
