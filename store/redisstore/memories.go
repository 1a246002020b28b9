package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store/driver"
)

// aboutMemories returns a script whose first argument is a scope.
func aboutMemories(name, doing string, e effect) *script {
	return load(name, doing, e, source("common")+source("memory")+source(name))
}

var (
	scriptMemoryRead   = aboutMemories("memoryread", "read memories", reads)
	scriptMemoryWrite  = aboutMemories("memorywrite", "write memories", grows)
	scriptMemoryDrop   = aboutMemories("memorydrop", "drop memories", frees)
	scriptMemoryScopes = keyed("memoryscopes", "list scopes of memories", reads)
)

// Memories returns the store's memories. Each call runs one script, so a read is from one point in time. On a cluster a
// scope is in one slot. A write whose answer was lost is sent again and recognized. Scopes that are due are listed
// together, and then cut into pages.
func (s *Store) Memories() driver.Memories { return (*memories)(s) }

var _ driver.MemoryProvider = (*Store)(nil)

// memories is the store as driver.Memories.
type memories Store

func scopeName(scope driver.MemoryScope) string { return string(scope.Kind) + ":" + scope.Name }

// runMemories runs a script on the bucket of a scope.
func (s *Store) runMemories(ctx context.Context, sc *script, scope driver.MemoryScope, args ...any) (reply, error) {
	name := scopeName(scope)
	return s.run(ctx, sc, s.bucketOf(name), append([]any{name}, args...)...)
}

// number returns an element of an answer that is a whole number.
func (r reply) number(sc *script, i int) (int64, error) {
	n, err := strconv.ParseInt(r.text(i), 10, 64)
	if err != nil {
		return 0, unknown(sc, r)
	}
	return n, nil
}

// Read implements driver.Memories.
func (m *memories) Read(ctx context.Context, scope driver.MemoryScope, ranges ...driver.MemoryRead) (*driver.MemoryEntries, error) {
	if err := driver.CheckMemoryReads(scope, ranges); err != nil {
		return nil, err
	}
	args := make([]any, 0, 4*len(ranges))
	for _, r := range ranges {
		before, most, sizes := "", -1, "0"
		if r.Before != "" {
			before = "(" + r.Before
		}
		if r.Limit > 0 {
			most = r.Limit
		}
		if r.Sizes {
			sizes = "1"
		}
		args = append(args, r.From, before, most, sizes)
	}
	answer, err := (*Store)(m).runMemories(ctx, scriptMemoryRead, scope, args...)
	if err != nil {
		return nil, err
	}
	out := &driver.MemoryEntries{Found: make([][]driver.MemoryEntry, len(ranges))}
	now, err := answer.number(scriptMemoryRead, 1)
	if err != nil {
		return nil, err
	}
	out.AsOf = fromMicros(now)
	if out.Version, err = answer.number(scriptMemoryRead, 2); err != nil {
		return nil, err
	}
	for i := range answer.list(3) {
		list := reply(answer.list(3)).list(i)
		for j := 0; j+1 < len(list); j += 2 {
			e := driver.MemoryEntry{Key: plain(list[j])}
			if value := plain(list[j+1]); !ranges[i].Sizes {
				e.Value, e.Size = []byte(value), len(value)
			} else if e.Size, err = strconv.Atoi(value); err != nil {
				return nil, unknown(scriptMemoryRead, answer)
			}
			out.Found[i] = append(out.Found[i], e)
		}
	}
	return out, nil
}

// Write implements driver.Memories.
func (m *memories) Write(ctx context.Context, w driver.MemoryWrite) (version int64, err error) {
	if err := w.Validate(); err != nil {
		return 0, err
	}
	due := ""
	if !w.DueAt.IsZero() {
		due = strconv.FormatInt(micros(w.DueAt), 10)
	}
	args := make([]any, 0, 4+2*len(w.Puts)+len(w.Deletes))
	args = append(args, w.Seen, due, ids.New("memories"), len(w.Puts))
	for i := range w.Puts {
		args = append(args, w.Puts[i].Key, w.Puts[i].Value)
	}
	for _, key := range w.Deletes {
		args = append(args, key)
	}
	answer, err := (*Store)(m).runMemories(ctx, scriptMemoryWrite, w.Scope, args...)
	if err != nil {
		return 0, err
	}
	version, err = answer.number(scriptMemoryWrite, 1)
	if err == nil && answer.word() == "stale" {
		err = driver.StaleMemories(w.Scope, w.Seen, version)
	}
	if err != nil {
		return 0, err
	}
	return version, nil
}

// Drop implements driver.Memories.
func (m *memories) Drop(ctx context.Context, scope driver.MemoryScope) (bool, error) {
	if err := scope.Check(); err != nil {
		return false, err
	}
	answer, err := (*Store)(m).runMemories(ctx, scriptMemoryDrop, scope, ids.New("drop"))
	return err == nil && answer.word() == "ok", err
}

// Scopes implements driver.Memories. On a cluster it asks every bucket.
func (m *memories) Scopes(ctx context.Context, q driver.MemoryScopeQuery) (page driver.Page[driver.MemoryScopeRow], err error) {
	after, err := q.After()
	if err != nil {
		return page, err
	}
	from, to, due := "-", "+", "0"
	if q.Kind != "" {
		from, to = "["+string(q.Kind)+":", "("+string(q.Kind)+";" // ; follows :
	}
	if q.Cursor != "" && (q.Kind == "" || q.Kind <= after.Kind) {
		from = "(" + scopeName(after)
	}
	if q.Due {
		due = "1"
	}
	replies, err := (*Store)(m).runAll(ctx, scriptMemoryScopes, from, to, driver.PageSize(q.Limit)+1, due)
	if err != nil {
		return page, err
	}
	var rows []driver.MemoryScopeRow
	for _, answer := range replies {
		for i := range answer.list(1) {
			row, err := decodeScope(reply(answer.list(1)).list(i))
			if err != nil {
				return page, err
			}
			all := q
			all.Due = false // the script has selected those
			if all.Selects(&row, after, time.Time{}) {
				rows = append(rows, row)
			}
		}
	}
	slices.SortFunc(rows, func(a, b driver.MemoryScopeRow) int { return a.Compare(b.MemoryScope) })
	return driver.MemoryScopePage(&q, rows), nil
}

func decodeScope(fields reply) (row driver.MemoryScopeRow, err error) {
	kind, name, _ := strings.Cut(fields.text(0), ":")
	row.MemoryScope = driver.MemoryScope{Kind: driver.MemoryKind(kind), Name: name}
	if row.Version, err = fields.number(scriptMemoryScopes, 1); err != nil {
		return row, err
	}
	for i, at := range []*time.Time{&row.UpdatedAt, &row.DueAt} {
		if text := fields.text(2 + i); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return row, cairn.Errorf(cairn.ErrCorrupt, "scope %q of memories: invalid stored time %q", fields.text(0), text)
			}
			*at = fromMicros(n)
		}
	}
	return row, nil
}
