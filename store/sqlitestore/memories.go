package sqlitestore

import (
	"context"
	"encoding/json"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	sqlMemoryScope = `SELECT key, version FROM memory_scopes WHERE kind = ?1 AND name = ?2`

	// Memories by their keys, a JSON array.
	sqlMemoryEntries = `
		SELECT key, length(value), value FROM memory_entries
		WHERE scope = ?1 AND key IN (SELECT value FROM json_each(?2))`

	sqlMemoryRange = `
		SELECT key, length(value), value FROM memory_entries
		WHERE scope = ?1 AND key >= ?2 AND key < ?3 ORDER BY key LIMIT ?4`

	sqlMemorySizes = `
		SELECT key, length(value), x'' FROM memory_entries
		WHERE scope = ?1 AND key >= ?2 AND key < ?3 ORDER BY key LIMIT ?4`

	sqlInsertMemoryScope = `INSERT INTO memory_scopes (kind, name, version, updated_at, due_at) VALUES (?1, ?2, ?3, ?4, ?5)`

	sqlUpdateMemoryScope = `UPDATE memory_scopes SET version = ?2, updated_at = ?3, due_at = ?4 WHERE key = ?1`

	sqlPutMemory = `
		INSERT INTO memory_entries (scope, key, value) VALUES (?1, ?2, ?3)
		ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value`

	sqlDeleteMemory = `DELETE FROM memory_entries WHERE scope = ?1 AND key = ?2`

	// A scope that is being dropped has no kind.
	sqlHideMemories = `UPDATE memory_scopes SET kind = '', name = key, due_at = 0 WHERE kind = ?1 AND name = ?2`

	sqlHiddenMemories = `SELECT key FROM memory_scopes WHERE kind = '' LIMIT 1`

	sqlDropMemories = `
		DELETE FROM memory_entries
		WHERE scope = ?1 AND key IN (SELECT key FROM memory_entries WHERE scope = ?1 LIMIT ?2)`

	sqlDropMemoryScope = `DELETE FROM memory_scopes WHERE key = ?1`

	// Both indexes begin with kind and name; an empty kind means all.
	sqlMemoryScopes = `
		SELECT kind, name, version, updated_at, due_at FROM memory_scopes
		WHERE (kind, name) > (?1, ?2) AND kind <> '' AND (?3 = '' OR kind = ?3)
		ORDER BY kind, name LIMIT ?4`

	sqlMemoryScopesDue = `
		SELECT kind, name, version, updated_at, due_at FROM memory_scopes
		WHERE (kind, name) > (?1, ?2) AND (?3 = '' OR kind = ?3) AND due_at > 0 AND due_at <= ?5
		ORDER BY kind, name LIMIT ?4`

	// The scope of a removed session, see driver.SessionMemories.
	ofRemoved = `(SELECT m.key FROM removed r JOIN memory_scopes m
		ON m.kind = 'session' AND m.name = r.id || CASE WHEN r.incarnation = '' THEN '' ELSE '@' || r.incarnation END
		WHERE r.key = ?1)`
)

// Memories returns the store's memories. A write is one transaction.
func (s *Store) Memories() driver.Memories { return (*memories)(s) }

var _ driver.MemoryProvider = (*Store)(nil)

// memories is the store as driver.Memories.
type memories Store

// memoryScope returns the key and the version of a scope; zeros if it does not exist.
func (c *conn) memoryScope(scope driver.MemoryScope) (key, version int64, err error) {
	_, err = c.row(sqlMemoryScope, func(cols *columns) { key, version = cols.int64(), cols.int64() }, string(scope.Kind), scope.Name)
	return key, version, err
}

// Read implements driver.Memories.
func (m *memories) Read(ctx context.Context, scope driver.MemoryScope, reads ...driver.MemoryRead) (*driver.MemoryEntries, error) {
	if err := driver.CheckMemoryReads(scope, reads); err != nil {
		return nil, err
	}
	s := (*Store)(m)
	var out *driver.MemoryEntries
	err := s.readers.view(ctx, func(c *conn) error {
		out = &driver.MemoryEntries{Found: make([][]driver.MemoryEntry, len(reads)), AsOf: s.clock()}
		key, version, err := c.memoryScope(scope)
		if err != nil || version == 0 {
			return err
		}
		out.Version = version
		return c.readMemories(ctx, key, reads, out.Found)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// readMemories reads ranges one by one, and all single entries together.
func (c *conn) readMemories(ctx context.Context, scope int64, reads []driver.MemoryRead, found [][]driver.MemoryEntry) error {
	single := map[string][]int{}
	var keys []string
	for i, r := range reads {
		if r.Before == "" {
			if single[r.From] == nil {
				keys = append(keys, r.From)
			}
			single[r.From] = append(single[r.From], i)
			continue
		}
		text, limit := sqlMemoryRange, r.Limit
		if r.Sizes {
			text = sqlMemorySizes
		}
		if limit == 0 {
			limit = -1
		}
		err := c.query(ctx, text, func(cols *columns) bool {
			e := driver.MemoryEntry{Key: cols.text(), Size: cols.int()}
			if value := cols.bytes(); !r.Sizes {
				e.Value = value
			}
			found[i] = append(found[i], e)
			return true
		}, scope, r.From, r.Before, limit)
		if err != nil {
			return err
		}
	}
	if len(keys) == 0 {
		return nil
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return cairn.Errorf(cairn.ErrInternal, "%w", err)
	}
	return c.query(ctx, sqlMemoryEntries, func(cols *columns) bool {
		e := driver.MemoryEntry{Key: cols.text(), Size: cols.int(), Value: cols.bytes()}
		for n, i := range single[e.Key] {
			copied := e
			if n > 0 {
				copied.Value = append([]byte{}, e.Value...)
			}
			if reads[i].Sizes {
				copied.Value = nil
			}
			found[i] = append(found[i], copied)
		}
		return true
	}, scope, string(list))
}

// Write implements driver.Memories.
func (m *memories) Write(ctx context.Context, w driver.MemoryWrite) (version int64, err error) {
	if err := w.Validate(); err != nil {
		return 0, err
	}
	s := (*Store)(m)
	err = s.writer.write(ctx, true, func(c *conn) error {
		key, there, err := c.memoryScope(w.Scope)
		if err != nil {
			return err
		}
		if there != w.Seen {
			return driver.StaleMemories(w.Scope, w.Seen, there)
		}
		now := s.clock()
		version = driver.NextMemoryVersion(there, now)
		if there == 0 {
			key, err = c.insert(sqlInsertMemoryScope, string(w.Scope.Kind), w.Scope.Name, version, micros(now), micros(w.DueAt))
		} else {
			_, err = c.exec(sqlUpdateMemoryScope, key, version, micros(now), micros(w.DueAt))
		}
		if err != nil {
			return err
		}
		for i := range w.Puts {
			value := w.Puts[i].Value
			if value == nil {
				value = []byte{}
			}
			if _, err := c.exec(sqlPutMemory, key, w.Puts[i].Key, value); err != nil {
				return err
			}
		}
		for _, name := range w.Deletes {
			if _, err := c.exec(sqlDeleteMemory, key, name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fault("write memories", err)
	}
	return version, nil
}

// Drop implements driver.Memories. It hides the scope, and then removes its entries a batch at a time. What an
// interrupted Drop leaves is removed by the next one.
func (m *memories) Drop(ctx context.Context, scope driver.MemoryScope) (found bool, err error) {
	if err := scope.Check(); err != nil {
		return false, err
	}
	s := (*Store)(m)
	err = s.writer.write(ctx, true, func(c *conn) error {
		n, err := c.exec(sqlHideMemories, string(scope.Kind), scope.Name)
		found = n > 0
		return err
	})
	if err != nil {
		return false, fault("drop memories", err)
	}
	for done := false; !done; {
		err := s.writer.write(ctx, false, func(c *conn) error {
			var key int64
			hidden, err := c.row(sqlHiddenMemories, func(cols *columns) { key = cols.int64() })
			if done = !hidden; err != nil || done {
				return err
			}
			n, err := c.exec(sqlDropMemories, key, purgeBatch)
			if err != nil || n == purgeBatch {
				return err
			}
			_, err = c.exec(sqlDropMemoryScope, key)
			return err
		})
		if err != nil {
			return found, fault("drop memories", err)
		}
	}
	return found, nil
}

// Scopes implements driver.Memories.
func (m *memories) Scopes(ctx context.Context, q driver.MemoryScopeQuery) (driver.Page[driver.MemoryScopeRow], error) {
	after, err := q.After()
	if err != nil {
		return driver.Page[driver.MemoryScopeRow]{}, err
	}
	s := (*Store)(m)
	args := []any{string(after.Kind), after.Name, string(q.Kind), driver.PageSize(q.Limit) + 1}
	text := sqlMemoryScopes
	if q.Due {
		text, args = sqlMemoryScopesDue, append(args, micros(s.clock()))
	}
	var rows []driver.MemoryScopeRow
	err = s.readers.read(ctx, func(c *conn) error {
		rows = nil
		return c.query(ctx, text, func(cols *columns) bool {
			rows = append(rows, driver.MemoryScopeRow{MemoryScope: driver.MemoryScope{Kind: driver.MemoryKind(cols.text()), Name: cols.text()},
				Version: cols.int64(), UpdatedAt: cols.time(), DueAt: cols.time()})
			return true
		}, args...)
	})
	if err != nil {
		return driver.Page[driver.MemoryScopeRow]{}, err
	}
	return driver.MemoryScopePage(&q, rows), nil
}
