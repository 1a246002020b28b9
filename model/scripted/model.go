// Package scripted is a language model that plays a script: for tests, demos and benchmarks.
//
// [New] plays one [Step] per call. [Func] decides from the request, which works across processes and restarts. Both
// models are deterministic, and use neither goroutines nor timers unless a step asks for a delay.
package scripted

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/cairn-agents/cairn"
)

// maxRequests bounds how many requests are kept, so that a long benchmark does not keep every transcript alive.
const maxRequests = 128

// Model is a scripted model. It is safe for concurrent use; concurrent calls take their steps in the order in which
// their streams begin.
type Model struct {
	steps  []Step
	decide func(context.Context, *cairn.Request) Step

	mu       sync.Mutex
	calls    int
	requests []cairn.Request
}

var _ cairn.Model = (*Model)(nil)

// New returns a model that plays one step per call. A call beyond the script fails with ErrModelRequest, which is not
// retried. A failed call uses up its step, so that the retry gets the next one.
func New(steps ...Step) *Model { return &Model{steps: slices.Clone(steps)} }

// Func returns a model that asks decide for each reply. decide may be called concurrently. It should depend on the
// request only, so that another process that takes over a turn gets the same replies.
func Func(decide func(ctx context.Context, req *cairn.Request) Step) *Model {
	return &Model{decide: decide}
}

// Info names the model "scripted" of provider "scripted".
func (m *Model) Info() cairn.ModelInfo {
	return cairn.ModelInfo{Provider: "scripted", Name: "scripted"}
}

// Stream plays the next step. Each iteration of the sequence is a call of its own. When ctx ends, so does the
// stream, with an error that wraps ctx.Err().
func (m *Model) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return func(yield func(cairn.Chunk, error) bool) {
		if err := ended(ctx); err != nil {
			yield(cairn.Chunk{}, err)
			return
		}
		n := m.record(req)
		var step Step
		switch {
		case m.decide != nil:
			step = m.decide(ctx, req)
		case n <= len(m.steps):
			step = m.steps[n-1]
		default:
			yield(cairn.Chunk{}, cairn.Errorf(cairn.ErrModelRequest,
				"scripted model: unexpected call %d: the script has %d steps", n, len(m.steps)))
			return
		}
		step.run(ctx, req, yield)
	}
}

// Calls returns the number of calls so far.
func (m *Model) Calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// Requests returns the requests that the model received, oldest first: at least the last 128. They share messages
// and tools with the caller's requests and must not be modified.
func (m *Model) Requests() []cairn.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// record keeps a request and returns its number, from 1.
func (m *Model) record(req *cairn.Request) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if len(m.requests) == 2*maxRequests {
		kept := copy(m.requests, m.requests[maxRequests:])
		clear(m.requests[kept:])
		m.requests = m.requests[:kept]
	}
	seen := *req
	seen.Messages = slices.Clip(req.Messages)
	m.requests = append(m.requests, seen)
	return m.calls
}
