// Package fallback combines several models into one: if a model cannot answer, the next one is called.
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
	// When reports whether to call the next model after an error. nil means after errors that are worth a retry
	// ([cairn.Code.Retryable]), rejected credentials, calls that timed out, and a model that its provider does not
	// have ([cairn.ErrModelNotFound]). It is not asked about a call that was stopped.
	When func(error) bool
	// Refusals has the next model called also after a refusal ([cairn.ErrFiltered]): the model, or its provider's
	// filter, declined the request. The default false ends the call, since another model might answer a request that
	// this one must not. A refusal causes no cooldown.
	Refusals bool
	// Cooldown is how long a model that failed is called only if the others fail too; 0 means 30 seconds, negative
	// disables it. A failure that asks for a longer wait ([cairn.Error.RetryAfter]) has that. Each process tracks its
	// own failures.
	Cooldown time.Duration
	// Logger gets a warning with the error of each model that was skipped; nil is silent.
	Logger *slog.Logger
}

const cooldown = 30 * time.Second

// Model is a chain of models. It is safe for concurrent use.
type Model struct {
	models []cairn.Model
	opts   Options

	mu    sync.Mutex
	until []time.Time // by model; it is called last until then
}

// New returns a model that calls the first of models, and the next one whenever one fails. A reply that had begun by
// then is void: the reply of the next model begins with a [cairn.ChunkRestart], which readers of the event log see as
// [cairn.EventStepDiscarded]. If all models fail, the agent's [cairn.RetryPolicy] determines whether they are called
// again. The reply of any model but the first carries that model's name: [cairn.Message.Model],
// [cairn.EventModelFallback].
//
// Each model gets the same request. Settings.Options are specific to a provider, so only models of the first one's
// provider get them.
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

// passing reports whether another model may succeed.
func passing(err error) bool {
	switch known := cairn.AsError(err); known.Code {
	case cairn.ErrAuth, cairn.ErrTimeout, cairn.ErrModelNotFound:
		return true
	default:
		return known.Code.Retryable() // NoRetry is about the same model
	}
}

// refused reports whether an error is a refusal.
func refused(err error) bool { return errors.Is(err, &cairn.Error{Code: cairn.ErrFiltered}) }

// Info names the first model.
func (m *Model) Info() cairn.ModelInfo {
	if len(m.models) == 0 {
		return cairn.ModelInfo{Provider: "fallback"}
	}
	return m.models[0].Info()
}

// Validate implements [cairn.Validator]. It returns an error for a chain without models, and the errors of its models.
func (m *Model) Validate() error {
	if len(m.models) == 0 {
		return cairn.Invalid("model", "fallback has no models")
	}
	for i, one := range m.models {
		if one == nil {
			return cairn.Invalid("model", "model %d of the fallback is nil", i+1)
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

// Compact implements [cairn.Compactor] by the first model. If another model answers later, it reads the summary
// instead.
func (m *Model) Compact(ctx context.Context, req *cairn.Request) (cairn.Compacted, error) {
	if len(m.models) == 0 {
		return cairn.Compacted{}, errors.ErrUnsupported
	}
	return cairn.Compact(ctx, m.models[0], req)
}

// Stream implements [cairn.Model]. Its error is the error of the model that was called last.
func (m *Model) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return func(yield func(cairn.Chunk, error) bool) {
		err := error(cairn.Errorf(cairn.ErrModelRequest, "fallback has no models"))
		r := &reply{yield: yield}
		for _, i := range m.order(time.Now()) {
			if err = m.ask(ctx, req, i, r); err == nil || errors.Is(err, errStopped) || ctx.Err() != nil || !m.passes(err) {
				break
			}
			m.opts.Logger.Warn("model failed; trying the next one", "model", m.models[i].Info().ID(), "session", req.SessionID, "error", err)
			if !refused(err) {
				m.rest(i, err)
			}
		}
		if err == nil || errors.Is(err, errStopped) {
			return
		}
		if done := ctx.Err(); done != nil && !errors.Is(err, done) { // the model failed, and no other is called
			err = cairn.ContextError(ctx, err.Error())
		}
		yield(cairn.Chunk{}, err)
	}
}

// passes reports whether the next model is called after an error.
func (m *Model) passes(err error) bool { return m.opts.Refusals && refused(err) || m.opts.When(err) }

// ask streams the reply of a model. What a model without a reply has used is reported as that of a reply that is void.
func (m *Model) ask(ctx context.Context, req *cairn.Request, i int, r *reply) error {
	one := m.models[i]
	if req.Settings.Options != nil && one.Info().Provider != m.models[0].Info().Provider {
		plain := *req
		plain.Settings.Options = nil
		req = &plain
	}
	r.begin("")
	if i > 0 {
		r.model = one.Info().ID()
	}
	named, ended := r.model, false
	for c, err := range one.Stream(ctx, req) {
		switch {
		case err != nil:
			return r.broke(one, err)
		case c.Type == cairn.ChunkRestart: // the model starts its reply again
			if err := r.void(one); err != nil {
				return err
			}
			r.begin(c.Text)
			r.model = named
			continue
		case c.Type == cairn.ChunkFinish:
			ended = true
		}
		if err := r.add(c); err != nil {
			return err
		}
	}
	switch {
	case !r.begun:
		return r.broke(one, cairn.Errorf(cairn.ErrModel, "%s: the reply is empty", one.Info().ID()))
	case !ended:
		return r.broke(one, cairn.Errorf(cairn.ErrModel, "%s: the reply ended unexpectedly", one.Info().ID()))
	}
	return nil
}

// order returns the indexes of the models in the order in which they are called. Models that are cooling down come
// last.
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

// rest starts the cooldown of a model that failed.
func (m *Model) rest(i int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.opts.Cooldown > 0 {
		m.until[i] = time.Now().Add(max(m.opts.Cooldown, time.Duration(cairn.AsError(err).RetryAfter)))
	}
}
