package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// wantUnswept checks which logs are due for a sweep, with pages of every size.
func (h *logHarness) wantUnswept(log driver.Log, age time.Duration, want ...string) {
	h.Helper()
	for _, size := range []int{0, 1, 2} {
		var got []string
		q := driver.PageQuery{Limit: size}
		for {
			page, err := log.(driver.LogSweeper).Unswept(h.Context(), age, q)
			h.must(err)
			if size > 0 && len(page.Items) > size {
				h.Fatalf("a page of %d logs, not %d", len(page.Items), size)
			}
			got = append(got, page.Items...)
			if q.Cursor = page.Next; page.Next == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			h.Fatalf("due for a sweep are %q, want %q", got, want)
		}
	}
}

// sweptLogs: a log is due from its first event, and again when its next sweep has come or it has grown.
func sweptLogs(h *logHarness, ls logs) {
	swept := func(i int, log string, last int64, next time.Duration) {
		h.Helper()
		h.must(ls.of(i).(driver.LogSweeper).Swept(h.Context(), log, last, next))
	}
	h.wantUnswept(ls.of(0), 0)
	a, b, c := "a@1", oddTexts[0], "c"
	for i, log := range []string{a, b, c} {
		_, err := ls.of(i).Append(h.Context(), log, driver.AnySequence, lines(1, 4)...)
		h.must(err)
		time.Sleep(time.Millisecond) // The logs' clock may be coarse, and may be a server's.
	}
	h.wantUnswept(ls.of(1), 0, a, b, c)
	h.wantUnswept(ls.of(0), time.Hour)
	h.append(a, say("later")) // due since the same time as before
	h.wantUnswept(ls.of(0), 0, a, b, c)

	swept(0, a, 4, time.Hour)
	h.wantUnswept(ls.of(1), 0, b, c)
	swept(1, b, 3, time.Hour)
	h.wantUnswept(ls.of(0), 0, c)
	swept(1, b, 3, 0)
	h.wantUnswept(ls.of(0), 0, c, b)
	swept(0, b, 3, time.Hour)

	h.append(a, say("again"))
	h.wantUnswept(ls.of(1), 0, c, a)
	swept(0, c, 2, time.Hour) // it has grown in between
	h.wantUnswept(ls.of(1), 0, a, c)
	h.must(ls.of(0).Trim(h.Context(), c, 100))
	h.wantUnswept(ls.of(1), 0, a, c)
	swept(0, c, 3, time.Hour)
	h.wantUnswept(ls.of(1), 0, a)
	h.must(ls.of(1).Drop(h.Context(), a))
	h.wantUnswept(ls.of(0), 0)
	swept(0, a, 5, 0)
	swept(1, "never was", 0, 0)
	h.wantUnswept(ls.of(0), 0)

	_, err := ls.of(0).(driver.LogSweeper).Unswept(h.Context(), 0, driver.PageQuery{Cursor: "nonsense"})
	wantError(h.T, err, cairn.ErrInvalid, "a cursor of another list")
}

// sweptWhileGrowing sweeps a log during concurrent appends: an event that no sweep has seen makes the log due.
func sweptWhileGrowing(h *logHarness, ls logs) {
	for round := range h.rounds(50) {
		log := fmt.Sprint("log-", round)
		h.append(log, say("first"))
		for i, err := range race(racers, func(i int) error {
			if i%2 == 0 {
				_, err := ls.of(i).Append(h.Context(), log, driver.AnySequence, say(fmt.Sprint(i)))
				return err
			}
			_, last, err := ls.of(i).Bounds(h.Context(), log)
			if err == nil {
				err = ls.of(i).(driver.LogSweeper).Swept(h.Context(), log, last, time.Hour)
			}
			return err
		}) {
			if err != nil {
				h.Fatalf("%d: %v", i, err)
			}
		}
		last := h.append(log, say("last"))
		page, err := h.log.(driver.LogSweeper).Unswept(h.Context(), 0, driver.PageQuery{})
		h.must(err)
		if !slices.Equal(page.Items, []string{log}) {
			h.Fatalf("round %d: due for a sweep are %q", round, page.Items)
		}
		h.must(h.log.(driver.LogSweeper).Swept(h.Context(), log, last, time.Hour))
		h.wantUnswept(h.log, 0)
	}
}
