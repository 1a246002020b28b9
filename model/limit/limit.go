// Package limit limits the rates of a model's requests and tokens, in one process or in all processes that share a
// store.
package limit

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// Options are the limits of a model. At least one of the rates is required.
type Options struct {
	// RequestsPerMinute and TokensPerMinute are the rates; 0 means unlimited. Tokens are input and output tokens.
	// Before a call they are estimated: one token per four bytes of the request, and Settings.MaxOutputTokens for the
	// reply. The call's usage corrects the estimate. Ten seconds' worth may be used at once.
	RequestsPerMinute int
	TokensPerMinute   int64
	// MaxWait is the longest that a call waits for its turn; 0 means until its context ends. A call that would wait
	// longer fails with ErrRateLimited: at once, with the wait in RetryAfter, or after MaxWait if other calls are
	// still ahead of it.
	MaxWait time.Duration
	// Records are the records of the store whose processes share the rates; nil counts in this process only. While the
	// store is unavailable each process counts for itself.
	Records store.Records
	// Key names the rates in the store; empty means the id of the model. Models with the same key share their
	// rates, and must have the same ones.
	Key string
	// Logger gets a warning when the store is unavailable; nil is silent.
	Logger *slog.Logger
}

// Model is a model whose calls wait for their turn. Among the calls that wait in a process, sessions take turns,
// however many calls each makes. It is safe for concurrent use.
type Model struct {
	model cairn.Model
	opts  Options
	queue queue
	count counter
}

// New returns a model that calls another one within limits. Mistakes in the options are reported by Validate.
func New(model cairn.Model, opts Options) *Model {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Key == "" && model != nil {
		opts.Key = model.Info().ID()
	}
	m := &Model{model: model, opts: opts}
	m.count = counter{opts: &m.opts, local: &memory{}}
	return m
}

// Info names the wrapped model.
func (m *Model) Info() cairn.ModelInfo { return m.model.Info() }

// Unwrap returns the wrapped model.
func (m *Model) Unwrap() cairn.Model { return m.model }

// Validate implements [cairn.Validator].
func (m *Model) Validate() error {
	switch o := &m.opts; {
	case m.model == nil:
		return cairn.Invalid("model", "model is nil")
	case o.RequestsPerMinute < 0:
		return cairn.Invalid("requests_per_minute", "%d is negative", o.RequestsPerMinute)
	case o.TokensPerMinute < 0:
		return cairn.Invalid("tokens_per_minute", "%d is negative", o.TokensPerMinute)
	case o.RequestsPerMinute == 0 && o.TokensPerMinute == 0:
		return cairn.Invalid("requests_per_minute", "set RequestsPerMinute or TokensPerMinute")
	case o.MaxWait < 0:
		return cairn.Invalid("max_wait", "%s is negative", o.MaxWait)
	}
	if v, ok := m.model.(cairn.Validator); ok {
		return v.Validate()
	}
	return nil
}

// CountTokens implements [cairn.TokenCounter] by the wrapped model. It does not use up the rates, since providers
// have a separate rate for counting.
func (m *Model) CountTokens(ctx context.Context, req *cairn.Request) (int64, error) {
	return cairn.CountTokens(ctx, m.model, req)
}

// Compact implements [cairn.Compactor] by the wrapped model. It counts as a call.
func (m *Model) Compact(ctx context.Context, req *cairn.Request) (cairn.Compacted, error) {
	if _, can := m.model.(cairn.Compactor); !can {
		return cairn.Compacted{}, errors.ErrUnsupported
	}
	estimate := tokens(req)
	if err := m.wait(ctx, req.SessionID, estimate); err != nil {
		return cairn.Compacted{}, err
	}
	c, err := cairn.Compact(ctx, m.model, req)
	if err != nil {
		m.pause(ctx, err)
	}
	m.spend(ctx, c.Usage, estimate)
	return c, err
}

// Stream implements [cairn.Model].
func (m *Model) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return func(yield func(cairn.Chunk, error) bool) {
		estimate := tokens(req)
		if err := m.wait(ctx, req.SessionID, estimate); err != nil {
			yield(cairn.Chunk{}, err)
			return
		}
		var usage, void cairn.Usage
		for c, err := range m.model.Stream(ctx, req) {
			if err != nil {
				m.pause(ctx, err)
			}
			switch c.Type {
			case cairn.ChunkUsage:
				usage = c.Usage
			case cairn.ChunkRestart: // what the void reply used is spent
				void, usage = void.Add(usage), cairn.Usage{}
			}
			if !yield(c, err) {
				break
			}
		}
		m.spend(ctx, void.Add(usage), estimate)
	}
}

// spend corrects the estimate of a call once its usage is known.
func (m *Model) spend(ctx context.Context, usage cairn.Usage, estimate int64) {
	if spent := usage.InputTokens + usage.OutputTokens; spent > 0 {
		m.count.spend(context.WithoutCancel(ctx), spent-estimate)
	}
}

// tokens estimates the tokens of a call.
func tokens(req *cairn.Request) int64 {
	n := len(req.System)
	for i := range req.Messages {
		n += req.Messages[i].Size()
	}
	for i := range req.Tools {
		n += len(req.Tools[i].Description) + len(req.Tools[i].Schema)
	}
	return int64(n/4 + req.Settings.MaxOutputTokens)
}

// wait blocks until it is the call's turn.
func (m *Model) wait(ctx context.Context, session string, tokens int64) error {
	began := time.Now()
	queued, cancel := m.patience(ctx)
	defer cancel()
	leave, err := m.queue.enter(queued, session)
	switch {
	case ctx.Err() != nil && err != nil:
		return stopped(ctx)
	case err != nil:
		return cairn.Errorf(cairn.ErrRateLimited, "the limit of the model is reached: other calls were still queued before this one after %s", m.opts.MaxWait)
	}
	defer leave()
	for {
		wait, err := m.count.take(ctx, tokens)
		switch {
		case ctx.Err() != nil:
			return stopped(ctx)
		case err != nil:
			return err
		case wait <= 0:
			return nil
		case m.opts.MaxWait > 0 && wait > m.opts.MaxWait-time.Since(began):
			e := cairn.Errorf(cairn.ErrRateLimited, "the limit of the model is reached: the next call is possible in %s", wait.Round(time.Second))
			e.RetryAfter = cairn.Duration(wait)
			return e
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return stopped(ctx)
		}
	}
}

// patience returns a context that ends after MaxWait, if that is set.
func (m *Model) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if m.opts.MaxWait == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, m.opts.MaxWait)
}

// stopped returns the error of a call whose context is done.
func stopped(ctx context.Context) error {
	return cairn.ContextError(ctx, "the call waited for its turn")
}

// pause stops all calls for as long as the provider asks to wait.
func (m *Model) pause(ctx context.Context, err error) {
	if e := cairn.AsError(err); e.Code == cairn.ErrRateLimited && e.RetryAfter > 0 {
		m.count.pause(context.WithoutCancel(ctx), time.Duration(e.RetryAfter))
	}
}
