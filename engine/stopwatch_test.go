package engine_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// watched is a store whose watches of stop requests are imperfect.
type watched struct {
	*tap
	watches atomic.Int64
	watch   watch
}

// watch plays the n-th watch of a store. real passes on what the store publishes, until ctx is done.
type watch func(ctx context.Context, n int64, real func(), yield func(driver.StopNotice, error) bool)

func (w *watched) WatchStops(ctx context.Context) iter.Seq2[driver.StopNotice, error] {
	return func(yield func(driver.StopNotice, error) bool) {
		w.watch(ctx, w.watches.Add(1), func() { w.tap.WatchStops(ctx)(yield) }, yield)
	}
}

// A watch finds stops long before a heartbeat would, at whatever moment they are requested.
func TestStopIsHeardOfWithinASecond(t *testing.T) {
	t.Parallel()
	for name, watch := range map[string]watch{
		"before the watch begins": func(_ context.Context, _ int64, real func(), _ func(driver.StopNotice, error) bool) {
			testclock.Deaf(time.Second)
			real()
		},
		"between two watches": func(_ context.Context, n int64, real func(), yield func(driver.StopNotice, error) bool) {
			if n == 1 {
				yield(driver.StopNotice{}, cairn.Errorf(cairn.ErrUnavailable, "gone"))
				return
			}
			testclock.Deaf(time.Second / 2)
			real()
		},
		"while the watch hears nothing": func(ctx context.Context, _ int64, _ func(), yield func(driver.StopNotice, error) bool) {
			testclock.Deaf(time.Second)
			yield(driver.StopNotice{}, nil)
			<-ctx.Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				run := start(t, open(t, &watched{tap: st, watch: watch}, bot(storyteller())), "s", "tell me")
				testclock.Advance(time.Second / 2)
				begun := time.Now()
				if err := open(t, tapOn(st.Store), bot(storyteller()), named("b")).Interrupt(t.Context(), "s", "enough"); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took > time.Second {
					t.Errorf("the stop took %s", took)
				}
				wantStatus(t, wait(t, run), cairn.RunInterrupted, cairn.ReasonInterrupted)
			})
		})
	}
}

// A stop may be requested as soon as the store knows of a run.
func TestStopThatComesWhileARunBegins(t *testing.T) {
	t.Parallel()
	for name, passedOn := range map[string]bool{"and is told": true, "and may have been missed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st, missed := tapOn(nil), make(chan struct{}, 1)
				ours := &watched{tap: st, watch: func(ctx context.Context, _ int64, real func(), yield func(driver.StopNotice, error) bool) {
					if passedOn {
						real()
						return
					}
					for {
						select {
						case <-missed:
							yield(driver.StopNotice{}, nil)
						case <-ctx.Done():
							return
						}
					}
				}}
				eng := open(t, ours, bot(scripted.New(scripted.Text("hello"), scripted.Reply(scripted.Text("well "), scripted.Pause(time.Hour)))))
				turn(t, eng, "other", "hi") // from here on the process watches
				st.stepIn(nil, func(ctx context.Context, op string) error {
					if op != "Commit" {
						return nil
					}
					st.stepIn(nil, nil)
					row, err := driver.Load(ctx, st.Store, "s")
					if err == nil {
						err = st.Store.RequestStop(ctx, "s", cairn.Stop{RunID: row.RunID, Kind: cairn.StopInterrupt})
					}
					missed <- struct{}{}
					synctest.Wait() // until the watch has passed it on
					return err
				})
				begun := time.Now()
				res := wait(t, start(t, eng, "s", "go"))
				if took := time.Since(begun); took > time.Second {
					t.Errorf("the stop took %s", took)
				}
				wantStatus(t, res, cairn.RunInterrupted, cairn.ReasonInterrupted)
			})
		})
	}
}

func TestStopThatComesWhileAnEffectBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, h := tapOn(nil), &byHand{}
		eng := open(t, st, bot(storyteller()), hostedBy(h))
		start(t, eng, "s", "tell me")
		b := h.begun[0]
		st.stepIn(nil, func(ctx context.Context, op string) error {
			if op == "Read" { // which has not found it
				st.stepIn(nil, nil)
				if err := st.Store.RequestStop(ctx, "s", cairn.Stop{RunID: b.RunID, Kind: cairn.StopInterrupt}); err != nil {
					t.Error(err)
				}
				synctest.Wait() // until the watch has passed it on
			}
			return nil
		})
		begun := time.Now()
		carry(t, eng, host.EffectPlan, next(b, ""))
		if took := time.Since(begun); took > time.Second {
			t.Errorf("the stop took %s", took)
		}
		if out := carry(t, eng, host.EffectCommit, next(b, "")); out != `{"ended":true,"status":"interrupted"}` {
			t.Errorf("the step came to %s", out)
		}
	})
}
