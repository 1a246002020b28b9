package modeltest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
)

var contextChecks = []check{
	{name: "Context/cancelled before", run: cancelledBefore},
	{name: "Context/expired before", run: expiredBefore},
	{name: "Context/cancelled midway", run: cancelledMidway},
	{name: "Stall/cancelled", needs: Stalls, run: stallCancelled},
	{name: "Stall/expired", needs: Stalls, run: stallExpired},
	{name: "Stall/break", needs: Stalls, run: stallBroken},
}

const contextWords = "yellow lamp"

func cancelledBefore(h *harness) {
	ctx, cancel := context.WithCancel(h.Context())
	cancel()
	h.mustStop(ctx, h.ask(ctx, h.text(contextWords)))
	h.mustWork()
}

func expiredBefore(h *harness) {
	ctx, cancel := context.WithDeadline(h.Context(), time.Unix(1, 0))
	defer cancel()
	h.mustStop(ctx, h.ask(ctx, h.text(contextWords)))
	h.mustWork()
}

// cancelledMidway cancels a call whose reply has begun. A reply that had been received by then may be complete.
func cancelledMidway(h *harness) {
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	r := h.wait(h.begin(ctx, h.text(contextWords), func(int) bool {
		cancel()
		return true
	}))
	if r.last().chunk.Type != cairn.ChunkFinish {
		h.mustStop(ctx, r)
	}
	h.mustWork()
}

func stallCancelled(h *harness) {
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	r := h.begin(ctx, h.made("Stall", h.opts.Stall()), nil)
	h.mustStall(r)
	cancel()
	h.mustStop(ctx, h.wait(r))
	h.mustWork()
}

func stallExpired(h *harness) {
	ctx, cancel := context.WithTimeout(h.Context(), 50*time.Millisecond)
	defer cancel()
	h.mustStop(ctx, h.ask(ctx, h.made("Stall", h.opts.Stall())))
	h.mustWork()
}

// stallBroken tests readers that stop while the model's source is still sending: nothing may wait for the rest.
func stallBroken(h *harness) {
	h.stopAt("a reply that stalls", h.made("Stall", h.opts.Stall()), 1)
	h.mustWork()
}

// mustStall fails if a reply ends within a moment, which would make the check pass for the wrong reason.
func (h *harness) mustStall(r *reading) {
	h.Helper()
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-r.done:
		h.Fatalf("modeltest.Options: the reply to the request of Stall ended\n%s%s", r.reply, r.reply.broken())
	case <-timer.C:
	}
}

// mustStop fails unless a reply ended with the error of its context.
func (h *harness) mustStop(ctx context.Context, r *reply) {
	h.Helper()
	if problem := unstopped(ctx, r); problem != "" {
		h.Errorf("%s\n%s", problem, r)
	}
}

func unstopped(ctx context.Context, r *reply) string {
	if problem := r.broken(); problem != "" {
		return "although its context is done: " + problem
	}
	want := cairn.ErrAborted
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		want = cairn.ErrTimeout
	}
	last := r.last().err
	var known *cairn.Error
	switch {
	case last == nil:
		return fmt.Sprintf("the context is done, but the sequence did not end with an error of code %q", want)
	case r.firstError() < len(r.elements)-1:
		return "the sequence continued after an error"
	case !errors.As(last, &known):
		return fmt.Sprintf("the error is no *cairn.Error, but a %T: %v", last, last)
	case known.Code != want:
		return fmt.Sprintf("the context's error is %q: the code is %q, want %q", ctx.Err(), known.Code, want)
	case !errors.Is(last, ctx.Err()):
		return fmt.Sprintf("the error does not wrap the context's error %q", ctx.Err())
	}
	return ""
}

// firstError returns the index of the first error; that behind the last element if there is none.
func (r *reply) firstError() int {
	for i, e := range r.elements {
		if e.err != nil {
			return i
		}
	}
	return len(r.elements)
}

// mustWork fails unless the model answers the next call.
func (h *harness) mustWork() {
	h.Helper()
	if problem := h.ask(h.Context(), h.text(contextWords)).unanswered(contextWords); problem != "" {
		h.Errorf("the next call: %s", problem)
	}
}
