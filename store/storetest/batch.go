package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// sender is a writer that numbers its batches in the log "log".
type sender struct {
	*logHarness
	log driver.Fencer
	driver.Writer
}

// sends returns a writer with a token of the session "session". ok is false if the log is not a Fencer.
func (h *logHarness) sends(log driver.Log, token int64, id string) (s sender, ok bool) {
	f, ok := log.(driver.Fencer)
	return sender{h, f, driver.Writer{Session: "session", Token: token, ID: id}}, ok
}

// try sends a batch with a number.
func (s sender) try(batch, expect int64, events ...cairn.Event) (last int64, err error) {
	s.Batch = batch
	return s.log.AppendFenced(s.Context(), "log", expect, s.Writer, events...)
}

// send sends a batch and checks the last sequence.
func (s sender) send(batch, last int64, events ...cairn.Event) {
	s.Helper()
	if got, err := s.try(batch, driver.AnySequence, events...); err != nil || got != last {
		s.Fatalf("batch %d of writer %q with token %d: ends at %d, error %v, want %d", batch, s.ID, s.Token, got, err, last)
	}
}

// numberedBatches sends batches again, as if their answers were lost: each is added once.
func numberedBatches(h *logHarness, ls logs) {
	first, ok := h.sends(ls.of(0), 1, "first")
	if !ok {
		return
	}
	other, _ := h.sends(ls.of(1), 1, "other")
	first.send(1, 2, lines(1, 3)...)
	first.send(1, 2, lines(1, 3)...)
	first.send(2, 3, say("3"))
	first.send(2, 3, say("3"))
	first.send(1, 3, lines(1, 3)...) // delivered late, after its caller gave up
	h.wantTexts("batches sent again", h.all("log", 0), 1, "1", "2", "3")

	// Writes of others in between do not matter, be they of the same session, of another one, or of none.
	first.send(3, 5, say("4"), say("5"))
	other.send(1, 6, say("6"))
	h.append("log", say("7"))
	child, _ := h.sends(ls.of(1), 1, "first")
	child.Session = "child"
	child.send(1, 8, say("8"))
	_, err := other.log.AppendFenced(h.Context(), "log", driver.AnySequence, holds("session", 1), say("9"))
	h.must(err)
	first.send(3, 5, say("4"), say("5"))
	other.send(1, 6, say("6"))
	child.send(1, 8, say("8"))
	h.wantTexts("batches sent again after others", h.all("log", 3), 4, "4", "5", "6", "7", "8", "9")

	// Numbers may be skipped. A batch that is refused or empty does not use its number up.
	first.send(7, 10, say("10"))
	if _, err := first.try(8, 3, say("lost")); !errors.Is(err, cairn.ErrStale) {
		h.Fatalf("a batch at the wrong place: %v", err)
	}
	huge := say(strings.Repeat("x", h.log.MaxEvent()))
	if _, err := first.try(8, driver.AnySequence, huge); !errors.Is(err, cairn.ErrTooLarge) {
		h.Fatalf("a batch that is too large: %v", err)
	}
	first.send(8, 10)
	first.send(8, 11, say("11"))
	// A batch that is in the log is found whatever sequence was expected.
	if last, err := first.try(8, 10, say("11")); err != nil || last != 11 {
		h.Fatalf("a conditional batch sent again: ends at %d, error %v", last, err)
	}
	h.wantTexts("batches under conditions", h.all("log", 9), 10, "10", "11")

	newTokens(h, &first, &other)
}

// newTokens takes over the session of two writers.
func newTokens(h *logHarness, first, other *sender) {
	// Under a new token writers count from 1 again, and batches under the old one are refused.
	first.Token = 2
	first.send(1, 12, say("12"))
	first.send(1, 12, say("12"))
	if _, err := other.try(2, driver.AnySequence, say("lost")); !errors.Is(err, cairn.ErrFenced) {
		h.Fatalf("a batch under an old token: %v", err)
	}
	if _, err := other.try(1, driver.AnySequence, say("6")); !errors.Is(err, cairn.ErrFenced) {
		h.Fatalf("a batch sent again under an old token: %v", err)
	}
	other.Token = 2
	other.send(1, 13, say("13"))
	// The same holds if the log already knew the token.
	_, err := other.log.AppendFenced(h.Context(), "log", driver.AnySequence, holds("session", 3))
	h.must(err)
	first.Token = 3
	first.send(1, 14, say("14"))
	h.wantTexts("batches under new tokens", h.all("log", 11), 12, "12", "13", "14")

	// A trimmed log still knows its batches.
	h.must(h.log.Trim(h.Context(), "log", 15))
	first.send(1, 14, say("14"))
	h.wantBounds("log", 15, 14)
}

// batchRace sends every writer's batches from several goroutines, each in order: they are added once and in order.
func batchRace(h *logHarness, ls logs) {
	if _, ok := ls.of(0).(driver.Fencer); !ok {
		return
	}
	total := h.rounds(100)
	errs := race(racers, func(i int) error {
		s, _ := h.sends(ls.of(i/2), 1, fmt.Sprint("writer-", i%2))
		for n := range total {
			if _, err := s.try(int64(n+1), driver.AnySequence, say(fmt.Sprint(s.ID, " ", n)), say(fmt.Sprint(s.ID, " ", n))); err != nil {
				return err
			}
		}
		return nil
	})
	h.must(errors.Join(errs...))
	seen := map[string]int{}
	list := h.all("log", 0)
	h.must(checkContiguous(list, 0))
	for _, ev := range list {
		var id string
		var n int
		if _, err := fmt.Sscan(ev.Text, &id, &n); err != nil || n != seen[id]/2 {
			h.Fatalf("event %d is %q after %d of that writer", ev.Sequence, ev.Text, seen[id])
		}
		seen[id]++
	}
	if len(list) != 4*total {
		h.Fatalf("%d events, want %d", len(list), 4*total)
	}
}

// reopenBatches sends a batch again after its log was closed and reopened.
func reopenBatches(h *logHarness) {
	before, ok := h.sends(h.log, 1, "writer")
	if !ok {
		return
	}
	before.send(1, 2, lines(1, 3)...)
	h.log = h.opts.Reopen(h.T, h.log)
	after, _ := h.sends(h.log, 1, "writer")
	after.send(1, 2, lines(1, 3)...)
	after.send(2, 3, say("3"))
	h.wantTexts("events", h.all("log", 0), 1, "1", "2", "3")
}
