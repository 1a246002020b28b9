package journal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// newOwnEmitter returns an emitter whose events commits take along, for a log with appends that take as long as delay.
func newOwnEmitter(t *testing.T, delay time.Duration) (e *Emitter, log *slowLog, told func() string) {
	e, logged := newTestEmitter(t, 1<<20, 20*time.Millisecond)
	log = &slowLog{Log: e.g.Log.(*memstore.Log), delay: delay}
	e.g.Log, e.g.Own = log, true
	return e, log, func() string {
		var list []string
		for _, ev := range logged() {
			list = append(list, string(ev.Type)+ev.Name)
		}
		return strings.Join(list, " ")
	}
}

func custom(name string) cairn.Event { return cairn.Event{Type: cairn.EventCustom, Name: name} }

func hand(t *testing.T, e *Emitter) *Handed {
	t.Helper()
	h, err := e.Hand(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// commit appends what a commit takes with it, as the store does, and reports it to the emitter.
func (l *slowLog) commit(t *testing.T, h *Handed, marks ...cairn.Event) {
	t.Helper()
	last, err := l.Log.Append(t.Context(), "s", driver.AnySequence, h.With(marks...)...)
	if err != nil {
		t.Fatal(err)
	}
	h.Done(&cairn.Session{ID: "s", RootID: "s", LogSequence: last})
}

// A commit takes what is held back, in order and ahead of its own events. Nothing is appended until it is done. What
// comes meanwhile follows.
func TestCommitTakesWhatIsHeldBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, log, told := newOwnEmitter(t, 0)
		for n := range 100 { // buffers are used again
			e.Event(custom("-a"))
			e.Event(custom("-b"))
			h := hand(t, e)
			e.Event(custom("-c"))
			testclock.Advance(time.Second)
			if log.appends.Load() != int64(n) {
				t.Fatal("the emitter appends while a commit has its events")
			}
			log.commit(t, h, StepCommitted(1, 2))
			testclock.Advance(10 * time.Millisecond) // inside the window, so that the next event is held back
			if want := strings.TrimSpace(strings.Repeat("custom-a custom-b step_committed custom-c ", n+1)); told() != want {
				t.Fatalf("the log has %s", told())
			}
			if want := int64(4 * (n + 1)); e.Position() != want {
				t.Fatalf("position %d, want %d", e.Position(), want)
			}
		}
		e.Close()
	})
}

// What a refused commit gives back stays ahead of what came meanwhile, and goes with the next commit.
func TestRefusedCommitGivesBackInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, log, told := newOwnEmitter(t, 0)
		e.Event(custom("-a"))
		for range 3 {
			h := hand(t, e)
			held := h.held
			e.Event(custom("-b"))
			h.Back()
			if e.held <= held {
				t.Errorf("%d bytes are held, of which %d were given back", e.held, held)
			}
		}
		h := hand(t, e)
		e.Event(custom("-c"))
		log.commit(t, h)
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := "custom-a custom-b custom-b custom-b custom-c"; told() != want {
			t.Errorf("the log has %s, want %s", told(), want)
		}
	})
}

// A batch whose append failed may be on the log. It is sent before a commit takes what follows, and if that fails the
// commit is not made.
func TestFailedBatchIsSentBeforeTheCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, log, told := newOwnEmitter(t, 0)
		log.fail = cairn.Errorf(cairn.ErrInternal, "the disk is full")
		e.Event(custom("-a"))
		if e.Flush(t.Context()) == nil {
			t.Fatal("the append did not fail")
		}
		e.Event(custom("-b"))
		if _, err := e.Hand(t.Context()); err == nil {
			t.Fatal("a commit would be made behind events that are lost")
		}
		log.fail = nil
		h := hand(t, e)
		if told() != "custom-a" {
			t.Errorf("before the commit the log has %q", told())
		}
		log.commit(t, h)
		if want := "custom-a custom-b"; told() != want {
			t.Errorf("the log has %s, want %s", told(), want)
		}
	})
}

// A commit waits for the append under way, or until its context ends.
func TestCommitWaitsForTheBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, log, told := newOwnEmitter(t, time.Minute)
		e.Event(custom("-a"))
		testclock.Advance(time.Second) // it is under way
		e.Event(custom("-b"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := e.Hand(ctx); err == nil {
			t.Error("a commit took events beside an append")
		}
		log.commit(t, hand(t, e))
		if want := "custom-a custom-b"; told() != want {
			t.Errorf("the log has %s, want %s", told(), want)
		}
	})
}

// An event that the log cannot keep does not fail the commit.
func TestCommitLeavesOutWhatTheLogCannotKeep(t *testing.T) {
	t.Parallel()
	e, logged := newTestEmitter(t, 4096, time.Hour)
	e.g.Own = true
	e.Event(custom("a"))
	e.Event(cairn.Event{Type: cairn.EventCustom, Name: strings.Repeat("x", 5000)})
	h := hand(t, e)
	list := h.With(cairn.Event{Type: cairn.EventCustom, Name: strings.Repeat("y", 5000)}, custom("b"))
	if len(list) != 2 || list[0].Name != "a" || list[1].Name != "b" {
		t.Errorf("the commit has %d events: %.200v", len(list), list)
	}
	h.Done(&cairn.Session{})
	if len(logged()) != 0 {
		t.Error("the emitter has appended")
	}
}

// A closed emitter's buffers are not used again while a commit has them.
func TestClosedWhileACommitHasItsEvents(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Handed){"done": func(h *Handed) { h.Done(&cairn.Session{}) }, "back": (*Handed).Back} {
		t.Run(name, func(t *testing.T) {
			e, logged := newTestEmitter(t, 1<<20, time.Hour)
			e.g.Own = true
			e.Event(custom("a"))
			h := hand(t, e)
			e.Close()
			for range 10 {
				other, _ := newTestEmitter(t, 1<<20, time.Hour)
				other.Event(custom("other"))
			}
			if list := h.With(); len(list) != 1 || list[0].Name != "a" {
				t.Errorf("the commit has %+v", list)
			}
			end(h)
			if len(logged()) != 0 {
				t.Error("a closed emitter has appended")
			}
		})
	}
}

// Where others write events of the step, or the log is elsewhere, everything is on the log before the commit.
func TestCommitTakesNothingFromOtherWritersOrALogElsewhere(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{true, false} {
		g := newTestLog(memstore.New(nil).EventLog(), time.Hour)
		g.Own = own
		row := &cairn.Session{ID: "s", RootID: "s", Agent: "a"}
		e := g.Emitter(t.Context(), row, "run", 0)
		if own {
			e = g.Attempt(t.Context(), row, "run", 0, Attempt{Step: 1, Commits: true, Abandon: func(error) {}})
		}
		e.Event(custom("a"))
		h := hand(t, e)
		if list := h.With(custom("b")); len(list) != 1 || list[0].Name != "b" || e.Position() != 1 {
			t.Errorf("own log: %t: the commit has %+v, the log %d events", own, list, e.Position())
		}
		h.Back()
		e.Event(custom("c"))
		if err := e.Flush(t.Context()); err != nil || e.Position() != 2 {
			t.Errorf("own log: %t: after a refused commit: %d events, %v", own, e.Position(), err)
		}
		hand(t, e).Done(&cairn.Session{LogSequence: 7})
		if want := map[bool]int64{true: 7, false: 2}[own]; e.Position() != want {
			t.Errorf("own log: %t: position %d, want %d", own, e.Position(), want)
		}
	}
}

// An outbox that is not on the log is drained before any event that follows, and once.
func TestEmitterDrainsWhatItOwes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, log, told := newOwnEmitter(t, 0)
		e.g.Own = false
		log.fail = cairn.Errorf(cairn.ErrInternal, "the disk is full")
		hand(t, e).Done(&cairn.Session{ID: "s", RootID: "s", Outbox: &cairn.Outbox{Version: 3, Events: []cairn.Event{
			{SessionID: "s", Type: cairn.EventCustom, Name: "-boxed"}}}})
		e.Event(custom("-a"))
		if e.Flush(t.Context()) == nil {
			t.Fatal("the append did not fail")
		}
		log.fail = nil
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.Event(custom("-b"))
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := "custom-boxed custom-a custom-b"; told() != want {
			t.Errorf("the log has %s, want %s", told(), want)
		}
	})
}

// Events that come from many goroutines while commits take them are each on the log once.
func TestEventsBesideCommits(t *testing.T) {
	t.Parallel()
	e, log, _ := newOwnEmitter(t, 0)
	e.g.Coalesce = time.Microsecond
	const writers, each = 4, 200
	var working sync.WaitGroup
	for w := range writers {
		working.Go(func() {
			for n := range each {
				e.Event(custom(fmt.Sprintf("%d-%03d", w, n)))
			}
		})
	}
	for n := range 50 {
		h := hand(t, e)
		if n%3 == 0 {
			h.Back()
		} else {
			log.commit(t, h)
		}
	}
	working.Wait()
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := log.Log.Read(t.Context(), "s", 0, writers*each+1)
	if err != nil || len(list) != writers*each {
		t.Fatalf("the log has %d events, %v; want %d", len(list), err, writers*each)
	}
	for w := range writers { // in the order of each writer
		var own []string
		for i := range list {
			if list[i].Name[0] == byte('0'+w) {
				own = append(own, list[i].Name)
			}
		}
		if len(own) != each || !slices.IsSorted(own) {
			t.Errorf("writer %d has %d events, in order: %t", w, len(own), slices.IsSorted(own))
		}
	}
	e.Close()
}
