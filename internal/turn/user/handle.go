package user

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

// handle gives a cairn.Step access to a scope while the function that it was given to runs. It implements define.Env.
type handle struct {
	s    *Scope
	mu   sync.RWMutex // held for reading while the scope is used
	over bool
}

// end disables the handle, after its calls under way have returned.
func (h *handle) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
}

// use calls fn with the scope, unless the handle has ended.
func (h *handle) use(fn func(*Scope) error) error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.over {
		return errEnded
	}
	return fn(h.s)
}

func (h *handle) State() (raw json.RawMessage, err error) {
	err = h.use(func(s *Scope) error {
		raw, err = s.State()
		return err
	})
	return raw, err
}

func (h *handle) Update(op cairn.Op) error {
	return h.use(func(s *Scope) error { return s.Update(op) })
}

func (h *handle) Change(before, after json.RawMessage) error {
	return h.use(func(s *Scope) error { return s.Change(before, after) })
}

func (h *handle) Emit(name, id string, data json.RawMessage) error {
	return h.use(func(s *Scope) error { return s.Emit(name, id, data) })
}

func (h *handle) Publish(typ, name, text, callID string) error {
	return h.use(func(s *Scope) error { return s.Publish(typ, name, text, callID) })
}

func (h *handle) Sent() (list []cairn.Message) {
	_ = h.use(func(s *Scope) error { list = s.Sent(); return nil })
	return list
}

func (h *handle) SwitchedOff() (names []string) {
	_ = h.use(func(s *Scope) error { names = s.SwitchedOff(); return nil })
	return names
}

func (h *handle) Tainted() (tainted bool) {
	_ = h.use(func(s *Scope) error { tainted = s.Tainted(); return nil })
	return tainted
}

func (h *handle) Workspace() (ref string) {
	_ = h.use(func(s *Scope) error { ref = s.Workspace(); return nil })
	return ref
}

func (h *handle) SetWorkspace(ref string) error {
	return h.use(func(s *Scope) error { return s.SetWorkspace(ref) })
}

// StoreBlob lets the handle end while it stores: what is stored then is not published.
func (h *handle) StoreBlob(ctx context.Context, part []byte) (string, error) {
	if err := h.use(func(*Scope) error { return nil }); err != nil {
		return "", err
	}
	return h.s.StoreBlob(ctx, part)
}

func (h *handle) Publishes(name, mediaType string, size int64, blobs []string) error {
	return h.use(func(s *Scope) error { return s.Publishes(name, mediaType, size, blobs) })
}

func (h *handle) AddContext(m cairn.Message) {
	_ = h.use(func(s *Scope) error { s.AddContext(m); return nil })
}

func (h *handle) RecordUsage(name string, amount float64) {
	_ = h.use(func(s *Scope) error { s.RecordUsage(name, amount); return nil })
}

func (h *handle) Checkpoint() {
	_ = h.use(func(s *Scope) error { s.Checkpoint(); return nil })
}

func (h *handle) Exec(dialect, tool, sql string, args []any) error {
	return h.use(func(s *Scope) error { return s.Exec(dialect, tool, sql, args) })
}

func (h *handle) Describe(title *string, tags []string, metadata map[string]any) error {
	return h.use(func(s *Scope) error { return s.Describe(title, tags, metadata) })
}

func (h *handle) Ask(q define.Question) (answer json.RawMessage, err error) {
	err = h.use(func(s *Scope) error {
		answer, err = s.Ask(q)
		return err
	})
	return answer, err
}

func (h *handle) Kept() (raw json.RawMessage, err error) {
	err = h.use(func(s *Scope) error {
		raw, err = s.Kept()
		return err
	})
	return raw, err
}

func (h *handle) Keep(raw json.RawMessage) error {
	return h.use(func(s *Scope) error { return s.Keep(raw) })
}

func (h *handle) SwitchTools(tools map[string]bool) error {
	return h.use(func(s *Scope) error { return s.SwitchTools(tools) })
}

// Lent calls user code with a handle of a scope. The handle works until the code returns or is abandoned.
func Lent[T any](ctx context.Context, s *Scope, u Code, fn func(context.Context, *cairn.Step) (T, error)) (T, error) {
	h := &handle{s: s}
	defer h.end()
	info := s.about()
	step := define.NewStep(info, h)
	u.Session, u.Agent = info.SessionID, info.Agent
	return Call(ctx, s.by, u, func(ctx context.Context) (T, error) { return fn(ctx, step) })
}
