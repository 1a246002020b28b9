package memory

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// ScopeKind implements [cairn.EditableMemory].
func (m *Memory) ScopeKind() cairn.MemoryScopeKind { return m.opts.Scope }

// Of implements [cairn.EditableMemory]: it returns the memories of ScopeOf.
func (m *Memory) Of(s *cairn.Session) (cairn.Memories, error) {
	scope, err := m.ScopeOf(s)
	if err != nil {
		return nil, err
	}
	return of{m, scope}, nil
}

// of are the memories of one scope.
type of struct {
	memory *Memory
	scope  Scope
}

func (o of) List(ctx context.Context, q ListQuery) (Page[Entry], error) {
	return o.memory.List(ctx, o.scope, q)
}

func (o of) Search(ctx context.Context, q Query) ([]Hit, error) {
	return o.memory.Search(ctx, o.scope, q)
}

func (o of) Get(ctx context.Context, id string) (*Entry, error) {
	return o.memory.Get(ctx, o.scope, id)
}

func (o of) History(ctx context.Context, id string) ([]Entry, error) {
	return o.memory.History(ctx, o.scope, id)
}

func (o of) Add(ctx context.Context, entries ...Entry) ([]Entry, error) {
	return o.memory.Add(ctx, o.scope, entries...)
}

func (o of) Correct(ctx context.Context, id string, newer Entry) (*Entry, error) {
	return o.memory.Correct(ctx, o.scope, id, newer)
}

func (o of) Redact(ctx context.Context, id string) (*Entry, error) {
	return o.memory.Redact(ctx, o.scope, id)
}

func (o of) Promote(ctx context.Context, id string) (*Entry, error) {
	return o.memory.Promote(ctx, o.scope, id)
}

func (o of) Forget(ctx context.Context, ids ...string) (int, error) {
	return o.memory.Forget(ctx, o.scope, ids...)
}

func (o of) Drop(ctx context.Context) (bool, error) { return o.memory.Drop(ctx, o.scope) }

func (o of) Entities(ctx context.Context, cursor string, limit int) (Page[EntityCount], error) {
	return o.memory.Entities(ctx, o.scope, driver.PageQuery{Cursor: cursor, Limit: limit})
}

func (o of) Sources(ctx context.Context) ([]SourceCount, error) {
	return o.memory.Sources(ctx, o.scope)
}

var _ cairn.EditableMemory = (*Memory)(nil)
