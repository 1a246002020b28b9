// Package notebook has a memory of agents for tests of the server: a list of entries for each scope.
package notebook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cairn-agents/cairn"
)

// Memory is a memory that keeps its entries by scope. The zero value, with a Kind, is empty.
type Memory struct {
	Kind cairn.MemoryScopeKind
	mu   sync.Mutex
	of   map[string][]cairn.MemoryEntry
}

// Name implements [cairn.Toolset].
func (m *Memory) Name() string { return "memory" }

// Offer implements [cairn.Toolset]: there is none.
func (m *Memory) Offer(context.Context, *cairn.Step, json.RawMessage) (*cairn.Offer, error) {
	return nil, nil
}

// Tools implements [cairn.Toolset].
func (m *Memory) Tools(json.RawMessage) ([]cairn.Tool, error) { return nil, nil }

// Learn implements [cairn.Memory]: nothing is learned.
func (m *Memory) Learn(context.Context, *cairn.EndedTurn) error { return nil }

// ScopeKind implements [cairn.EditableMemory].
func (m *Memory) ScopeKind() cairn.MemoryScopeKind { return m.Kind }

// Of implements [cairn.EditableMemory].
func (m *Memory) Of(s *cairn.Session) (cairn.Memories, error) {
	name := map[cairn.MemoryScopeKind]string{cairn.MemoryOfUser: s.UserID, cairn.MemoryOfSession: s.ID, cairn.MemoryOfGroup: "group of " + s.Tenant}[m.Kind]
	return notes{m, name}, nil
}

// notes are the entries of one scope of a notebook.
type notes struct {
	in    *Memory
	scope string
}

func (n notes) change(id string, do func(*cairn.MemoryEntry)) (*cairn.MemoryEntry, error) {
	n.in.mu.Lock()
	defer n.in.mu.Unlock()
	for i := range n.in.of[n.scope] {
		if e := &n.in.of[n.scope][i]; e.ID == id {
			do(e)
			found := *e
			return &found, nil
		}
	}
	return nil, cairn.Errorf(cairn.ErrNotFound, "memory %q not found", id)
}

func (n notes) List(_ context.Context, q cairn.MemoryList) (page cairn.Page[cairn.MemoryEntry], err error) {
	n.in.mu.Lock()
	defer n.in.mu.Unlock()
	for _, e := range n.in.of[n.scope] {
		if q.Current && e.SupersededBy != "" {
			continue
		}
		if (q.State == "" || e.State == q.State) && (q.Session == "" || e.Source.Session == q.Session) {
			page.Items = append(page.Items, e)
		}
	}
	return page, nil
}

func (n notes) Search(ctx context.Context, q cairn.MemorySearch) (hits []cairn.MemoryHit, err error) {
	page, err := n.List(ctx, cairn.MemoryList{})
	for _, e := range page.Items {
		if strings.Contains(e.Text, q.Text) {
			hits = append(hits, cairn.MemoryHit{MemoryEntry: e, Score: 1})
		}
	}
	return hits, err
}

func (n notes) Get(_ context.Context, id string) (*cairn.MemoryEntry, error) {
	return n.change(id, func(*cairn.MemoryEntry) {})
}

func (n notes) History(ctx context.Context, id string) (all []cairn.MemoryEntry, err error) {
	e, err := n.Get(ctx, id)
	for ; err == nil; e, err = n.Get(ctx, e.Supersedes[0]) {
		if all = append([]cairn.MemoryEntry{*e}, all...); len(e.Supersedes) == 0 {
			break
		}
	}
	return all, err
}

func (n notes) Add(_ context.Context, entries ...cairn.MemoryEntry) ([]cairn.MemoryEntry, error) {
	n.in.mu.Lock()
	defer n.in.mu.Unlock()
	if n.in.of == nil {
		n.in.of = map[string][]cairn.MemoryEntry{}
	}
	for i := range entries {
		if entries[i].ID == "" {
			entries[i].ID = fmt.Sprint("m", len(n.in.of[n.scope]))
		}
		if entries[i].State == "" {
			entries[i].State = cairn.MemoryActive
		}
		entries[i].Version = max(entries[i].Version, 1)
		n.in.of[n.scope] = append(n.in.of[n.scope], entries[i])
	}
	return entries, nil
}

func (n notes) Correct(ctx context.Context, id string, newer cairn.MemoryEntry) (*cairn.MemoryEntry, error) {
	old, err := n.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	newer.Version, newer.Supersedes, newer.State = old.Version+1, []string{id}, cairn.MemoryActive
	list, err := n.Add(ctx, newer)
	if err != nil {
		return nil, err
	}
	_, err = n.change(id, func(e *cairn.MemoryEntry) { e.SupersededBy = list[0].ID })
	return &list[0], err
}

func (n notes) Redact(_ context.Context, id string) (*cairn.MemoryEntry, error) {
	return n.change(id, func(e *cairn.MemoryEntry) { e.Text, e.State = "", cairn.MemoryRedacted })
}

func (n notes) Promote(_ context.Context, id string) (*cairn.MemoryEntry, error) {
	return n.change(id, func(e *cairn.MemoryEntry) { e.State = cairn.MemoryActive })
}

func (n notes) Forget(_ context.Context, ids ...string) (int, error) {
	n.in.mu.Lock()
	defer n.in.mu.Unlock()
	before := len(n.in.of[n.scope])
	if before == 0 {
		return 0, nil
	}
	n.in.of[n.scope] = slices.DeleteFunc(n.in.of[n.scope], func(e cairn.MemoryEntry) bool { return slices.Contains(ids, e.ID) })
	return before - len(n.in.of[n.scope]), nil
}

func (n notes) Drop(context.Context) (bool, error) {
	n.in.mu.Lock()
	defer n.in.mu.Unlock()
	found := len(n.in.of[n.scope]) > 0
	delete(n.in.of, n.scope)
	return found, nil
}

func (n notes) Entities(context.Context, string, int) (cairn.Page[cairn.MemoryEntityCount], error) {
	return cairn.Page[cairn.MemoryEntityCount]{Items: []cairn.MemoryEntityCount{{Name: "Ann", Entries: 1}}}, nil
}

func (n notes) Sources(context.Context) ([]cairn.MemorySourceCount, error) {
	return []cairn.MemorySourceCount{{Source: cairn.MemoryApplication, Facts: 1}}, nil
}
