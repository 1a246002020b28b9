package modeltest

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
)

var readerChecks = []check{
	{name: "Break", run: breaks},
	{name: "Unread", run: unread},
}

// stops is how often a reader stops at the same place. A model that leaks a goroutine each time leaves as many.
const stops = 8

// breaks tests readers that stop at the first, a middle and the last chunk.
func breaks(h *harness) {
	const words = "red lamp"
	requests := map[string]*cairn.Request{"a text": h.text(words)}
	if !h.without(Calls) {
		requests["a call"] = h.call(words)
	}
	for what, req := range requests {
		whole := h.ask(h.Context(), req)
		if problem := whole.broken(); problem != "" {
			h.Fatal(problem)
		}
		size := len(whole.elements)
		for _, at := range slices.Compact([]int{1, 1 + size/2, size}) {
			h.stopAt(what, req, at)
		}
	}
	if problem := h.ask(h.Context(), h.text(words)).unanswered(words); problem != "" {
		h.Errorf("after readers have stopped: %s", problem)
	}
}

// stopAt reads a reply up to an element, several times.
func (h *harness) stopAt(what string, req *cairn.Request, at int) {
	marked := newMark()
	for range stops {
		r := h.wait(begin(func() func(func(cairn.Chunk, error) bool) {
			return func(yield func(cairn.Chunk, error) bool) {
				marked.do(h.Context(), func(ctx context.Context) { h.model.Stream(ctx, req)(yield) })
			}
		}, func(n int) bool { return n < at }))
		if problem := r.broken(); problem != "" {
			h.Fatalf("asked for %s, the reader stops at chunk %d: %s", what, at, problem)
		}
		if r.late > 0 {
			h.Fatalf("asked for %s, the reader stopped at chunk %d: the model called yield again after it returned false",
				what, at)
		}
	}
	if left := marked.wait(h.opts.Patience); left != "" {
		h.Fatalf("asked for %s, %d readers stopped at chunk %d: as many goroutines are left\n%s", what, stops, at, left)
	}
}

// unread tests sequences that nobody reads. They must not have begun anything.
func unread(h *harness) {
	const words = "grey lamp"
	req, marked := h.text(words), newMark()
	r := h.wait(begin(func() func(func(cairn.Chunk, error) bool) {
		return func(func(cairn.Chunk, error) bool) {
			marked.do(h.Context(), func(ctx context.Context) {
				for range stops {
					h.model.Stream(ctx, req)
				}
			})
		}
	}, nil))
	if problem := r.broken(); problem != "" {
		h.Fatalf("Stream: %s", problem)
	}
	if left := marked.wait(h.opts.Patience); left != "" {
		h.Errorf("%d sequences were not read: as many goroutines are left\n%s", stops, left)
	}
	if problem := h.ask(h.Context(), req).unanswered(words); problem != "" {
		h.Errorf("after sequences that were not read: %s", problem)
	}
}

// mark identifies goroutines by a label, which those that they start inherit.
type mark string

var marks atomic.Int64

const markKey = "modeltest"

func newMark() mark { return mark(strconv.FormatInt(marks.Add(1), 10)) }

// do calls f in a marked goroutine.
func (m mark) do(ctx context.Context, f func(context.Context)) {
	pprof.Do(ctx, pprof.Labels(markKey, string(m)), f)
}

// wait waits until there are fewer marked goroutines than stops, since a client may keep a connection with its goroutines
// for the next call. It returns the stacks of those that are left after some time.
func (m mark) wait(patience time.Duration) (left string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if testclock.Poll(ctx, func() (stopped bool) {
		var n int
		n, left = m.count()
		return n < stops
	}) == nil {
		return ""
	}
	return left
}

// count returns the number of marked goroutines and their stacks.
func (m mark) count() (n int, stacks string) {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return 0, ""
	}
	_, groups, _ := strings.Cut(profile.String(), "\n")
	label := fmt.Sprintf("%q:%q", markKey, string(m))
	for group := range strings.SplitSeq(groups, "\n\n") {
		if !strings.Contains(group, label) {
			continue
		}
		count, _, _ := strings.Cut(group, " ")
		one, _ := strconv.Atoi(count) // 0 if the format is another one
		n += one
		stacks += group + "\n\n"
	}
	return n, stacks
}
