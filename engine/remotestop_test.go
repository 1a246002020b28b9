package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/fallback"
	"github.com/cairn-agents/cairn/model/limit"
	"github.com/cairn-agents/cairn/model/record"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// stoppable is a model whose work does not end with its calls. It can be unreachable, so that nothing can be stopped.
type stoppable struct {
	cairn.Model
	mu      sync.Mutex
	away    error
	tries   int
	stopped [][]string // the runs of each stop that was delivered
}

func (m *stoppable) StopTurn(_ context.Context, session string, runs []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tries++; m.away != nil {
		return m.away
	}
	m.stopped = append(m.stopped, append([]string{session}, runs...))
	return nil
}

func (m *stoppable) goes(away error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
}

func (m *stoppable) delivered() [][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.stopped)
}

var errAway = cairn.Errorf(cairn.ErrUnavailable, "it is away")

// speaksElsewhere speaks for an hour, and answers briefly from the second call on.
func speaksElsewhere() *stoppable { return &stoppable{Model: storyteller()} }

// waitsElsewhere asks for an approval.
func waitsElsewhere() *stoppable {
	return &stoppable{Model: scripted.New(scripted.Call("note", in{"n"}), scripted.Text("done"))}
}

func pendingStops(t *testing.T, st *memstore.Store) []store.Record {
	t.Helper()
	page, err := st.Records().List(t.Context(), store.RecordQuery{Namespace: driver.StopRecords})
	if err != nil {
		t.Fatal(err)
	}
	return page.Items
}

// worksFor has an engine work for some time of a fake clock.
func worksFor(t *testing.T, eng *engine.Engine, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := eng.Work(ctx); err != nil {
		t.Fatal(err)
	}
}

// A stop of a run whose model works elsewhere is delivered, at whichever store call of the stop its process dies.
func TestStopIsDeliveredWhereverTheProcessDies(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		model func() *stoppable
		tools []cairn.Tool
		end   func(ctx context.Context, eng *engine.Engine) error
	}{
		{"interrupted at work", speaksElsewhere, nil, func(ctx context.Context, eng *engine.Engine) error { return eng.Interrupt(ctx, "s", "enough") }},
		{"aborted at work", speaksElsewhere, nil, func(ctx context.Context, eng *engine.Engine) error { return eng.Abort(ctx, "s", "enough") }},
		{"interrupted while it waits", waitsElsewhere, []cairn.Tool{echo("note", cairn.RequireApproval())},
			func(ctx context.Context, eng *engine.Engine) error { return eng.Interrupt(ctx, "s", "enough") }},
	}
	for _, c := range cases {
		for _, f := range faults {
			if !strings.HasPrefix(f.name, "the process dies") {
				continue
			}
			t.Run(c.name+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				for k, fired := 1, true; fired; k++ {
					synctest.Test(t, func(t *testing.T) {
						model, st := c.model(), tapOn(nil)
						agent := bot(model, c.tools...)
						eng := open(t, st, agent, shortLease)
						run := start(t, eng, "s", "go")
						testclock.Advance(time.Minute) // it speaks, or waits
						hit := f.arm(st, k, func() {})
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						defer cancel()
						_ = c.end(ctx, eng)
						if fired = hit(); !fired {
							return
						}
						leave(t, eng)
						other := open(t, tapOn(st.Store), agent, shortLease, named("b"))
						if row := load(t, st.Store, "s"); row.Status == cairn.SessionActive || row.Status == cairn.SessionPaused {
							if err := c.end(t.Context(), other); err != nil && !errors.Is(err, cairn.ErrNotRunning) {
								t.Fatal(err)
							}
						}
						worksFor(t, other, 2*time.Minute)
						row, list := load(t, st.Store, "s"), model.delivered()
						if row.Status == cairn.SessionCompleted { // taken over before the stop was recorded
							return
						}
						if len(list) == 0 || !slices.Equal(list[0], []string{"s", run.ID()}) {
							t.Errorf("call %d: delivered %v, the session is %s", k, list, row.Status)
						}
						if left := pendingStops(t, st.Store); len(left) > 0 {
							t.Errorf("call %d: %s is still recorded", k, left[0].Value)
						}
					})
				}
			})
		}
	}
}

// A stop that cannot be delivered is delivered by another process later. Afterwards nothing of it is stored.
func TestStopIsDeliveredLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model, st := speaksElsewhere(), tapOn(nil)
		model.goes(errAway)
		eng := open(t, st, bot(model), shortLease)
		run := start(t, eng, "s", "tell me")
		testclock.Advance(time.Second)
		if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil {
			t.Fatal(err)
		}
		leave(t, eng)
		if n := len(pendingStops(t, st.Store)); n != 1 {
			t.Fatalf("%d stops are recorded", n)
		}
		testclock.Advance(20 * time.Hour)
		stranger := open(t, tapOn(st.Store), &cairn.Agent{Name: "other", Model: speaksElsewhere()}, shortLease, named("c"))
		worksFor(t, stranger, time.Minute)
		model.goes(nil)
		other := open(t, tapOn(st.Store), bot(model), shortLease, named("b"))
		worksFor(t, other, time.Minute)
		if list := model.delivered(); len(list) != 1 || !slices.Equal(list[0], []string{"s", run.ID()}) {
			t.Errorf("delivered %v", list)
		}
		if n := len(pendingStops(t, st.Store)); n != 0 {
			t.Errorf("%d stops are still recorded", n)
		}
	})
}

// The engine whose stop could not be delivered retries it by itself, though it does not work for others.
func TestStopIsTriedAgainWithoutAWorker(t *testing.T) {
	t.Parallel()
	for _, records := range []bool{true, false} {
		t.Run(fmt.Sprint("records=", records), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				model, st := speaksElsewhere(), tapOn(nil)
				model.goes(errAway)
				var on store.Store = st
				if !records {
					on = mute{st, st.log}
				}
				eng := open(t, on, bot(model))
				start(t, eng, "s", "tell me")
				testclock.Advance(time.Second)
				if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil {
					t.Fatal(err)
				}
				testclock.Advance(time.Hour)
				model.goes(nil)
				testclock.Advance(2 * time.Minute)
				if list := model.delivered(); len(list) != 1 {
					t.Errorf("delivered %v", list)
				}
				if n := len(pendingStops(t, st.Store)); n != 0 {
					t.Errorf("%d stops are still recorded", n)
				}
			})
		})
	}
}

// A stop that cannot be delivered for a day is abandoned, and one process logs it. It is retried no more often than its
// pauses allow.
func TestStopIsAbandonedAfterADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model, st := speaksElsewhere(), tapOn(nil)
		model.goes(errAway)
		var words bytes.Buffer
		logs := with(func(o *engine.Options) {
			o.Logger = slog.New(slog.NewTextHandler(&words, &slog.HandlerOptions{Level: slog.LevelError}))
		})
		eng := open(t, st, bot(model), shortLease, logs)
		start(t, eng, "s", "tell me")
		testclock.Advance(time.Second)
		if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil {
			t.Fatal(err)
		}
		leave(t, eng)
		seldom := with(func(o *engine.Options) { o.WorkInterval = 20 * time.Second })
		other := open(t, tapOn(st.Store), bot(model), shortLease, seldom, logs, named("b"))
		worksFor(t, other, 23*time.Hour)
		if n := len(pendingStops(t, st.Store)); n != 1 || words.Len() > 0 {
			t.Errorf("%d stops are recorded after 23 hours; the log says %s", n, &words)
		}
		worksFor(t, other, 90*time.Minute)
		if n := strings.Count(words.String(), "giving up on remote stop"); n != 1 || !strings.Contains(words.String(), "session=s") {
			t.Errorf("the log says %s", &words)
		}
		if n := len(pendingStops(t, st.Store)); n != 0 {
			t.Errorf("%d stops are still recorded", n)
		}
		if model.tries > 2500 { // one each 45 seconds or so
			t.Errorf("it was tried %d times", model.tries)
		}
	})
}

// A stop owed for an earlier run of a turn stops neither the turn that was continued since nor the turn after it.
func TestStopIsNotDeliveredToATurnThatWasContinued(t *testing.T) {
	t.Parallel()
	for _, next := range []string{"continued", "another turn"} {
		t.Run(next, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				model, st := speaksElsewhere(), tapOn(nil)
				model.goes(errAway)
				eng := open(t, st, bot(model), shortLease)
				first := start(t, eng, "s", "tell me")
				testclock.Advance(time.Second)
				if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil {
					t.Fatal(err)
				}
				leave(t, eng)
				other := open(t, tapOn(st.Store), bot(model), shortLease, named("b"))
				want := [][]string(nil)
				if next == "continued" {
					run, err := other.Resume(t.Context(), "s")
					if err != nil {
						t.Fatal(err)
					}
					wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
				} else {
					wantStatus(t, turn(t, other, "s", "next"), cairn.RunCompleted, cairn.ReasonReply)
					want = [][]string{{"s", first.ID()}}
				}
				model.goes(nil)
				worksFor(t, other, 2*time.Minute)
				if list := model.delivered(); !slices.EqualFunc(list, want, slices.Equal[[]string]) {
					t.Errorf("delivered %v, want %v", list, want)
				}
				if n := len(pendingStops(t, st.Store)); n != 0 {
					t.Errorf("%d stops are still recorded", n)
				}
			})
		})
	}
}

// A stop requested by a process without the agent is delivered by one that has it.
func TestStopIsDeliveredByAProcessWithTheAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model, st := waitsElsewhere(), tapOn(nil)
		agent := bot(model, echo("note", cairn.RequireApproval()))
		eng := open(t, st, agent, shortLease)
		run := start(t, eng, "s", "go")
		wait(t, run)
		stranger := open(t, tapOn(st.Store), &cairn.Agent{Name: "other", Model: scripted.New()}, named("c"))
		if err := stranger.Interrupt(t.Context(), "s", "enough"); err != nil {
			t.Fatal(err)
		}
		worksFor(t, eng, time.Minute)
		if list := model.delivered(); len(list) != 1 || list[0][1] != run.ID() {
			t.Errorf("delivered %v", list)
		}
	})
}

// A run that fails, and one whose process died and which another turn interrupts, owe a stop as well; so does one whose
// model is wrapped.
func TestStopIsDeliveredForEachEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, st *tap, model *stoppable, wrap func(cairn.Model) cairn.Model) (first string){
		"failed": func(t *testing.T, st *tap, model *stoppable, wrap func(cairn.Model) cairn.Model) string {
			model.Model = scripted.New(scripted.Call("note", in{"n"}), scripted.Fail(cairn.Errorf(cairn.ErrFiltered, "no")))
			run := start(t, open(t, st, bot(wrap(model), note())), "s", "go")
			wantStatus(t, wait(t, run), cairn.RunFailed, cairn.ReasonError)
			return run.ID()
		},
		"out of steps": func(t *testing.T, st *tap, model *stoppable, wrap func(cairn.Model) cairn.Model) string {
			model.Model = scripted.New(scripted.Call("note", in{"n"}), scripted.Call("note", in{"n"}))
			agent := bot(wrap(model), note())
			agent.MaxSteps = 2
			run := start(t, open(t, st, agent), "s", "go")
			wantStatus(t, wait(t, run), cairn.RunFailed, cairn.ReasonError)
			return run.ID()
		},
		"left behind by another turn": func(t *testing.T, st *tap, model *stoppable, wrap func(cairn.Model) cairn.Model) string {
			run := start(t, open(t, st, bot(wrap(model)), shortLease), "s", "tell me")
			testclock.Advance(time.Second)
			st.cut()
			testclock.Advance(2 * ttl)
			other := open(t, tapOn(st.Store), bot(wrap(model)), shortLease, named("b"))
			wantStatus(t, turn(t, other, "s", "next", engine.WithOnBusy(engine.BusyInterrupt)), cairn.RunCompleted, cairn.ReasonReply)
			return run.ID()
		},
	} {
		for wrapping, wrap := range map[string]func(cairn.Model) cairn.Model{
			" and in a chain": func(m cairn.Model) cairn.Model {
				return fallback.New(nil, limit.New(m, limit.Options{RequestsPerMinute: 1000}), scripted.New())
			},
			"": func(m cairn.Model) cairn.Model { return m },
			" and wrapped": func(m cairn.Model) cairn.Model {
				return record.New(limit.New(m, limit.Options{RequestsPerMinute: 1000}), io.Discard)
			},
		} {
			t.Run(name+wrapping, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					model, st := speaksElsewhere(), tapOn(nil)
					first := end(t, st, model, wrap)
					if list := model.delivered(); len(list) != 1 || !slices.Equal(list[0], []string{"s", first}) {
						t.Errorf("delivered %v, want one of run %s", list, first)
					}
					if n := len(pendingStops(t, st.Store)); n != 0 {
						t.Errorf("%d stops are still recorded", n)
					}
				})
			})
		}
	}
}

// A turn that completes, is suspended or asks a model that works nowhere else costs no record.
func TestNoStopIsPending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		model := &stoppable{Model: scripted.New(scripted.Text("done"))}
		wantStatus(t, turn(t, open(t, st, bot(model)), "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
		eng := open(t, st, bot(storyteller()), named("b"))
		start(t, eng, "b", "tell me")
		testclock.Advance(time.Second)
		if err := eng.Interrupt(t.Context(), "b", "enough"); err != nil {
			t.Fatal(err)
		}
		page, err := st.Records().Namespaces(t.Context(), "")
		if err != nil || len(page.Items) > 0 || model.tries > 0 {
			t.Errorf("records of %v, %d tries; %v", page.Items, model.tries, err)
		}
	})
}
