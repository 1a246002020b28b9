package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// within returns a context that ends when the test must be stuck.
func (h *logHarness) within() context.Context {
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	h.Cleanup(cancel)
	return ctx
}

// followFromEveryCut follows a log from each of its sequences while the second half is being written: the events before
// the cut and those that are followed together equal the original.
func followFromEveryCut(h *logHarness, ls logs) {
	const half, total = 30, 60
	h.append("log", lines(1, half+1)...)
	ctx := h.within()
	var group sync.WaitGroup
	got := make([][]cairn.Event, half+1)
	errs := make([]error, half+1)
	for cut := range half + 1 {
		replayed, err := h.log.Read(ctx, "log", 0, max(cut, 1))
		h.must(err)
		group.Go(func() {
			var followed []cairn.Event
			followed, errs[cut] = take(ls.of(cut+1).Follow(ctx, "log", int64(cut)), total-cut)
			got[cut] = append(replayed[:cut:cut], followed...)
		})
	}
	for i := half + 1; i <= total; i += 3 {
		h.append("log", lines(i, i+3)...)
	}
	group.Wait()
	want := h.all("log", 0)
	for cut := range got {
		h.must(errs[cut])
		same(h.T, fmt.Sprintf("replay up to %d and follow", cut), got[cut], want)
	}
}

func followBeyondEnd(h *logHarness) {
	h.append("log", lines(1, 4)...)
	ctx := h.within()
	var got []cairn.Event
	var err error
	var group sync.WaitGroup
	group.Go(func() { got, err = take(h.log.Follow(ctx, "log", 5), 2) })
	for i := 4; i <= 7; i++ {
		h.append("log", say(fmt.Sprint(i)))
	}
	group.Wait()
	h.must(err)
	h.wantTexts("events after 5, followed from before there were", got, 6, "6", "7")
}

func followUnknown(h *logHarness) {
	ctx := h.within()
	var got []cairn.Event
	var err error
	var group sync.WaitGroup
	group.Go(func() { got, err = take(h.log.Follow(ctx, "log", 0), 3) })
	h.append("other", say("other"))
	h.append("log", say("1"))
	h.append("log", say("2"), say("3"))
	group.Wait()
	h.must(err)
	h.wantTexts("events of a log followed before it was made", got, 1, "1", "2", "3")
}

// followEnds cancels followers that wait, that have never had an event, and that are handling one.
func followEnds(h *logHarness) {
	h.append("log", lines(1, 11)...)
	ctx, cancel := context.WithCancel(h.within())
	var group sync.WaitGroup
	caughtUp := make(chan struct{}, 2)
	errs := make(chan error, 10)
	follow := func(log string, after int64, onEvent func(cairn.Event)) {
		group.Go(func() {
			for ev, err := range h.log.Follow(ctx, log, after) {
				if err != nil {
					errs <- err
					return
				}
				onEvent(ev)
			}
		})
	}
	follow("log", 0, func(ev cairn.Event) {
		if ev.Sequence == 10 {
			caughtUp <- struct{}{}
		}
	})
	follow("nothing", 0, func(ev cairn.Event) { errs <- fmt.Errorf("an empty log has event %+v", ev) })
	follow("log", 5, func(ev cairn.Event) {
		if ev.Sequence == 6 {
			caughtUp <- struct{}{}
			<-ctx.Done()
		} else if ev.Sequence > 6 {
			errs <- fmt.Errorf("event %d came after the context was done", ev.Sequence)
		}
	})
	<-caughtUp
	<-caughtUp
	cancel()
	group.Wait()
	close(errs)
	for err := range errs {
		h.Fatalf("the end of a follower by its context is no error: %v", err)
	}
}

func followBreak(h *logHarness) {
	h.append("log", lines(1, 11)...)
	for n := 1; n <= 10; n++ {
		got, err := take(h.log.Follow(h.within(), "log", 0), n)
		h.must(err)
		h.must(checkContiguous(got, 0))
	}
	h.append("log", say("after all have left"))
}

func followTrimmed(h *logHarness) {
	h.append("log", lines(1, 11)...)
	h.must(h.log.Trim(h.Context(), "log", 5))
	for after := range int64(4) {
		got, err := take(h.log.Follow(h.within(), "log", after), 1)
		wantError(h.T, err, cairn.ErrTrimmed, fmt.Sprintf("follow after %d, trimmed before 5", after))
		if len(got) > 0 {
			h.Fatalf("a follower of trimmed events was given %+v", got)
		}
	}
	got, err := take(h.log.Follow(h.within(), "log", 4), 6)
	h.must(err)
	h.wantTexts("events that are left", got, 5, "5", "6", "7", "8", "9", "10")
}

// followTrimmedMeanwhile trims events that a stalled reader has not read yet: the reader may still get them, or an
// error, but there is never a gap.
func followTrimmedMeanwhile(h *logHarness) {
	h.append("log", lines(1, 101)...)
	ctx := h.within()
	stuck, release := make(chan struct{}), make(chan struct{})
	var got []cairn.Event
	var end error
	var group sync.WaitGroup
	const total = 5000
	group.Go(func() {
		for ev, err := range h.log.Follow(ctx, "log", 0) {
			if err != nil {
				end = err
				return
			}
			if got = append(got, ev); len(got) == 1 {
				close(stuck)
				<-release
			}
			if ev.Sequence == total {
				return
			}
		}
	})
	<-stuck
	for i := 101; i < total; i += 100 {
		h.append("log", lines(i, i+100)...)
	}
	h.must(h.log.Trim(h.Context(), "log", total-10))
	close(release)
	group.Wait()
	h.must(checkContiguous(got, 0))
	if len(got) < total {
		wantError(h.T, end, cairn.ErrTrimmed, fmt.Sprintf("a reader that stopped at %d", len(got)))
	}
}

// followSlowly has a reader keep up for a while, then stall for longer than any buffer lasts: it gets the rest from
// where it stalled.
func followSlowly(h *logHarness) {
	const live, total = 20, 4020
	ctx := h.within()
	seen, release := make(chan int64), make(chan struct{})
	var group sync.WaitGroup
	var end error
	group.Go(func() {
		defer close(seen)
		var got []cairn.Event
		for ev, err := range h.log.Follow(ctx, "log", 0) {
			if end = err; err != nil {
				return
			}
			got = append(got, ev)
			switch {
			case ev.Sequence < live:
				seen <- ev.Sequence
			case ev.Sequence == live:
				seen <- live
				<-release
			case ev.Sequence == total:
				end = checkContiguous(got, 0)
				return
			}
		}
		end = fmt.Errorf("the follower ended after %d events", len(got))
	})
	for i := int64(1); i <= live; i++ {
		h.append("log", say(fmt.Sprint(i)))
		if got := <-seen; got != i {
			h.Fatalf("event %d arrived, want %d: %v", got, i, end)
		}
	}
	for i := live + 1; i <= total; i += 100 {
		h.append("log", lines(i, i+100)...)
	}
	close(release)
	group.Wait()
	h.must(end)
}

func followOneLog(h *logHarness) {
	ctx := h.within()
	names := []string{"a", "aa", "a:1", "A"}
	var group sync.WaitGroup
	got := make([][]cairn.Event, len(names))
	errs := make([]error, len(names))
	for i, name := range names {
		group.Go(func() { got[i], errs[i] = take(h.log.Follow(ctx, name, 0), 10) })
	}
	for n := range 10 {
		for _, name := range names {
			h.append(name, say(fmt.Sprint(name, n)))
		}
	}
	group.Wait()
	h.must(errors.Join(errs...))
	for i, name := range names {
		same(h.T, "events followed", got[i], h.all(name, 0))
	}
}

// followMany has readers of one log, every tenth of which stalls at its first event, and a writer that must not wait
// for any of them. The others get everything in the meantime; the stalled ones catch up in the end.
func followMany(h *logHarness) {
	const readers, total = 100, 500
	h.append("log", say("1"))
	ctx := h.within()
	release := make(chan struct{})
	var arrived, moving, standing sync.WaitGroup
	errs := make([]error, readers)
	for i := range readers {
		arrived.Add(1)
		group, wait := &moving, func() {}
		if i%10 == 0 {
			group, wait = &standing, func() { <-release }
		}
		group.Go(func() {
			errs[i] = followTo(h.log.Follow(ctx, "log", 0), total, func() {
				arrived.Done()
				wait()
			})
		})
	}
	arrived.Wait()
	for i := 2; i <= total; i++ {
		_, err := h.log.Append(ctx, "log", driver.AnySequence, say(fmt.Sprint(i)))
		h.must(err)
	}
	moving.Wait()
	close(release)
	standing.Wait()
	h.must(errors.Join(errs...))
}

// followTo reads the sequences 1 … last, and calls onFirst with the first.
func followTo(follow iter.Seq2[cairn.Event, error], last int64, onFirst func()) error {
	next := int64(1)
	for ev, err := range follow {
		if err != nil {
			return err
		}
		if ev.Sequence != next {
			return fmt.Errorf("sequence %d, want %d", ev.Sequence, next)
		}
		if next == 1 {
			onFirst()
		}
		if next == last {
			return nil
		}
		next++
	}
	return fmt.Errorf("the follower ended before %d", next)
}

// followManyWriters follows while several writers append: every reader gets the same events in the same order, without
// a gap.
func followManyWriters(h *logHarness, ls logs) {
	const writers, each, readers = 4, 50, 6
	ctx := h.within()
	var group sync.WaitGroup
	got := make([][]cairn.Event, readers)
	errs := make([]error, readers)
	for i := range readers {
		group.Go(func() { got[i], errs[i] = take(ls.of(i).Follow(ctx, "log", 0), writers*each) })
	}
	h.must(errors.Join(race(writers, func(i int) error {
		for n := range each {
			if _, err := ls.of(i).Append(ctx, "log", driver.AnySequence, say(fmt.Sprintf("%d %d", i, n))); err != nil {
				return err
			}
		}
		return nil
	})...))
	group.Wait()
	h.must(errors.Join(errs...))
	want := h.all("log", 0)
	for i := range got {
		same(h.T, fmt.Sprintf("events of reader %d", i), got[i], want)
	}
}
