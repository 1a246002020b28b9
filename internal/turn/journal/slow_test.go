package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// slowLog is a log whose appends take a while, or until they are cancelled.
type slowLog struct {
	*memstore.Log
	delay   time.Duration
	fail    error // of every append
	appends atomic.Int64
	running atomic.Int64 // appends under way
}

func (l *slowLog) AppendFenced(ctx context.Context, log string, expect int64, w driver.Writer, events ...cairn.Event) (int64, error) {
	if l.appends.Add(1); l.running.Add(1) > 1 {
		panic("two appends of an emitter at once")
	}
	defer l.running.Add(-1)
	if testclock.Pause(ctx, l.delay) != nil {
		return 0, context.Cause(ctx)
	}
	if l.fail != nil {
		return 0, l.fail
	}
	return l.Log.AppendFenced(ctx, log, expect, w, events...)
}

const forever = 1000 * time.Hour

// newSlowEmitter returns an emitter for a slow log with a coalescing window of 20 ms.
func newSlowEmitter(t *testing.T, delay time.Duration) (e *Emitter, log *slowLog, text func() string) {
	e, logged := newTestEmitter(t, 1<<20, 20*time.Millisecond)
	log = &slowLog{Log: e.g.Log.(*memstore.Log), delay: delay}
	e.g.Log = log
	return e, log, func() (text string) {
		for _, ev := range logged() {
			text += ev.Text
		}
		return text
	}
}

func textDelta(text string) cairn.Event {
	return cairn.Event{Type: cairn.EventTextDelta, Step: 1, Text: text}
}

// TestSlowLogDoesNotSlowTheStream emits a delta each millisecond for a second. The number of appends depends on how long
// they take.
func TestSlowLogDoesNotSlowTheStream(t *testing.T) {
	t.Parallel()
	for delay, most := range map[time.Duration]int64{0: 52, 5 * time.Millisecond: 52, 100 * time.Millisecond: 12, 400 * time.Millisecond: 4, 5 * time.Second: 2} {
		t.Run(delay.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, log, text := newSlowEmitter(t, delay)
				began, want := time.Now(), ""
				e.Event(cairn.Event{Type: cairn.EventStepStart, Step: 1})
				for n := range 1000 {
					delta := fmt.Sprint(n, " ")
					want += delta
					e.Event(textDelta(delta))
					testclock.Advance(time.Millisecond)
				}
				if took := time.Since(began); took != time.Second {
					t.Errorf("the stream took %s, want 1s", took)
				}
				if err := e.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := text(); got != want {
					t.Errorf("the log has the text %q", got)
				}
				if n := log.appends.Load(); n > most {
					t.Errorf("%d appends, want at most %d", n, most)
				}
			})
		})
	}
}

// TestBufferOfABlockedLogIsBounded emits to a log that does not answer until the emitter waits for it.
func TestBufferOfABlockedLogIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _, text := newSlowEmitter(t, time.Hour)
		began := time.Now()
		var emitted atomic.Int64
		go func() {
			for range 3 * maxHeld >> 10 {
				e.Event(textDelta(strings.Repeat("x", 1<<10)))
				emitted.Add(1 << 10)
			}
		}()
		testclock.Advance(time.Minute)
		if n := emitted.Load(); n < maxHeld/2 || n > 2*maxHeld {
			t.Errorf("%d bytes emitted while an append is under way, want about %d", n, maxHeld)
		}
		testclock.Advance(10 * time.Hour)
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(text()); n != 3*maxHeld {
			t.Errorf("%d bytes on the log after %s, want %d", n, time.Since(began), 3*maxHeld)
		}
	})
}

// TestFirstTextIsNotHeldBack emits the first event of a step that a reader waits for: text and reasoning at once,
// arguments with the rest of the window.
func TestFirstTextIsNotHeldBack(t *testing.T) {
	t.Parallel()
	for kind, atOnce := range map[cairn.EventType]bool{cairn.EventTextDelta: true, cairn.EventThinking: true, cairn.EventToolArgDelta: false} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, logged := newTestEmitter(t, 1<<20, 20*time.Millisecond)
				e.Event(cairn.Event{Type: cairn.EventStepStart, Step: 1})
				e.Event(cairn.Event{Type: kind, Step: 1, CallID: "call", Text: "first"})
				synctest.Wait()
				if got := len(logged()) == 2; got != atOnce {
					t.Errorf("on the log at once: %t, want %t", got, atOnce)
				}
				testclock.Advance(20 * time.Millisecond)
				if n := len(logged()); n != 2 {
					t.Errorf("%d events after the window", n)
				}
			})
		})
	}
}

// TestFlushReportsErrorsOfTheBackground loses the lease while the stream runs.
func TestFlushReportsErrorsOfTheBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, log, text := newSlowEmitter(t, time.Millisecond)
		log.fail = driver.Fenced("s", e.writer, 7)
		for range 10 {
			e.Event(textDelta("words "))
			testclock.Advance(10 * time.Millisecond)
		}
		if err := e.Flush(t.Context()); !errors.Is(err, cairn.ErrFenced) {
			t.Errorf("flush: %v, want ErrFenced", err)
		}
		if got := text(); got != "" {
			t.Errorf("the log has %q", got)
		}
	})
}

// TestFlushWaitsForTheBackground flushes, before a commit for example, while an append is under way.
func TestFlushWaitsForTheBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _, text := newSlowEmitter(t, time.Second)
		e.Event(cairn.Event{Type: cairn.EventStepStart, Step: 1})
		e.Event(textDelta("one "))
		synctest.Wait()
		e.Event(textDelta("two"))
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := e.Flush(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("flush with a context that ends: %v", err)
		}
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := text(); got != "one two" || e.Position() != 3 {
			t.Errorf("the log has %q up to %d", got, e.Position())
		}
	})
}

// TestCloseCancelsTheBackground closes an emitter whose log does not answer, as an abandoned run does. The test ends only
// if the goroutine that appends does.
func TestCloseCancelsTheBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, log, _ := newSlowEmitter(t, forever)
		e.Event(cairn.Event{Type: cairn.EventStepStart, Step: 1})
		e.Event(textDelta("words"))
		synctest.Wait()
		if n := log.running.Load(); n != 1 {
			t.Fatalf("%d appends under way", n)
		}
		e.Close()
		synctest.Wait()
		if n := log.running.Load(); n != 0 {
			t.Errorf("%d appends under way after Close", n)
		}
	})
}

// TestWithoutAWindowEventsAreWrittenAtOnce checks that each event is on the log when Event returns, unmerged.
func TestWithoutAWindowEventsAreWrittenAtOnce(t *testing.T) {
	t.Parallel()
	e, logged := newTestEmitter(t, 1<<20, 0)
	for n := range 10 {
		e.Event(textDelta("words"))
		if got := len(logged()); got != n+1 {
			t.Fatalf("%d events on the log, want %d", got, n+1)
		}
	}
}
