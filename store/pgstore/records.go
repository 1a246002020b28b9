package pgstore

import (
	"context"
	"encoding/json"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

const (
	recordColumns = `r.namespace, r.key, r.position, r.version, r.created_at, r.updated_at, r.expires_at, r.value, greatest(statement_timestamp(), r.updated_at)`

	// By the key of records.
	sqlRecord = `
		SELECT ` + recordColumns + `
		FROM {schema}.records r
		WHERE r.namespace = $1 AND r.key = $2 AND (r.expires_at IS NULL OR r.expires_at > statement_timestamp())`

	// By the key of records.
	sqlRecords = `
		SELECT ` + recordColumns + `
		FROM {schema}.records r
		WHERE r.namespace = $1 AND r.key >= $2 AND r.key > $3 AND r.key < $4
			AND (r.expires_at IS NULL OR r.expires_at > statement_timestamp())
		ORDER BY r.key
		LIMIT $5`

	// By records_position.
	sqlRecordsByIndex = `
		SELECT ` + recordColumns + `
		FROM {schema}.records r
		WHERE r.namespace = $1 AND r.position <> '' AND (r.position, r.key) > ($2, $3) AND r.position < $4
			AND (r.expires_at IS NULL OR r.expires_at > statement_timestamp())
		ORDER BY r.position, r.key
		LIMIT $5`

	// By the key of records: one lookup for each namespace, regardless of how many records it has.
	sqlNamespaces = `
		WITH RECURSIVE namespaces (name) AS (
			SELECT min(namespace) FROM {schema}.records WHERE namespace > $1
			UNION ALL
			SELECT (SELECT min(r.namespace) FROM {schema}.records r WHERE r.namespace > n.name) FROM namespaces n WHERE n.name IS NOT NULL
		)
		SELECT name FROM namespaces WHERE name IS NOT NULL LIMIT $2`

	// sweepRecords removes up to ten expired records, by records_expiry. It skips those that another process is about
	// to remove or replace, so that no two writes deadlock.
	sweepRecords = `
		WITH swept AS (
			DELETE FROM {schema}.records
			WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM {schema}.records
				WHERE expires_at <= statement_timestamp() AND (namespace, key) <> ($1, $2)
				ORDER BY expires_at
				LIMIT 10
				FOR UPDATE SKIP LOCKED))
		)`

	// expiryAfter adds the time to live. With a time to live of 0 the record never expires.
	expiryAfter = ` + CASE WHEN $5::bigint > 0 THEN $5 * interval '1 microsecond' END`

	setRecord = `
			position = $3, value = $4, updated_at = greatest(statement_timestamp(), r.updated_at),
			expires_at = greatest(statement_timestamp(), r.updated_at)` + expiryAfter + `,
			version = DEFAULT`

	// sqlPutRecord writes a record that must not exist yet, or that may have any version.
	sqlPutRecord = sweepRecords + `
		INSERT INTO {schema}.records AS r (namespace, key, position, value, created_at, updated_at, expires_at)
		VALUES ($1, $2, $3, $4, statement_timestamp(), statement_timestamp(), statement_timestamp()` + expiryAfter + `)
		ON CONFLICT (namespace, key) DO UPDATE SET ` + setRecord + `,
			created_at = CASE WHEN r.expires_at <= statement_timestamp() THEN statement_timestamp() ELSE r.created_at END
		WHERE $6::bigint < 0 OR r.expires_at <= statement_timestamp()
		RETURNING ` + recordColumns

	// sqlReplaceRecord replaces one version of a record.
	sqlReplaceRecord = sweepRecords + `
		UPDATE {schema}.records r SET ` + setRecord + `
		WHERE namespace = $1 AND key = $2 AND version = $6 AND (expires_at IS NULL OR expires_at > statement_timestamp())
		RETURNING ` + recordColumns

	sqlDeleteRecord = `
		DELETE FROM {schema}.records
		WHERE namespace = $1 AND key = $2 AND (version = $3 OR $3 < 0) AND (expires_at IS NULL OR expires_at > statement_timestamp())`
)

var _ driver.RecordProvider = (*Store)(nil)

// Records returns the store's records. A write is one statement, which also removes up to ten expired records. A write
// whose answer was lost is not sent again: the error is ErrUnavailable.
func (s *Store) Records() driver.Records { return (*records)(s) }

// records is the store as driver.Records.
type records Store

func readStored(rows pgx.Rows) (r driver.Record, err error) {
	var value string
	var expires *time.Time
	err = rows.Scan(&r.Namespace, &r.Key, &r.Index, &r.Version, &r.CreatedAt, &r.UpdatedAt, &expires, &value, &r.AsOf)
	if err != nil {
		return r, err
	}
	r.CreatedAt, r.UpdatedAt, r.ExpiresAt, r.AsOf = r.CreatedAt.UTC(), r.UpdatedAt.UTC(), instant(expires), r.AsOf.UTC()
	r.Value = json.RawMessage(value)
	if !json.Valid(r.Value) {
		return r, cairn.Errorf(cairn.ErrCorrupt, "record %q in %q: the stored value is not valid JSON", r.Key, r.Namespace)
	}
	return r, nil
}

// record runs a statement that returns at most one record, and returns nil for none.
func (c *conn) record(ctx context.Context, text string, args ...any) (r *driver.Record, err error) {
	err = c.query(ctx, text, func(rows pgx.Rows) error {
		read, err := readStored(rows)
		r = &read
		return err
	}, args...)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Get implements driver.Records.
func (r *records) Get(ctx context.Context, namespace, key string) (there *driver.Record, err error) {
	if err := driver.CheckRecordKey(namespace, key); err != nil {
		return nil, err
	}
	s := (*Store)(r)
	err = s.try(ctx, "read a record", reads, func(ctx context.Context, c *conn) error {
		there, err = c.record(ctx, sqlRecord, namespace, key)
		return err
	})
	if err == nil && there == nil {
		err = driver.RecordNotFound(namespace, key)
	}
	if err != nil {
		return nil, err
	}
	return there, nil
}

// mostPuts bounds how often Put writes a record again that must not exist yet, after the existing one disappeared in
// the meantime.
const mostPuts = 5

// Put implements driver.Records.
func (r *records) Put(ctx context.Context, w driver.RecordWrite) (next *driver.Record, err error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	s := (*Store)(r)
	text := sqlPutRecord
	if w.Seen > 0 {
		text = sqlReplaceRecord
	}
	err = s.try(ctx, "write a record", once, func(ctx context.Context, c *conn) error {
		for n := 0; ; n++ {
			next, err = c.record(ctx, text, w.Namespace, w.Key, w.Index, string(w.Value), w.Micros(), w.Seen)
			if err != nil || next != nil {
				return err
			}
			there, err := c.record(ctx, sqlRecord, w.Namespace, w.Key)
			if err != nil {
				return err
			}
			if there != nil || w.Seen > 0 || n == mostPuts {
				return driver.RecordConflict(w.Namespace, w.Key, w.Seen, there)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return next, nil
}

// Delete implements driver.Records.
func (r *records) Delete(ctx context.Context, namespace, key string, seen int64) error {
	if err := driver.CheckRecordDelete(namespace, key, seen); err != nil {
		return err
	}
	s := (*Store)(r)
	return s.try(ctx, "delete a record", once, func(ctx context.Context, c *conn) error {
		n, err := c.exec(ctx, sqlDeleteRecord, namespace, key, seen)
		if err != nil || n > 0 {
			return err
		}
		there, err := c.record(ctx, sqlRecord, namespace, key)
		switch {
		case err != nil:
			return err
		case there == nil || seen == driver.AnyVersion: // a record created after the deletion is not the caller's
			return driver.RecordNotFound(namespace, key)
		}
		return driver.RecordConflict(namespace, key, seen, there)
	})
}

// List implements driver.Records.
func (r *records) List(ctx context.Context, q driver.RecordQuery) (driver.Page[driver.Record], error) {
	selected, err := q.Range()
	if err != nil {
		return driver.Page[driver.Record]{}, err
	}
	s, size := (*Store)(r), q.Size()
	text, args := sqlRecords, []any{q.Namespace, selected.From, selected.AfterKey, selected.Before, size + 1}
	if selected.ByIndex {
		text, args[1] = sqlRecordsByIndex, selected.AfterIndex
	}
	var page driver.Page[driver.Record]
	err = s.try(ctx, "list records", reads, func(ctx context.Context, c *conn) error {
		page = driver.Page[driver.Record]{}
		return c.query(ctx, text, func(rows pgx.Rows) error {
			rec, err := readStored(rows)
			page.Items = append(page.Items, rec)
			return err
		}, args...)
	})
	if err != nil {
		return driver.Page[driver.Record]{}, err
	}
	if len(page.Items) > size {
		page.Items = page.Items[:size]
		page.Next = driver.RecordCursor(&q, &page.Items[size-1])
	}
	return page, nil
}

// Namespaces implements driver.Records.
func (r *records) Namespaces(ctx context.Context, cursor string) (driver.Page[string], error) {
	if err := driver.CheckNamespaceCursor(cursor); err != nil {
		return driver.Page[string]{}, err
	}
	var names []string
	err := (*Store)(r).try(ctx, "list namespaces", reads, func(ctx context.Context, c *conn) error {
		names = nil
		return c.query(ctx, sqlNamespaces, func(rows pgx.Rows) error {
			var name string
			err := rows.Scan(&name)
			names = append(names, name)
			return err
		}, cursor, driver.MaxRecordPage+1)
	})
	if err != nil {
		return driver.Page[string]{}, err
	}
	return driver.NamespacePage(names), nil
}
