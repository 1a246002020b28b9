package sqlitestore

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// said returns events whose text is their sequence.
func said(from, to int) (list []cairn.Event) {
	for n := from; n <= to; n++ {
		list = append(list, cairn.Event{Type: cairn.EventTextDelta, SessionID: "session", Text: fmt.Sprint(n)})
	}
	return list
}

// wantEvents checks that a log has the events of said from one sequence to another.
func wantEvents(t *testing.T, l driver.Log, from, to int) {
	t.Helper()
	first, last, err := l.Bounds(t.Context(), "log")
	if err != nil || first != int64(from) || last != int64(to) {
		t.Errorf("the log has %d to %d (%v), want %d to %d", first, last, err, from, to)
	}
	for after := from - 1; after <= to; after++ {
		list, err := l.Read(t.Context(), "log", int64(after), 0)
		if err != nil || len(list) != to-after {
			t.Fatalf("%d events after %d: %v, want %d", len(list), after, err, to-after)
		}
		for i, ev := range list {
			if n := after + 1 + i; ev.Sequence != int64(n) || ev.Text != fmt.Sprint(n) {
				t.Fatalf("event %d after %d has the sequence %d and the text %q", i, after, ev.Sequence, ev.Text)
			}
		}
	}
	if from > 1 {
		var trimmed *driver.TrimmedError
		if _, err := l.Read(t.Context(), "log", int64(from-2), 0); !errors.As(err, &trimmed) || trimmed.First != int64(from) {
			t.Errorf("reading after %d: %v, want that %d is the first", from-2, err, from)
		}
	}
}

func (s *Store) wantBatches(t *testing.T, want int64) {
	t.Helper()
	if n := s.sum(t, `SELECT count(*) FROM events`); n != want {
		t.Errorf("there are %d batches, want %d", n, want)
	}
}

// A batch stays when some of its events are trimmed: they can no longer be read, and more can be added to it.
func TestTrimWithinABatch(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	must(s.log.Append(t.Context(), "log", 0, said(1, 10)...))
	for _, before := range []int64{4, 7, 5} {
		if err := s.log.Trim(t.Context(), "log", before); err != nil {
			t.Fatal(err)
		}
	}
	wantEvents(t, s.log, 7, 10)
	must(s.log.Append(t.Context(), "log", 10, said(11, 12)...))
	wantEvents(t, s.log, 7, 12)
	s.wantBatches(t, 1)

	must(0, s.log.Trim(t.Context(), "log", 13))
	s.wantBatches(t, 0)
	wantEvents(t, s.log, 13, 12)
	must(s.log.Append(t.Context(), "log", 12, said(13, 13)...))
	wantEvents(t, s.log, 13, 13)
}

// A large append is stored in several batches, and trimmed batch by batch.
func TestLargeAppendIsSeveralBatches(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	list := said(1, 100)
	for i := range list {
		list[i].Name = strings.Repeat("x", 1000) + fmt.Sprint(i)
	}
	must(s.log.Append(t.Context(), "log", 0, list...))
	s.wantBatches(t, 4)
	wantEvents(t, s.log, 1, 100)
	must(0, s.log.Trim(t.Context(), "log", 40))
	s.wantBatches(t, 3)
	wantEvents(t, s.log, 40, 100)
	must(s.log.Append(t.Context(), "log", 100, said(101, 120)...))
	wantEvents(t, s.log, 40, 120)
}

// Two processes that append to one log alternately never add to a batch that is no longer the last one.
func TestBatchesOfTwoProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cairn.db")
	logs := []*Log{openAt(t, path, nil).log, openAt(t, path, nil).log}
	for n := 1; n <= 60; n++ {
		must(logs[n%7%2].Append(t.Context(), "log", int64(n-1), said(n, n)...))
	}
	wantEvents(t, logs[0], 1, 60)
}

// A failed append leaves nothing in the batch that it would have been added to.
func TestFailedAppendAddsNothing(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	must(s.log.Append(t.Context(), "log", 0, said(1, 3)...))
	failing := ""
	s.intercept(t, func(text string) error {
		if text == failing {
			return errors.New("the disk is away")
		}
		return nil
	})
	for _, failing = range []string{sqlGrowBatch, sqlCommit} {
		if _, err := s.log.Append(t.Context(), "log", 3, said(9, 9)...); err == nil {
			t.Fatalf("appended in spite of %s", failing)
		}
	}
	failing = ""
	if _, err := s.log.Append(t.Context(), "log", 2, said(3, 3)...); !errors.Is(err, cairn.ErrStale) {
		t.Fatalf("a stale append: %v", err)
	}
	must(s.log.Append(t.Context(), "log", 3, said(4, 5)...))
	s.wantBatches(t, 1)
	wantEvents(t, s.log, 1, 5)
}

// Missing events are detected by their neighbors.
func TestMissingBatchIsCorrupt(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"max", "min"} {
		s := openNew(t)
		for n := 1; n <= 3; n++ {
			list := said(n, n)
			list[0].Text = strings.Repeat("x", smallBatch)
			must(s.log.Append(t.Context(), "log", driver.AnySequence, list...))
		}
		after := map[string]int64{"max": 2, "min": 0}[missing]
		err := s.writer.conn.run(`DELETE FROM events WHERE place = (SELECT ` + missing + `(place) FROM events)`)
		if err != nil {
			t.Fatal(err)
		}
		var e *cairn.Error
		if list, err := s.log.Read(t.Context(), "log", after, 0); !errors.As(err, &e) || e.Code != cairn.ErrCorrupt {
			t.Errorf("without the %s: %d events, %v, want %s", missing, len(list), err, cairn.ErrCorrupt)
		}
	}
}

// A log can have as many events as there are numbers.
func TestLastNumber(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	must(s.log.Append(t.Context(), "log", 0, said(1, 1)...))
	if err := s.writer.conn.run(fmt.Sprintf(`UPDATE logs SET last = %d`, maxNumber-1)); err != nil {
		t.Fatal(err)
	}
	must(s.log.Append(t.Context(), "log", maxNumber-1, said(maxNumber, maxNumber)...))
	if list := must(s.log.Read(t.Context(), "log", maxNumber-1, 0)); len(list) != 1 || list[0].Text != fmt.Sprint(maxNumber) {
		t.Errorf("the last event of all is %v", list)
	}
	if _, err := s.log.Append(t.Context(), "log", maxNumber, said(1, 1)...); !errors.Is(err, cairn.ErrTooLarge) {
		t.Errorf("one more: %v", err)
	}
	if _, last, err := s.log.Bounds(t.Context(), "log"); last != maxNumber || err != nil {
		t.Errorf("the log ends at %d, %v", last, err)
	}
}
