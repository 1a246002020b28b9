package shared

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/cairn-agents/cairn"
)

// shown is a content that encodes to itself.
type shown struct{ text string }

// counter encodes contents, and counts how often.
type counter struct{ encoded atomic.Int64 }

func (c *counter) encode(ev *cairn.Event, content []any) ([]byte, error) {
	c.encoded.Add(1)
	return fmt.Appendf(nil, "%d %v", ev.Sequence, content), nil
}

func at(sequence int64) *cairn.Event {
	return &cairn.Event{Sequence: sequence, Time: time.Unix(sequence, 0)}
}

// frame gets a frame, and checks it.
func (c *counter) frame(t *testing.T, l *Log, sequence int64, text string) []byte {
	t.Helper()
	content := []any{shown{text}}
	got, err := l.Frame(at(sequence), content, c.encode)
	if want := fmt.Sprintf("%d %v", sequence, content); err != nil || string(got) != want {
		t.Errorf("frame %q, %v; want %q", got, err, want)
	}
	return got
}

func join(logs *Logs, readers int) (l *Log, leave []func()) {
	for range readers {
		at, done := logs.Join("log")
		l, leave = at, append(leave, done)
	}
	return l, leave
}

func TestReadersShareEachFrame(t *testing.T) {
	t.Parallel()
	const readers, events = 100, 200
	var logs Logs
	var c counter
	l, _ := join(&logs, readers)
	for sequence := range int64(events) {
		var all sync.WaitGroup
		for n := range readers {
			all.Go(func() { c.frame(t, l, sequence, fmt.Sprint("as shown ", n%2)) })
		}
		all.Wait()
	}
	if got := c.encoded.Load(); got != 2*events {
		t.Errorf("%d readers of %d events in two forms encoded %d frames", readers, events, got)
	}
}

func TestReaderAloneKeepsNothing(t *testing.T) {
	t.Parallel()
	var logs Logs
	var c counter
	l, leave := join(&logs, 2)
	c.frame(t, l, 1, "a")
	leave[0]()
	c.frame(t, l, 1, "a")
	c.frame(t, l, 2, "a")
	if len(l.events) > 0 || l.bytes > 0 || c.encoded.Load() != 3 {
		t.Errorf("%d events with %d bytes are kept, %d frames were encoded", len(l.events), l.bytes, c.encoded.Load())
	}
	if leave[1](); len(logs.logs) > 0 {
		t.Error("a log without readers is kept")
	}
}

// A reader that is far behind the others encodes its own frames, and removes none of theirs.
func TestFramesAreBounded(t *testing.T) {
	t.Parallel()
	var logs Logs
	var c counter
	l, _ := join(&logs, 2)
	const last = 10 * maxEvents
	for sequence := range int64(last + 1) {
		c.frame(t, l, sequence, "new")
		c.frame(t, l, sequence/10, "old")
	}
	if len(l.events) > maxEvents {
		t.Errorf("%d events are kept", len(l.events))
	}
	before := c.encoded.Load()
	for sequence := int64(last - maxEvents/2); sequence <= last; sequence++ {
		c.frame(t, l, sequence, "new")
	}
	if got := c.encoded.Load() - before; got > 0 {
		t.Errorf("%d of the newest frames were dropped", got)
	}
	for n := range 10 * maxContents {
		c.frame(t, l, last, fmt.Sprint("form ", n))
	}
	if n := len(l.events[len(l.events)-1].frames); n > maxContents {
		t.Errorf("%d frames of one event are kept", n)
	}
	large := func(*cairn.Event, []any) ([]byte, error) { return make([]byte, maxBytes/4), nil }
	for sequence := range int64(50) {
		if got, err := l.Frame(at(last+sequence), []any{shown{"large"}}, large); len(got) != maxBytes/4 || err != nil {
			t.Fatal(len(got), err)
		}
		if l.bytes > maxBytes {
			t.Fatalf("%d bytes are kept", l.bytes)
		}
	}
	if _, err := l.Frame(at(2*last), []any{shown{"huge"}}, func(*cairn.Event, []any) ([]byte, error) { return make([]byte, 2*maxBytes), nil }); err != nil || l.bytes != 0 {
		t.Errorf("%d bytes are kept, %v", l.bytes, err)
	}
}

// A frame is collected once it is old, although the log has readers.
func TestOldFramesAreFreed(t *testing.T) {
	t.Parallel()
	var logs Logs
	var c counter
	l, _ := join(&logs, 2)
	first := weak.Make(&c.frame(t, l, 0, "first")[0])
	for sequence := range int64(2 * maxEvents) {
		c.frame(t, l, sequence+1, "later")
	}
	runtime.GC()
	if first.Value() != nil {
		t.Error("the frame is still held")
	}
}

// A tree that was erased and imported again has other events in the same places.
func TestFrameIsOfTheSameEvent(t *testing.T) {
	t.Parallel()
	var logs Logs
	var c counter
	l, _ := join(&logs, 2)
	c.frame(t, l, 1, "a")
	other := at(1)
	other.Time = other.Time.Add(time.Second)
	encode := func(*cairn.Event, []any) ([]byte, error) { return []byte("other"), nil }
	if got, err := l.Frame(other, []any{shown{"a"}}, encode); string(got) != "other" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// Readers come, go and fall behind at random.
func TestFramesOfConcurrentReaders(t *testing.T) {
	t.Parallel()
	var logs Logs
	var c counter
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			for round := range 20 {
				l, leave := logs.Join("log")
				for sequence := range int64(100) {
					c.frame(t, l, sequence*int64(1+round%3), fmt.Sprint(n%3))
				}
				leave()
			}
		})
	}
	all.Wait()
	if len(logs.logs) > 0 {
		t.Error("a log without readers is kept")
	}
}
