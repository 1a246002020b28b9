package testclock_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn/internal/testclock"
)

func TestAdvanceRunsTimersThatAreDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var fired atomic.Int64
		for _, after := range []time.Duration{time.Second, time.Minute, time.Minute + 1} {
			time.AfterFunc(after, func() { fired.Add(1) })
		}
		testclock.Advance(time.Minute)
		if took := time.Since(began); took != time.Minute || fired.Load() != 2 {
			t.Errorf("%s passed and %d timers fired, want a minute and 2", took, fired.Load())
		}
		testclock.Advance(1)
		if fired.Load() != 3 {
			t.Errorf("%d timers fired, want 3", fired.Load())
		}
	})
}

func TestAdvanceOutsideABubble(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("Advance returned outside of a bubble")
		}
	}()
	testclock.Advance(0)
}

func TestPause(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pause func(context.Context, time.Duration) error
		took  time.Duration
		err   error
	}{
		"heeds its context":   {testclock.Pause, time.Second, context.DeadlineExceeded},
		"ignores its context": {func(_ context.Context, d time.Duration) error { testclock.Deaf(d); return nil }, time.Minute, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				if err := test.pause(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
					t.Errorf("undisturbed: %v after %s", err, time.Since(began))
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began = time.Now()
				if err := test.pause(ctx, time.Minute); err != test.err || time.Since(began) != test.took {
					t.Errorf("disturbed: %v after %s, want %v after %s", err, time.Since(began), test.err, test.took)
				}
			})
		})
	}
}

// failing keeps the failure of a test instead of ending it.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Fatalf(format string, args ...any) { f.text = format }

func TestAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		after := func(d time.Duration) func() bool {
			return func() bool { asked++; return time.Since(began) >= d }
		}
		testclock.Await(t, "a minute to pass", after(time.Minute))
		if took := time.Since(began); took > 63*time.Second || asked > 300 {
			t.Errorf("returned after %s and %d questions", took, asked)
		}
		f := &failing{TB: t}
		began = time.Now()
		testclock.Await(f, "an hour to pass", after(time.Hour))
		if took := time.Since(began); took != 2*time.Minute || !strings.HasPrefix(f.text, "waited") {
			t.Errorf("failed with %q after %s", f.text, took)
		}
	})
}
