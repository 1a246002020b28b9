package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var logTests = []logTest{
	{name: "Append", run: appendEvents},
	{name: "EventsRoundTrip", run: eventsRoundTrip},
	{name: "Limits", run: logRefuses},
	{name: "EventsAreNotKept", run: eventsNotKept},
	{name: "ConcurrentAppends", run: oneLog(concurrentAppends)},
	{name: "Expect", run: expectSequence},
	{name: "ExpectRace", run: oneLog(expectRace)},
	{name: "Oversized", run: oversized},
	{name: "Read", run: readEvents},
	{name: "ReadDefaultLimit", run: readDefaultLimit},
	{name: "Bounds", run: bounds},
	{name: "Trim", run: trim},
	{name: "Drop", run: drop},
	{name: "Sweep", run: oneLog(sweptLogs), needs: needsLogSweeper},
	{name: "SweepWhileItGrows", run: oneLog(sweptWhileGrowing), needs: needsLogSweeper},
	{name: "Isolation", run: logIsolation},
	{name: "Cancelled", run: logCancelled},
	{name: "Fence", run: oneLog(fenced)},
	{name: "FenceRace", run: oneLog(fencedRace)},
	{name: "Batches", run: oneLog(numberedBatches)},
	{name: "BatchRace", run: oneLog(batchRace)},

	{name: "Follow/FromEveryCut", run: oneLog(followFromEveryCut)},
	{name: "Follow/BeyondTheEnd", run: followBeyondEnd},
	{name: "Follow/UnknownLog", run: followUnknown},
	{name: "Follow/EndsWithItsContext", run: followEnds},
	{name: "Follow/LeavesWithBreak", run: followBreak},
	{name: "Follow/Trimmed", run: followTrimmed},
	{name: "Follow/TrimmedUnderASlowReader", run: followTrimmedMeanwhile},
	{name: "Follow/SlowReaderCatchesUp", run: followSlowly},
	{name: "Follow/OneLogOnly", run: followOneLog},
	{name: "Follow/ManyReadersSomeStuck", run: followMany},
	{name: "Follow/WhileManyWrite", run: oneLog(followManyWriters)},

	{name: "TwoHandles/ConcurrentAppends", run: twoLogs(concurrentAppends), needs: needsSecondLog},
	{name: "TwoHandles/Sweep", run: twoLogs(sweptLogs), needs: func(o *LogOptions) bool { return needsSecondLog(o) && needsLogSweeper(o) }},
	{name: "TwoHandles/Fence", run: twoLogs(fenced), needs: needsSecondLog},
	{name: "TwoHandles/FenceRace", run: twoLogs(fencedRace), needs: needsSecondLog},
	{name: "TwoHandles/Batches", run: twoLogs(numberedBatches), needs: needsSecondLog},
	{name: "TwoHandles/BatchRace", run: twoLogs(batchRace), needs: needsSecondLog},
	{name: "TwoHandles/ExpectRace", run: twoLogs(expectRace), needs: needsSecondLog},
	{name: "TwoHandles/FollowFromEveryCut", run: twoLogs(followFromEveryCut), needs: needsSecondLog},
	{name: "TwoHandles/FollowWhileManyWrite", run: twoLogs(followManyWriters), needs: needsSecondLog},
	{name: "Reopen", run: reopenLog, needs: needsReopenLog},
	{name: "ReopenBatches", run: reopenBatches, needs: needsReopenLog},
}

func needsReopenLog(o *LogOptions) bool  { return o.Reopen != nil }
func needsSecondLog(o *LogOptions) bool  { return o.Second != nil }
func needsLogSweeper(o *LogOptions) bool { return o.sweeps }

// logHarness is one test's log with the verbs that tests are written in.
type logHarness struct {
	*testing.T
	log  driver.Log
	opts *LogOptions
}

// logs are the handles that a test uses in turn.
type logs []driver.Log

func (ls logs) of(i int) driver.Log { return ls[i%len(ls)] }

func oneLog(test func(*logHarness, logs)) func(*logHarness) {
	return func(h *logHarness) { test(h, logs{h.log}) }
}

func twoLogs(test func(*logHarness, logs)) func(*logHarness) {
	return func(h *logHarness) { test(h, logs{h.log, h.opts.Second(h.T, h.log)}) }
}

func (h *logHarness) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// say makes an event with text.
func say(text string) cairn.Event {
	return cairn.Event{Type: cairn.EventTextDelta, SessionID: "session", Time: time.Unix(1700000000, 0).UTC(), Text: text}
}

// lines makes events with the texts from … to-1.
func lines(from, to int) []cairn.Event {
	var list []cairn.Event
	for i := from; i < to; i++ {
		list = append(list, say(fmt.Sprint(i)))
	}
	return list
}

func (h *logHarness) append(log string, events ...cairn.Event) int64 {
	h.Helper()
	last, err := h.log.Append(h.Context(), log, driver.AnySequence, events...)
	h.must(err)
	return last
}

// appendBatches appends the events 1 to 10, in batches of different sizes.
func (h *logHarness) appendBatches(log string) {
	h.Helper()
	for at := 1; at <= 10; {
		next := min(at+at%4+1, 11)
		h.append(log, lines(at, next)...)
		at = next
	}
}

// all reads a log's events after a sequence, to the end.
func (h *logHarness) all(log string, after int64) []cairn.Event {
	h.Helper()
	var list []cairn.Event
	for {
		page, err := h.log.Read(h.Context(), log, after, 500)
		h.must(err)
		if len(page) == 0 {
			return list
		}
		list = append(list, page...)
		after = page[len(page)-1].Sequence
	}
}

func (h *logHarness) wantBounds(log string, first, last int64) {
	h.Helper()
	f, l, err := h.log.Bounds(h.Context(), log)
	h.must(err)
	if f != first || l != last {
		h.Fatalf("bounds of %q: %d to %d, want %d to %d", log, f, l, first, last)
	}
}

func (h *logHarness) wantTexts(what string, got []cairn.Event, first int64, want ...string) {
	h.Helper()
	texts := []string{}
	for i := range got {
		texts = append(texts, got[i].Text)
		if got[i].Sequence != first+int64(i) {
			h.Fatalf("%s: event %d has sequence %d, want %d", what, i, got[i].Sequence, first+int64(i))
		}
	}
	same(h.T, what, texts, want)
}

// take collects n events of a follower.
func take(follow iter.Seq2[cairn.Event, error], n int) ([]cairn.Event, error) {
	var list []cairn.Event
	if n == 0 {
		return nil, nil
	}
	for ev, err := range follow {
		if err != nil {
			return list, err
		}
		if list = append(list, ev); len(list) == n {
			return list, nil
		}
	}
	return list, fmt.Errorf("the follower ended after %d of %d events", len(list), n)
}

// checkContiguous reports a gap or a repetition in events that follow a sequence.
func checkContiguous(list []cairn.Event, after int64) error {
	for i := range list {
		if want := after + 1 + int64(i); list[i].Sequence != want {
			return fmt.Errorf("event %d has sequence %d, want %d", i, list[i].Sequence, want)
		}
	}
	return nil
}

func appendEvents(h *logHarness) {
	if last := h.append("log", say("a")); last != 1 {
		h.Fatalf("the first event has sequence %d, want 1", last)
	}
	if last := h.append("log", say("b"), say("c")); last != 3 {
		h.Fatalf("two more events end at %d, want 3", last)
	}
	if last := h.append("log"); last != 3 {
		h.Fatalf("appending nothing ends at %d, want 3", last)
	}
	h.append("log", say("d"))
	h.wantTexts("events", h.all("log", 0), 1, "a", "b", "c", "d")
	h.append("another")
	h.wantBounds("another", 1, 0)
}

func eventsRoundTrip(h *logHarness) {
	at := time.Date(2024, 2, 29, 12, 30, 0, 123456000, time.UTC)
	given := []cairn.Event{
		{Sequence: 99, Type: cairn.EventRunStart, SessionID: "s", RunID: "r", Agent: "a", Step: 3, Time: at},
		{Type: cairn.EventToolEnd, SessionID: "s", Time: at, Text: "t\x01🜁<&>", CallID: "c", Tool: "tool", Name: "n",
			Data: []byte(`{"n":12345678901234567890,"x":[1,null,"\u0001"]}`), IsError: true, Truncated: true},
		{Type: cairn.EventRunEnd, SessionID: "s", Time: at, Status: cairn.RunFailed, Reason: cairn.ReasonError,
			Error: &cairn.Error{Code: cairn.ErrTool, Message: "m", Field: "f", RetryAfter: 5, Details: []string{"d"}},
			Usage: &cairn.Usage{InputTokens: 1, Custom: map[string]float64{"x": 0.5}}, CheckpointID: "cp", MessageCount: 7},
		{Type: cairn.EventStatePatch, SessionID: "s", Time: at, Patch: []cairn.PatchOp{{Op: "add", Path: "/a", Value: []byte(`[1]`)}}},
	}
	h.append("log", given...)
	want := append([]cairn.Event(nil), given...)
	for i := range want {
		want[i].Sequence = int64(i + 1)
	}
	same(h.T, "events that were read", h.all("log", 0), want)
	followed, err := take(h.log.Follow(h.Context(), "log", 0), len(want))
	h.must(err)
	same(h.T, "events that were followed", followed, want)
	if given[0].Sequence != 99 || given[1].Sequence != 0 {
		h.Fatal("the caller's events were changed")
	}
}

// eventsNotKept reuses one slice for all batches: a log must not keep it.
func eventsNotKept(h *logHarness) {
	batch := make([]cairn.Event, 2)
	for i := range 3 {
		batch[0], batch[1] = say(fmt.Sprint("a", i)), say(fmt.Sprint("b", i))
		h.append("log", batch...)
	}
	batch[0] = say("changed")
	h.wantTexts("events", h.all("log", 0), 1, "a0", "b0", "a1", "b1", "a2", "b2")
}

func concurrentAppends(h *logHarness, ls logs) {
	const writers, batches, size = 8, 20, 3
	errs := race(writers, func(i int) error {
		previous := int64(0)
		for n := range batches {
			var events []cairn.Event
			for k := range size {
				events = append(events, say(fmt.Sprintf("%d %d %d", i, n, k)))
			}
			last, err := ls.of(i).Append(h.Context(), "log", driver.AnySequence, events...)
			if err != nil {
				return err
			}
			if last < previous+size {
				return fmt.Errorf("batch %d of writer %d ends at %d, the one before at %d", n, i, last, previous)
			}
			previous = last
		}
		return nil
	})
	h.must(errors.Join(errs...))
	list := h.all("log", 0)
	h.must(checkContiguous(list, 0))
	if len(list) != writers*batches*size {
		h.Fatalf("%d events, want %d", len(list), writers*batches*size)
	}
	var next [writers]int
	for at := 0; at < len(list); at += size {
		var i, n, k int
		for j := range size {
			if _, err := fmt.Sscan(list[at+j].Text, &i, &n, &k); err != nil || k != j || n != next[i] {
				h.Fatalf("event %d says %q, a batch is torn or out of order", at+j, list[at+j].Text)
			}
		}
		next[i]++
	}
}

func expectSequence(h *logHarness) {
	expect := func(expect int64, want cairn.Code) {
		h.Helper()
		_, before, err := h.log.Bounds(h.Context(), "log")
		h.must(err)
		last, err := h.log.Append(h.Context(), "log", expect, say("a"), say("b"))
		if want != "" {
			wantError(h.T, err, want, fmt.Sprintf("expecting %d at %d", expect, before))
			h.wantBounds("log", 1, before)
			return
		}
		h.must(err)
		if last != before+2 {
			h.Fatalf("two events after %d end at %d", before, last)
		}
	}
	expect(1, cairn.ErrStale)
	expect(0, "")
	expect(0, cairn.ErrStale)
	expect(1, cairn.ErrStale)
	expect(3, cairn.ErrStale)
	expect(2, "")
	expect(driver.AnySequence, "")
	expect(6, "")
}

func expectRace(h *logHarness, ls logs) {
	for n := range h.rounds(100) {
		errs := race(racers, func(i int) error {
			_, err := ls.of(i).Append(h.Context(), "log", int64(n), say(fmt.Sprintf("%d by %d", n, i)))
			return err
		})
		winner := -1
		for i, err := range errs {
			if err == nil && winner < 0 {
				winner = i
				continue
			}
			wantError(h.T, err, cairn.ErrStale, fmt.Sprintf("writer %d", i))
		}
		list := h.all("log", int64(n))
		h.wantTexts("what the race left", list, int64(n+1), fmt.Sprintf("%d by %d", n, winner))
	}
}

// oversized: events that are too large are refused with their whole batch, before a sequence is assigned.
func oversized(h *logHarness) {
	limit := h.log.MaxEvent()
	if limit < 1<<10 {
		h.Fatalf("MaxEvent is %d, too small for anything", limit)
	}
	h.append("log", say("first"))
	for name, ev := range map[string]cairn.Event{
		"text":        say(strings.Repeat("x", limit+1)),
		"escaped":     say(strings.Repeat("\x01", limit/6+1)),
		"data":        {Type: cairn.EventCustom, SessionID: "s", Data: encode(strings.Repeat("x", limit+1))},
		"patch":       {Type: cairn.EventStatePatch, SessionID: "s", Patch: []cairn.PatchOp{{Op: "add", Path: "/a", Value: encode(strings.Repeat("x", limit+1))}}},
		"error":       {Type: cairn.EventError, SessionID: "s", Error: &cairn.Error{Code: cairn.ErrTool, Message: strings.Repeat("x", limit+1)}},
		"by together": {Type: cairn.EventCustom, SessionID: "s", Text: strings.Repeat("x", limit/2), Data: encode(strings.Repeat("x", limit/2))},
	} {
		_, err := h.log.Append(h.Context(), "log", driver.AnySequence, say("in the same batch"), ev, say("in the same batch"))
		wantError(h.T, err, cairn.ErrTooLarge, "event with oversized "+name)
		h.wantBounds("log", 1, 1)
	}
	const rest = 512 // bytes that an event needs in addition to its text
	big := strings.Repeat("x", limit-rest)
	if last := h.append("log", say(big)); last != 2 {
		h.Fatalf("the next event has sequence %d, want 2", last)
	}
	h.wantTexts("events", h.all("log", 0), 1, "first", big)
}

func readEvents(h *logHarness) {
	if list, err := h.log.Read(h.Context(), "log", 0, 0); err != nil || len(list) > 0 {
		h.Fatalf("an unknown log has %v, %v", list, err)
	}
	h.appendBatches("log")
	for after := range int64(13) {
		for limit := 1; limit <= 11; limit++ {
			list, err := h.log.Read(h.Context(), "log", after, limit)
			h.must(err)
			want := []string{}
			for i := after + 1; i <= min(after+int64(limit), 10); i++ {
				want = append(want, fmt.Sprint(i))
			}
			h.wantTexts(fmt.Sprintf("at most %d events after %d", limit, after), list, after+1, want...)
		}
	}
}

func readDefaultLimit(h *logHarness) {
	h.append("log", lines(1, 1502)...)
	list, err := h.log.Read(h.Context(), "log", 5, 0)
	h.must(err)
	h.must(checkContiguous(list, 5))
	if len(list) != 1000 {
		h.Fatalf("limit 0 gives %d events, want 1000", len(list))
	}
}

func bounds(h *logHarness) {
	h.wantBounds("log", 1, 0)
	h.append("log", say("a"))
	h.wantBounds("log", 1, 1)
	h.append("log", say("b"), say("c"))
	h.wantBounds("log", 1, 3)
}

func trim(h *logHarness) {
	h.appendBatches("log")
	h.append("other", lines(1, 4)...)
	for _, step := range []struct{ before, first int64 }{{0, 1}, {1, 1}, {3, 3}, {5, 5}, {2, 5}, {5, 5}, {8, 8}, {10, 10}} {
		h.must(h.log.Trim(h.Context(), "log", step.before))
		h.wantBounds("log", step.first, 10)
		for after := range int64(11) {
			list, err := h.log.Read(h.Context(), "log", after, 0)
			if after+1 < step.first {
				wantError(h.T, err, cairn.ErrTrimmed, fmt.Sprintf("read after %d, trimmed before %d", after, step.first))
				continue
			}
			h.must(err)
			h.must(checkContiguous(list, after))
			if len(list) != int(10-after) {
				h.Fatalf("%d events after %d", len(list), after)
			}
		}
	}
	h.must(h.log.Trim(h.Context(), "log", 100)) // all events
	h.wantBounds("log", 11, 10)
	if list, err := h.log.Read(h.Context(), "log", 10, 0); err != nil || len(list) > 0 {
		h.Fatalf("read at the end of a log trimmed to nothing: %v, %v", list, err)
	}
	_, err := h.log.Read(h.Context(), "log", 9, 0)
	wantError(h.T, err, cairn.ErrTrimmed, "read of the last event after all were trimmed")
	_, err = h.log.Append(h.Context(), "log", 0, say("x"))
	wantError(h.T, err, cairn.ErrStale, "expecting an empty log")
	last, err := h.log.Append(h.Context(), "log", 10, say("11"))
	h.must(err)
	h.wantBounds("log", 11, last)
	h.wantTexts("events", h.all("log", 10), 11, "11")
	h.wantTexts("events of another log", h.all("other", 0), 1, "1", "2", "3")
}

func drop(h *logHarness) {
	h.append("log", lines(1, 6)...)
	h.append("other", say("other"))
	h.must(h.log.Trim(h.Context(), "log", 3))
	h.must(h.log.Drop(h.Context(), "log"))
	h.wantDropped("log")
	h.must(h.log.Drop(h.Context(), "log"))
	h.must(h.log.Drop(h.Context(), "never was"))
	h.wantDropped("log")
	h.wantDropped("never was")
	h.must(h.log.Trim(h.Context(), "log", 3))
	h.wantTexts("events of another log", h.all("other", 0), 1, "other")
}

// wantDropped checks that a log is gone for every handle and cannot be begun again.
func (h *logHarness) wantDropped(log string) {
	h.Helper()
	for _, expect := range []int64{driver.AnySequence, 0, 1, 5} {
		_, err := h.log.Append(h.Context(), log, expect, say("from beyond"))
		wantError(h.T, err, cairn.ErrDeleted, "append to a dropped log")
		if f, ok := h.log.(driver.Fencer); ok {
			_, err = f.AppendFenced(h.Context(), log, expect, driver.Writer{Session: "session", Token: 9, ID: "w", Batch: 1}, say("from beyond"))
			wantError(h.T, err, cairn.ErrDeleted, "fenced append to a dropped log")
			_, err = f.AppendFenced(h.Context(), log, expect, holds("session", 10))
			wantError(h.T, err, cairn.ErrDeleted, "fence of a dropped log")
		}
	}
	for _, after := range []int64{0, 5, 100} {
		_, err := h.log.Read(h.Context(), log, after, 0)
		wantError(h.T, err, cairn.ErrDeleted, "read of a dropped log")
	}
	_, _, err := h.log.Bounds(h.Context(), log)
	wantError(h.T, err, cairn.ErrDeleted, "bounds of a dropped log")
	ended := false
	for _, err := range h.log.Follow(h.Context(), log, 0) {
		wantError(h.T, err, cairn.ErrDeleted, "following a dropped log")
		ended = true
	}
	if !ended {
		h.Fatal("following a dropped log ended without an error")
	}
}

func logIsolation(h *logHarness) {
	for round := range 2 {
		for i, odd := range oddTexts {
			if last := h.append(odd, say(fmt.Sprint(i, round)), say(odd)); last != int64(2*round+2) {
				h.Fatalf("log %q ends at %d, want %d", odd, last, 2*round+2)
			}
		}
	}
	h.must(h.log.Drop(h.Context(), oddTexts[0]))
	h.must(h.log.Trim(h.Context(), oddTexts[1], 4))
	for i, odd := range oddTexts[2:] {
		i += 2
		h.wantTexts(fmt.Sprintf("events of log %q", odd), h.all(odd, 0), 1, fmt.Sprint(i, 0), odd, fmt.Sprint(i, 1), odd)
	}
}

func logCancelled(h *logHarness) {
	h.append("log", lines(1, 4)...)
	dead, cancel := context.WithCancel(h.Context())
	cancel()
	for name, call := range map[string]func() error{
		"Append": func() error { _, err := h.log.Append(dead, "log", driver.AnySequence, say("x")); return err },
		"Read":   func() error { _, err := h.log.Read(dead, "log", 0, 0); return err },
		"Bounds": func() error { _, _, err := h.log.Bounds(dead, "log"); return err },
		"Trim":   func() error { return h.log.Trim(dead, "log", 3) },
		"Drop":   func() error { return h.log.Drop(dead, "log") },
		"Unswept": func() error {
			sweeper, ok := h.log.(driver.LogSweeper)
			if !ok {
				return dead.Err()
			}
			_, err := sweeper.Unswept(dead, 0, driver.PageQuery{})
			return err
		},
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			h.Fatalf("%s with a cancelled context: error %v, want context.Canceled", name, err)
		}
		h.wantTexts("events after "+name, h.all("log", 0), 1, "1", "2", "3")
	}
	for ev, err := range h.log.Follow(dead, "log", 0) {
		h.Fatalf("following with a cancelled context gave %+v, %v", ev, err)
	}
}

func reopenLog(h *logHarness) {
	h.append("log", lines(1, 11)...)
	h.append("empty", say("x"))
	h.append("dropped", say("x"))
	h.must(h.log.Trim(h.Context(), "log", 4))
	h.must(h.log.Trim(h.Context(), "empty", 2))
	h.must(h.log.Drop(h.Context(), "dropped"))
	before := h.all("log", 3)
	h.log = h.opts.Reopen(h.T, h.log)
	same(h.T, "events after reopening", h.all("log", 3), before)
	h.wantBounds("log", 4, 10)
	h.wantBounds("empty", 2, 1)
	h.wantDropped("dropped")
	if last := h.append("log", say("11")); last != 11 {
		h.Fatalf("the next event has sequence %d, want 11", last)
	}
	_, err := h.log.Read(h.Context(), "log", 2, 0)
	wantError(h.T, err, cairn.ErrTrimmed, "read of what was trimmed before reopening")
}
