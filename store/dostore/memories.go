package dostore

import (
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// Memories returns the store's memories. Each scope has an object of its own, with these rows:
//
//	owner scope,  key head  the [scopeHead]; the version of the row is that of the scope
//	owner memory, key KEY   an entry, in base 64 without padding
//
// A dropped scope keeps its object, without rows, so that no version comes twice.
func (s *Store) Memories() driver.Memories { return (*memories)(s) }

var _ driver.MemoryProvider = (*Store)(nil)

// memories is the store as driver.Memories.
type memories Store

// scopeHead is the row of a scope, in its object and in the directory.
type scopeHead struct {
	UpdatedAt time.Time `json:"updated_at"`
	DueAt     time.Time `json:"due_at,omitzero"`
}

const (
	ofScope  = "scope"
	ofMemory = "memory"

	// The lists of scopes in the directory: all, those with a due time, and those of purged sessions that are to be dropped.
	allScopes    = "memories"
	dueScopes    = "memories with a due time"
	purgedScopes = "memories of purged sessions"

	// readAtOnce limits the characters of the values in one answer; the last value may exceed it.
	readAtOnce = 4 << 20
	// partsAtOnce limits the parts of one request.
	partsAtOnce = 10_000
)

// behindKeys is a key behind those of all entries.
var behindKeys = strings.Repeat(behind, driver.MaxMemoryKey/len(behind)+1)

// scopeName returns a scope as a text. Texts of scopes have the order of lists.
func scopeName(scope driver.MemoryScope) string { return string(scope.Kind) + ":" + scope.Name }

func parseScope(name string) driver.MemoryScope {
	kind, rest, _ := strings.Cut(name, ":")
	return driver.MemoryScope{Kind: driver.MemoryKind(kind), Name: rest}
}

func sourceOfScope(scope driver.MemoryScope) string { return "memory/" + scopeName(scope) }
func sourceOfPurged(scope driver.MemoryScope) string {
	return "purged memory/" + scopeName(scope)
}

func (m *memories) scope(scope driver.MemoryScope) *link {
	return m.object("memories", scopeName(scope))
}

// part is a part of a read that was not answered yet.
type part struct {
	read int // its index
	ask  ask
}

// Read implements driver.Memories. If it is too large for one answer, its parts are read at one version.
func (m *memories) Read(ctx context.Context, scope driver.MemoryScope, reads ...driver.MemoryRead) (*driver.MemoryEntries, error) {
	if err := driver.CheckMemoryReads(scope, reads); err != nil {
		return nil, err
	}
	for {
		out, err := m.read(ctx, scope, reads)
		if !errors.Is(err, errMoved) {
			return out, err
		}
	}
}

// read is Read. The error is errMoved if the scope was changed between two answers.
func (m *memories) read(ctx context.Context, scope driver.MemoryScope, reads []driver.MemoryRead) (*driver.MemoryEntries, error) {
	out := &driver.MemoryEntries{Found: make([][]driver.MemoryEntry, len(reads))}
	left := make([]part, len(reads))
	for i, r := range reads {
		a := scan(ofMemory, r.From, r.Before)
		if r.Before == "" {
			a.Of[2] = r.From + "\x00"
		}
		a.Limit, a.Sizes = r.Limit, r.Sizes
		left[i] = part{i, a}
	}
	for {
		asks := []ask{get(ofScope, headKey)}
		for _, p := range left[:min(len(left), partsAtOnce)] {
			asks = append(asks, p.ask)
		}
		a, err := m.scope(scope).call(ctx, &request{Op: "read", Ask: asks, Most: readAtOnce})
		if err != nil {
			return nil, err
		}
		head, err := a.one(0)
		switch {
		case err != nil:
			return nil, err
		case out.AsOf.IsZero():
			out.AsOf = a.asOf()
			if head == nil {
				return out, nil
			}
			out.Version = head.version
		case head == nil || head.version != out.Version:
			return nil, errMoved
		}
		if left, err = take(out, left, a); err != nil || len(left) == 0 {
			return out, err
		}
	}
}

// take adds what an answer has to the entries, and returns the parts that are left.
func take(out *driver.MemoryEntries, left []part, a *answer) ([]part, error) {
	n := len(a.Rows) - 1
	if n < 1 && len(left) > 0 || n > len(left) {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "the object answered %d of %d parts", n, len(left))
	}
	for i, p := range left[:n] {
		list, err := a.all(i + 1)
		if err != nil {
			return nil, err
		}
		for j := range list {
			e, err := decodeMemory(&list[j], p.ask.Sizes)
			if err != nil {
				return nil, err
			}
			out.Found[p.read] = append(out.Found[p.read], e)
		}
		if i < n-1 || !a.Cut || len(list) == 0 {
			continue
		}
		rest := p.ask
		rest.Of = []string{ofMemory, list[len(list)-1].key + "\x00", p.ask.Of[2]}
		if rest.Limit > 0 {
			if rest.Limit -= len(list); rest.Limit == 0 {
				continue
			}
		}
		return append([]part{{p.read, rest}}, left[n:]...), nil
	}
	return left[n:], nil
}

// decodeMemory decodes a row of an entry, or of its size.
func decodeMemory(r *row, size bool) (e driver.MemoryEntry, err error) {
	e.Key = r.key
	if size {
		var n int
		n, err = strconv.Atoi(r.value)
		e.Size = base64.RawStdEncoding.DecodedLen(n)
	} else {
		e.Value, err = base64.RawStdEncoding.DecodeString(r.value)
		e.Size = len(e.Value)
	}
	if err != nil {
		err = cairn.Errorf(cairn.ErrCorrupt, "invalid stored memory %q: %w", r.key, err)
	}
	return e, err
}

// Write implements driver.Memories. It is one round trip.
func (m *memories) Write(ctx context.Context, w driver.MemoryWrite) (int64, error) {
	if err := w.Validate(); err != nil {
		return 0, err
	}
	refused, version, err := m.scope(w.Scope).write(ctx, func(at time.Time) (*request, error) {
		r := &rows{at: at}
		r.expect(ofScope, headKey, w.Seen)
		text := r.put(ofScope, headKey, "scope of memories", scopeHead{at, w.DueAt})
		for _, key := range w.Deletes {
			r.Clear = append(r.Clear, only(ofMemory, key))
		}
		for i := range w.Puts {
			r.text(ofMemory, w.Puts[i].Key, base64.RawStdEncoding.EncodeToString(w.Puts[i].Value))
		}
		name := scopeName(w.Scope)
		item := shared{Source: sourceOfScope(w.Scope), Value: &text, Lists: [][2]string{{allScopes, name}}}
		if !w.DueAt.IsZero() {
			item.Lists = append(item.Lists, [2]string{dueScopes, name})
		}
		r.Share = append(r.Share, item)
		return &r.request, r.err
	})
	if err == nil && refused != nil {
		err = driver.StaleMemories(w.Scope, w.Seen, refused.version())
	}
	return version, err
}

// Drop implements driver.Memories.
func (m *memories) Drop(ctx context.Context, scope driver.MemoryScope) (found bool, err error) {
	if err := scope.Check(); err != nil {
		return false, err
	}
	for {
		a, err := m.scope(scope).call(ctx, &request{Op: "read", Ask: []ask{get(ofScope, headKey)}})
		if err != nil {
			return false, err
		}
		head, err := a.one(0)
		if err != nil || head == nil {
			return false, err
		}
		r := &rows{}
		r.expect(ofScope, headKey, head.version)
		r.Clear = [][3]string{only(ofScope, headKey), {ofMemory, "", behindKeys}}
		r.Share = []shared{{Source: sourceOfScope(scope)}}
		refused, _, err := m.scope(scope).write(ctx, fixed(&r.request))
		if err != nil || refused == nil {
			return err == nil, err
		}
	}
}

// Scopes implements driver.Memories.
func (m *memories) Scopes(ctx context.Context, q driver.MemoryScopeQuery) (page driver.Page[driver.MemoryScopeRow], err error) {
	after, err := q.After()
	if err != nil {
		return page, err
	}
	list, from, to := allScopes, "", behind
	if q.Due {
		list = dueScopes
	}
	if q.Kind != "" {
		from, to = string(q.Kind)+":", string(q.Kind)+";" // ; follows :
	}
	if q.Cursor != "" {
		from = max(from, scopeName(after)+"\x00")
	}
	var found []driver.MemoryScopeRow
	err = m.each(ctx, list, from, to, false, func(r *row, now time.Time) (bool, error) {
		var head scopeHead
		if err := backend.DecodeJSON("scope of memories", r.value, &head); err != nil {
			return false, err
		}
		one := driver.MemoryScopeRow{MemoryScope: parseScope(r.key), Version: r.version, UpdatedAt: head.UpdatedAt, DueAt: head.DueAt}
		if q.Selects(&one, after, now) {
			found = append(found, one)
		}
		return len(found) <= driver.PageSize(q.Limit), nil
	})
	if err != nil {
		return page, err
	}
	return driver.MemoryScopePage(&q, found), nil
}

// sharePurged adds to the write that purges a session that the session's memories are to be dropped. So they are
// dropped too if the process dies after the write.
func sharePurged(r *rows, s *cairn.Session) {
	scope, empty := driver.SessionMemories(s.ID, s.Incarnation), ""
	r.Share = append(r.Share, shared{Source: sourceOfPurged(scope), Value: &empty, Lists: [][2]string{{purgedScopes, scopeName(scope)}}})
}

// dropPurged drops the memories of purged sessions.
func (m *memories) dropPurged(ctx context.Context) error {
	return m.each(ctx, purgedScopes, "", behind, false, func(r *row, _ time.Time) (bool, error) {
		scope := parseScope(r.key)
		if _, err := m.Drop(ctx, scope); err != nil {
			return false, err
		}
		done := shared{Source: sourceOfPurged(scope), Version: r.version + 1}
		_, err := m.directory().call(ctx, &request{Op: "deliver", Share: []shared{done}})
		return true, err
	})
}
