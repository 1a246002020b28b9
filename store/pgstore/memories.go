package pgstore

import (
	"context"
	"time"

	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

const (
	// sqlReadMemories reads ranges of entries in one statement, so all are from one snapshot. By the keys of both tables.
	sqlReadMemories = `
		SELECT greatest(statement_timestamp(), s.updated_at), coalesce(s.version, 0), x.n, x.key, x.size, x.value
		FROM (SELECT) always
		LEFT JOIN {schema}.memory_scopes s ON s.kind = $1 AND s.name = $2
		LEFT JOIN LATERAL (
			SELECT r.n, e.key, octet_length(e.value) AS size, CASE WHEN NOT r.sizes THEN e.value END AS value
			FROM unnest($3::text[], $4::text[], $5::bigint[], $6::boolean[]) WITH ORDINALITY r (first, before, most, sizes, n)
			CROSS JOIN LATERAL (
				SELECT m.key, m.value FROM {schema}.memory_entries m
				WHERE m.scope = s.key AND m.key >= r.first COLLATE "C" AND m.key < r.before COLLATE "C"
				ORDER BY m.key LIMIT nullif(r.most, 0)
			) e
		) x ON TRUE
		ORDER BY x.n, x.key`

	nextMemoryVersion = `greatest(s.version + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)`

	changeMemories = `, gone AS (
			DELETE FROM {schema}.memory_entries m USING scope WHERE m.scope = scope.key AND m.key = ANY ($5::text[])
		), put AS (
			INSERT INTO {schema}.memory_entries (scope, key, value)
			SELECT scope.key, e.key, e.value FROM scope, unnest($6::text[], $7::bytea[]) e (key, value)
			ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value
		)
		SELECT version FROM scope`

	// sqlCreateMemories writes entries of a scope that must not exist yet.
	sqlCreateMemories = `
		WITH scope AS (
			INSERT INTO {schema}.memory_scopes AS s (kind, name, version, updated_at, due_at)
			SELECT $1, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, statement_timestamp(), $4::timestamptz
			WHERE $3::bigint = 0
			ON CONFLICT (kind, name) DO NOTHING
			RETURNING key, version
		)` + changeMemories

	// sqlWriteMemories writes entries of a scope that has a version.
	sqlWriteMemories = `
		WITH scope AS (
			UPDATE {schema}.memory_scopes s
			SET version = ` + nextMemoryVersion + `, updated_at = greatest(statement_timestamp(), s.updated_at), due_at = $4
			WHERE kind = $1 AND name = $2 AND version = $3
			RETURNING key, version
		)` + changeMemories

	sqlMemoryVersion = `SELECT version FROM {schema}.memory_scopes WHERE kind = $1 AND name = $2`

	// sqlLockMemories locks a scope, so that no writer adds entries while it is dropped.
	sqlLockMemories = `SELECT key FROM {schema}.memory_scopes WHERE kind = $1 AND name = $2 FOR UPDATE`

	sqlDropMemories = `DELETE FROM {schema}.memory_entries WHERE scope = $1`

	sqlDropMemoryScope = `DELETE FROM {schema}.memory_scopes WHERE key = $1`

	// By the key of memory_scopes, or by memory_scopes_due.
	sqlMemoryScopes = `
		SELECT kind, name, version, updated_at, due_at FROM {schema}.memory_scopes
		WHERE (kind, name) > ($1, $2) AND ($3 = '' OR kind = $3)
		ORDER BY kind, name LIMIT $4`

	sqlMemoryScopesDue = `
		SELECT kind, name, version, updated_at, due_at FROM {schema}.memory_scopes
		WHERE (kind, name) > ($1, $2) AND ($3 = '' OR kind = $3) AND due_at IS NOT NULL AND due_at <= statement_timestamp()
		ORDER BY kind, name LIMIT $4`
)

// Memories returns the store's memories. A read is one statement, and so is a write. A write whose answer was lost is
// not sent again: the error is ErrUnavailable.
func (s *Store) Memories() driver.Memories { return (*memories)(s) }

var _ driver.MemoryProvider = (*Store)(nil)

// memories is the store as driver.Memories.
type memories Store

// Read implements driver.Memories.
func (m *memories) Read(ctx context.Context, scope driver.MemoryScope, ranges ...driver.MemoryRead) (out *driver.MemoryEntries, err error) {
	if err := driver.CheckMemoryReads(scope, ranges); err != nil {
		return nil, err
	}
	first, before := make([]string, len(ranges)), make([]string, len(ranges))
	most, sizes := make([]int64, len(ranges)), make([]bool, len(ranges))
	for i, r := range ranges {
		first[i], before[i], most[i], sizes[i] = r.From, r.Before, int64(r.Limit), r.Sizes
		if r.Before == "" {
			before[i] = r.From + "\x01" // no key has a NUL, so nothing is between the two
		}
	}
	err = (*Store)(m).try(ctx, "read memories", reads, func(ctx context.Context, c *conn) error {
		out = &driver.MemoryEntries{Found: make([][]driver.MemoryEntry, len(ranges))}
		return c.query(ctx, sqlReadMemories, func(rows pgx.Rows) error {
			var n *int64
			var key *string
			var size *int
			var value []byte
			if err := rows.Scan(&out.AsOf, &out.Version, &n, &key, &size, &value); err != nil || n == nil {
				return err
			}
			out.Found[*n-1] = append(out.Found[*n-1], driver.MemoryEntry{Key: *key, Size: *size, Value: value})
			return nil
		}, string(scope.Kind), scope.Name, first, before, most, sizes)
	})
	if err != nil {
		return nil, err
	}
	out.AsOf = out.AsOf.UTC()
	return out, nil
}

// Write implements driver.Memories.
func (m *memories) Write(ctx context.Context, w driver.MemoryWrite) (version int64, err error) {
	if err := w.Validate(); err != nil {
		return 0, err
	}
	keys, values := make([]string, len(w.Puts)), make([][]byte, len(w.Puts))
	for i := range w.Puts {
		if keys[i], values[i] = w.Puts[i].Key, w.Puts[i].Value; values[i] == nil {
			values[i] = []byte{}
		}
	}
	deletes := w.Deletes
	if deletes == nil {
		deletes = []string{}
	}
	var due *time.Time
	if !w.DueAt.IsZero() {
		due = &w.DueAt
	}
	text := sqlCreateMemories
	if w.Seen > 0 {
		text = sqlWriteMemories
	}
	err = (*Store)(m).try(ctx, "write memories", once, func(ctx context.Context, c *conn) error {
		found, err := c.row(ctx, text, []any{&version}, string(w.Scope.Kind), w.Scope.Name, w.Seen, due, deletes, keys, values)
		if err != nil || found {
			return err
		}
		var there int64
		if _, err := c.row(ctx, sqlMemoryVersion, []any{&there}, string(w.Scope.Kind), w.Scope.Name); err != nil {
			return err
		}
		return driver.StaleMemories(w.Scope, w.Seen, there)
	})
	if err != nil {
		return 0, err
	}
	return version, nil
}

// Drop implements driver.Memories.
func (m *memories) Drop(ctx context.Context, scope driver.MemoryScope) (found bool, err error) {
	if err := scope.Check(); err != nil {
		return false, err
	}
	err = (*Store)(m).try(ctx, "drop memories", again, func(ctx context.Context, c *conn) error {
		return c.transact(ctx, func(c *conn) error {
			var key int64
			there, err := c.row(ctx, sqlLockMemories, []any{&key}, string(scope.Kind), scope.Name)
			found = found || there // an attempt whose answer was lost may have dropped it
			if err != nil || !there {
				return err
			}
			for _, text := range []string{sqlDropMemories, sqlDropMemoryScope} {
				if _, err := c.exec(ctx, text, key); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return found, err
}

// Scopes implements driver.Memories.
func (m *memories) Scopes(ctx context.Context, q driver.MemoryScopeQuery) (driver.Page[driver.MemoryScopeRow], error) {
	after, err := q.After()
	if err != nil {
		return driver.Page[driver.MemoryScopeRow]{}, err
	}
	text := sqlMemoryScopes
	if q.Due {
		text = sqlMemoryScopesDue
	}
	var list []driver.MemoryScopeRow
	err = (*Store)(m).try(ctx, "list memories", reads, func(ctx context.Context, c *conn) error {
		list = nil
		return c.query(ctx, text, func(rows pgx.Rows) error {
			var r driver.MemoryScopeRow
			var due *time.Time
			err := rows.Scan(&r.Kind, &r.Name, &r.Version, &r.UpdatedAt, &due)
			r.UpdatedAt, r.DueAt = r.UpdatedAt.UTC(), instant(due)
			list = append(list, r)
			return err
		}, string(after.Kind), after.Name, string(q.Kind), driver.PageSize(q.Limit)+1)
	})
	if err != nil {
		return driver.Page[driver.MemoryScopeRow]{}, err
	}
	return driver.MemoryScopePage(&q, list), nil
}
