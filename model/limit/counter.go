package limit

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// burst is how much of the rates may be used at once.
const burst = 10 * time.Second

// account holds the times until which used requests and tokens count, in nanoseconds of the governing clock. A call
// may be made while neither is further ahead than a burst.
type account struct {
	Requests int64 `json:"requests"`
	Tokens   int64 `json:"tokens"`
}

// wait returns how long a call must wait.
func (a *account) wait(now int64) time.Duration {
	return time.Duration(max(a.Requests, a.Tokens)-now) - burst
}

// add charges requests and tokens. Negative numbers refund them.
func (a *account) add(now int64, o *Options, requests, tokens int64) {
	if o.RequestsPerMinute > 0 {
		a.Requests = max(a.Requests, now) + requests*int64(time.Minute)/int64(o.RequestsPerMinute)
	}
	if o.TokensPerMinute > 0 {
		const most = int64(time.Hour) // bound for one call, so that a wrong usage does not block all others forever
		cost := float64(tokens) * float64(time.Minute) / float64(o.TokensPerMinute)
		a.Tokens = max(a.Tokens, now) + int64(max(min(cost, float64(most)), -float64(most)))
	}
}

// change modifies an account at a time of the governing clock, and reports whether to keep the result.
type change func(a *account, now int64) (keep bool)

// memory keeps an account in this process.
type memory struct {
	mu sync.Mutex
	account
}

func (m *memory) update(_ context.Context, do change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.account
	if do(&a, time.Now().UnixNano()) {
		m.account = a
	}
	return nil
}

// namespace holds the records of shared accounts. They expire after an hour without use.
const (
	namespace = "model-limit"
	kept      = time.Hour
)

// shared keeps an account in a store. The store's clock governs.
type shared struct {
	records store.Records
	key     string
}

func (s shared) update(ctx context.Context, do change) error {
	for {
		rec, err := s.records.Get(ctx, namespace, s.key)
		if errors.Is(err, cairn.ErrNotFound) {
			rec, err = s.records.Put(ctx, store.RecordWrite{Namespace: namespace, Key: s.key, Value: json.RawMessage("{}"), TTL: kept})
		}
		if errors.Is(err, cairn.ErrStale) {
			continue
		}
		if err != nil {
			return err
		}
		var a account
		if err := json.Unmarshal(rec.Value, &a); err != nil {
			return cairn.Errorf(cairn.ErrCorrupt, "record %s of %s: %w", s.key, namespace, err)
		}
		if !do(&a, rec.AsOf.UnixNano()) {
			return nil
		}
		value, err := json.Marshal(a)
		if err != nil {
			return err
		}
		_, err = s.records.Put(ctx, store.RecordWrite{Namespace: namespace, Key: s.key, Value: value, TTL: kept, Seen: rec.Version})
		if !errors.Is(err, cairn.ErrStale) {
			return err
		}
	}
}

// counter charges the shared account where possible, else that of this process.
type counter struct {
	opts  *Options
	local *memory
}

func (c *counter) update(ctx context.Context, do change) error {
	if c.opts.Records != nil {
		err := shared{c.opts.Records, c.opts.Key}.update(ctx, do)
		if err == nil || ctx.Err() != nil {
			return err
		}
		c.opts.Logger.Warn("limit of a model not shared: its store is unavailable", "key", c.opts.Key, "error", err)
	}
	return c.local.update(ctx, do)
}

// take charges a call. If that is not possible now, it returns how long to wait before another attempt.
func (c *counter) take(ctx context.Context, tokens int64) (wait time.Duration, err error) {
	err = c.update(ctx, func(a *account, now int64) bool {
		if wait = a.wait(now); wait > 0 {
			return false
		}
		a.add(now, c.opts, 1, tokens)
		return true
	})
	return wait, err
}

// spend charges further tokens, or refunds some. A failure has no effect on the call.
func (c *counter) spend(ctx context.Context, tokens int64) {
	if c.opts.TokensPerMinute > 0 && tokens != 0 {
		c.after(ctx, func(a *account, now int64) bool { a.add(now, c.opts, 0, tokens); return true })
	}
}

// pause makes every call wait for a time.
func (c *counter) pause(ctx context.Context, d time.Duration) {
	c.after(ctx, func(a *account, now int64) bool {
		until := now + int64(min(d, kept)+burst)
		if a.Requests >= until {
			return false
		}
		a.Requests = until
		return true
	})
}

// after updates the account when a call has ended.
func (c *counter) after(ctx context.Context, do change) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := c.update(ctx, do); err != nil {
		c.opts.Logger.Warn("usage of a model call not counted", "key", c.opts.Key, "error", err)
	}
}
