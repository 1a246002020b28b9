package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// fenced checks a log that is a Fencer. It checks nothing of other logs.
func fenced(h *logHarness, ls logs) {
	holder, ok := ls.of(0).(driver.Fencer)
	if !ok {
		return
	}
	zombie := ls.of(1).(driver.Fencer)
	last, err := holder.AppendFenced(h.Context(), "log", driver.AnySequence, holds("session", 1), lines(1, 3)...)
	h.must(err)
	if last != 2 {
		h.Fatalf("last is %d, want 2", last)
	}
	if last, err = zombie.AppendFenced(h.Context(), "log", driver.AnySequence, holds("session", 1), say("3")); err != nil || last != 3 {
		h.Fatalf("the same token: last %d, error %v", last, err)
	}
	// The lease is taken over. From now on the first holder's appends are refused, even empty ones.
	last, err = holder.AppendFenced(h.Context(), "log", driver.AnySequence, holds("session", 2))
	if err != nil || last != 3 {
		h.Fatalf("a higher token without events: last %d, error %v", last, err)
	}
	_, err = zombie.AppendFenced(h.Context(), "log", driver.AnySequence, holds("session", 1), say("lost"))
	h.refused("an old token", err)
	_, err = zombie.AppendFenced(h.Context(), "log", driver.AnySequence, holds("session", 1))
	h.refused("an old token without events", err)
	// Other sessions of the tree, other logs, and writers without a lease are not affected.
	_, err = zombie.AppendFenced(h.Context(), "log", driver.AnySequence, holds("child", 1), say("4"))
	h.must(err)
	_, err = zombie.AppendFenced(h.Context(), "another log", driver.AnySequence, holds("session", 1), say("1"))
	h.must(err)
	h.append("log", say("5"))
	h.wantTexts("the log", h.all("log", 0), 1, "1", "2", "3", "4", "5")

	// The expected sequence is checked as well, but ErrFenced takes precedence.
	if _, err := holder.AppendFenced(h.Context(), "log", 4, holds("session", 2), say("lost")); !errors.Is(err, cairn.ErrStale) {
		h.Fatalf("an append at the wrong place: %v", err)
	}
	_, err = zombie.AppendFenced(h.Context(), "log", 4, holds("session", 1), say("lost"))
	h.refused("an old token at the wrong place", err)
	if last, err = holder.AppendFenced(h.Context(), "log", 5, holds("session", 2), say("6")); err != nil || last != 6 {
		h.Fatalf("an append at the right place: last %d, error %v", last, err)
	}
	fenceLimits(h, holder, zombie)
}

// refused fails unless an append was fenced.
func (h *logHarness) refused(what string, err error) {
	h.Helper()
	if !errors.Is(err, cairn.ErrFenced) {
		h.Fatalf("%s: error %v, want ErrFenced", what, err)
	}
}

// fenceLimits checks edge cases of a fenced log whose token is 2.
func fenceLimits(h *logHarness, holder, zombie driver.Fencer) {
	// An event that is too large changes nothing, not even the fence.
	huge := say(strings.Repeat("x", h.log.MaxEvent()))
	if _, err := holder.AppendFenced(h.Context(), "log", driver.AnySequence, holds("session", 9), huge); !errors.Is(err, cairn.ErrTooLarge) {
		h.Fatalf("an oversized event: %v", err)
	}
	_, err := holder.AppendFenced(h.Context(), "log", driver.AnySequence, holds("session", 2), say("7"))
	h.must(err)

	// A dropped log cannot be begun again.
	h.must(h.log.Drop(h.Context(), "log"))
	_, err = zombie.AppendFenced(h.Context(), "log", driver.AnySequence, holds("session", 1), say("1"))
	wantError(h.T, err, cairn.ErrDeleted, "an event of a dropped log")

	// Tokens begin with a time in microseconds, every digit of which counts.
	const token = 1763720000123456
	_, err = holder.AppendFenced(h.Context(), "late log", driver.AnySequence, holds("session", token), say("2"))
	h.must(err)
	_, err = zombie.AppendFenced(h.Context(), "late log", driver.AnySequence, holds("session", token-1), say("lost"))
	h.refused("a token that was the current one just before", err)
	if last, err := holder.AppendFenced(h.Context(), "late log", driver.AnySequence, holds("session", token), say("3")); err != nil || last != 2 {
		h.Fatalf("a large token again: last %d, error %v", last, err)
	}
}

// holds returns a writer that does not number its batches.
func holds(session string, token int64) driver.Writer {
	return driver.Writer{Session: session, Token: token}
}

// fencedRace has holders of growing tokens and their zombies write concurrently: in the log, the events of a token
// precede all of a higher token's.
func fencedRace(h *logHarness, ls logs) {
	if _, ok := ls.of(0).(driver.Fencer); !ok {
		return
	}
	errs := race(racers, func(i int) error {
		for n := range h.rounds(40) {
			_, err := ls.of(i).(driver.Fencer).AppendFenced(h.Context(), "late log", driver.AnySequence, holds("session", int64(n/4+1)), say(fmt.Sprint(n/4+1)))
			if err != nil && !errors.Is(err, cairn.ErrFenced) {
				return err
			}
		}
		return nil
	})
	h.must(errors.Join(errs...))
	before := 0
	for _, ev := range h.all("late log", 0) {
		var token int
		if _, err := fmt.Sscan(ev.Text, &token); err != nil || token < before {
			h.Fatalf("event %d is of token %q after one of %d", ev.Sequence, ev.Text, before)
		}
		before = token
	}
}
