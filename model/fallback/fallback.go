// Package fallback makes one model of several: when one cannot answer, the next is asked.
package fallback

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
)

// Options tune a chain. The zero value means the defaults.
type Options struct {
	// When reports whether the next model is asked after an error; nil means after what is worth another attempt
	// ([cairn.Error.Retryable]), after refused credentials, and when a model is not answered for in time. It is not asked
	// about a call that was stopped.
	When func(error) bool
	// Cooldown is how long a model that failed is asked only if the others fail as well; 0 means 30 seconds, negative not
	// at all. Each process counts for itself.
	Cooldown time.Duration
	// Logger gets a warning with the error of each model that was passed over; nil is silent.
	Logger *slog.Logger
}

const cooldown = 30 * time.Second

// Model is a chain of models. It is safe for concurrent use.
type Model struct {
	models []cairn.Model
	opts   Options

	mu    sync.Mutex
	until []time.Time // each model is passed over until then
}

// New returns a model that asks the first of models, and the next one whenever one fails before it has said anything. What
// breaks off later is attempted anew by the agent's [cairn.RetryPolicy], again from the first on that is not cooling down.
// The reply of another than the first has its name: [cairn.Message.Model], [cairn.EventModelFallback].
//
// Each model gets the same request. Settings.Options, which are one provider's own, only those of the first one's provider get.
func New(opts *Options, models ...cairn.Model) *Model {
	m := &Model{models: models, until: make([]time.Time, len(models))}
	if opts != nil {
		m.opts = *opts
	}
	if m.opts.When == nil {
		m.opts.When = passing
	}
	if m.opts.Cooldown == 0 {
		m.opts.Cooldown = cooldown
	}
	if m.opts.Logger == nil {
		m.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return m
}

// Unwrap returns the models of the chain.
func (m *Model) Unwrap() []cairn.Model { return slices.Clone(m.models) }

// passing reports whether another model may do better.
func passing(err error) bool {
	known := cairn.AsError(err)
	return known.Retryable() || known.Code == cairn.CodeAuth || known.Code == cairn.CodeTimeout
}

// Info names the first model.
func (m *Model) Info() cairn.ModelInfo {
	if len(m.models) == 0 {
		return cairn.ModelInfo{Provider: "fallback"}
	}
	return m.models[0].Info()
}

// Validate implements [cairn.Validator]: it reports a chain of no models, and what is wrong with any of them.
func (m *Model) Validate() error {
	if len(m.models) == 0 {
		return cairn.Invalid("model", "the fallback has no models")
	}
	for i, one := range m.models {
		if one == nil {
			return cairn.Invalid("model", "number %d of the fallback is nil", i+1)
		}
		if v, ok := one.(cairn.Validator); ok {
			if err := v.Validate(); err != nil {
				return fmt.Errorf("%s: %w", one.Info().ID(), err)
			}
		}
	}
	return nil
}

// CountTokens implements [cairn.TokenCounter] by the first model.
func (m *Model) CountTokens(ctx context.Context, req *cairn.Request) (int64, error) {
	if len(m.models) == 0 {
		return 0, errors.ErrUnsupported
	}
	return cairn.CountTokens(ctx, m.models[0], req)
}

// Compact implements [cairn.Compactor] by the first model. Where another one answers it reads the summary in its place.
func (m *Model) Compact(ctx context.Context, req *cairn.Request) (cairn.Compacted, error) {
	if len(m.models) == 0 {
		return cairn.Compacted{}, errors.ErrUnsupported
	}
	return cairn.Compact(ctx, m.models[0], req)
}

// Stream implements [cairn.Model]. Its error is that of the model that was asked last.
func (m *Model) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return func(yield func(cairn.Chunk, error) bool) {
		err := error(cairn.Errorf(cairn.CodeModelRequest, "the fallback has no models"))
		for _, i := range m.order(time.Now()) {
			var said bool
			if said, err = m.ask(ctx, req, i, yield); err == nil || said || ctx.Err() != nil || !m.opts.When(err) {
				break
			}
			m.opts.Logger.Warn("model passed over", "model", m.models[i].Info().ID(), "session", req.SessionID, "error", err)
			m.rest(i)
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(cairn.Chunk{}, err)
		}
	}
}

// errStopped says that the reader of a stream wants no more of it.
var errStopped = errors.New("stopped")

// ask streams the reply of a model, and reports whether it has said anything.
func (m *Model) ask(ctx context.Context, req *cairn.Request, i int, yield func(cairn.Chunk, error) bool) (said bool, err error) {
	one := m.models[i]
	if req.Settings.Options != nil && one.Info().Provider != m.models[0].Info().Provider {
		plain := *req
		plain.Settings.Options = nil
		req = &plain
	}
	var held []cairn.Chunk // the name of a model and usage, which come before the reply itself
	if i > 0 {
		held = append(held, cairn.Chunk{Type: cairn.ChunkModel, Model: one.Info().ID()})
	}
	for c, err := range one.Stream(ctx, req) {
		switch {
		case err != nil:
			return said, err
		case !said && c.Type == cairn.ChunkModel: // of a fallback in this one
			held = append([]cairn.Chunk{c}, held[min(i, 1):]...)
			continue
		case !said && c.Type == cairn.ChunkUsage:
			held = append(held, c)
			continue
		}
		for _, h := range held {
			if !yield(h, nil) {
				return true, errStopped
			}
		}
		held, said = nil, true
		if !yield(c, nil) {
			return true, errStopped
		}
	}
	if !said { // it broke off before its reply
		return false, cairn.Errorf(cairn.CodeModel, "%s: the reply is empty", one.Info().ID())
	}
	return true, nil
}

// order returns the models in the order in which they are asked: those that are cooling down come last.
func (m *Model) order(now time.Time) []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ready, cooling []int
	for i := range m.models {
		if m.until[i].After(now) {
			cooling = append(cooling, i)
		} else {
			ready = append(ready, i)
		}
	}
	return append(ready, cooling...)
}

// rest has a model that failed cool down.
func (m *Model) rest(i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.opts.Cooldown > 0 {
		m.until[i] = time.Now().Add(m.opts.Cooldown)
	}
}
