package sqlitestore

import (
	"context"
	"encoding/json"

	"github.com/cairn-agents/cairn/store/driver"
)

const selectRecord = `SELECT namespace, key, position, version, created_at, updated_at, expires_at, value FROM records`

const (
	// By records_key.
	sqlRecord = selectRecord + `
		WHERE namespace = ?1 AND key = ?2`

	// By records_key.
	sqlRecords = selectRecord + `
		WHERE namespace = ?1 AND key >= ?2 AND key > ?3 AND key < ?4 AND (expires_at = 0 OR expires_at > ?5)
		ORDER BY key LIMIT ?6`

	// By records_position.
	sqlRecordsByIndex = selectRecord + `
		WHERE namespace = ?1 AND position <> '' AND (position, key) > (?2, ?3) AND position < ?4
			AND (expires_at = 0 OR expires_at > ?5)
		ORDER BY position, key LIMIT ?6`

	// By records_key: one lookup per namespace, however many records it has.
	sqlNamespaces = `
		WITH RECURSIVE namespaces (name) AS (
			SELECT min(namespace) FROM records WHERE namespace > ?1
			UNION ALL
			SELECT (SELECT min(namespace) FROM records WHERE namespace > name) FROM namespaces WHERE name IS NOT NULL
		)
		SELECT name FROM namespaces WHERE name IS NOT NULL LIMIT ?2`

	sqlInsertRecord = `
		INSERT INTO records (namespace, key, position, created_at, updated_at, expires_at, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
		RETURNING version`

	// By records_key.
	sqlDeleteRecord = `DELETE FROM records WHERE namespace = ?1 AND key = ?2`

	// By records_expiry. An expired record of the key that is written is replaced anyway.
	sqlSweepRecords = `
		DELETE FROM records WHERE version IN
			(SELECT version FROM records WHERE expires_at > 0 AND expires_at <= ?1 ORDER BY expires_at LIMIT 10)`
)

// Records returns the store's records. A write of a record is one transaction, which also removes up to ten expired
// records.
func (s *Store) Records() driver.Records { return (*records)(s) }

var _ driver.RecordProvider = (*Store)(nil)

// records is the store as driver.Records.
type records Store

func readStored(c *columns) *driver.Record {
	r := &driver.Record{Namespace: c.text(), Key: c.text(), Index: c.text(), Version: c.int64(), CreatedAt: c.time(), UpdatedAt: c.time(),
		ExpiresAt: c.time(), Value: json.RawMessage(c.text())}
	if c.err == nil && !json.Valid(r.Value) {
		c.corrupt("record %q in %q: the stored value is not valid JSON", r.Key, r.Namespace)
	}
	return r
}

// record returns the live record of a key, or nil.
func (s *Store) record(c *conn, namespace, key string) (r *driver.Record, err error) {
	now := s.clock()
	found, err := c.row(sqlRecord, func(cols *columns) { r = readStored(cols) }, namespace, key)
	if err != nil || !found || r.Expired(now) {
		return nil, err
	}
	r.AsOf = now
	return r, nil
}

// Get implements driver.Records.
func (r *records) Get(ctx context.Context, namespace, key string) (there *driver.Record, err error) {
	if err := driver.CheckRecordKey(namespace, key); err != nil {
		return nil, err
	}
	s := (*Store)(r)
	err = s.readers.read(ctx, func(c *conn) error {
		there, err = s.record(c, namespace, key)
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

// Put implements driver.Records.
func (r *records) Put(ctx context.Context, w driver.RecordWrite) (next *driver.Record, err error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	s := (*Store)(r)
	err = s.writer.write(ctx, true, func(c *conn) error {
		there, err := s.record(c, w.Namespace, w.Key)
		if err != nil {
			return err
		}
		if next, err = w.Apply(there, s.clock()); err != nil {
			return err
		}
		if _, err := c.exec(sqlSweepRecords, micros(next.AsOf)); err != nil {
			return err
		}
		if _, err := c.exec(sqlDeleteRecord, w.Namespace, w.Key); err != nil {
			return err
		}
		c.wrote = true
		_, err = c.row(sqlInsertRecord, func(cols *columns) { next.Version = cols.int64() },
			w.Namespace, w.Key, w.Index, micros(next.CreatedAt), micros(next.UpdatedAt), micros(next.ExpiresAt), string(w.Value))
		return err
	})
	if err != nil {
		return nil, fault("write a record", err)
	}
	next.Value = append(json.RawMessage(nil), w.Value...)
	return next, nil
}

// Delete implements driver.Records.
func (r *records) Delete(ctx context.Context, namespace, key string, seen int64) error {
	if err := driver.CheckRecordDelete(namespace, key, seen); err != nil {
		return err
	}
	s := (*Store)(r)
	err := s.writer.write(ctx, true, func(c *conn) error {
		there, err := s.record(c, namespace, key)
		switch {
		case err != nil:
			return err
		case there == nil:
			return driver.RecordNotFound(namespace, key)
		case seen != driver.AnyVersion && seen != there.Version:
			return driver.RecordConflict(namespace, key, seen, there)
		}
		_, err = c.exec(sqlDeleteRecord, namespace, key)
		return err
	})
	return fault("delete a record", err)
}

// List implements driver.Records.
func (r *records) List(ctx context.Context, q driver.RecordQuery) (driver.Page[driver.Record], error) {
	selected, err := q.Range()
	if err != nil {
		return driver.Page[driver.Record]{}, err
	}
	s := (*Store)(r)
	now, size := s.clock(), q.Size()
	text, args := sqlRecords, []any{q.Namespace, selected.From, selected.AfterKey, selected.Before, micros(now), size + 1}
	if selected.ByIndex {
		text, args[1] = sqlRecordsByIndex, selected.AfterIndex
	}
	var page driver.Page[driver.Record]
	err = s.readers.read(ctx, func(c *conn) error {
		page = driver.Page[driver.Record]{}
		return c.query(ctx, text, func(cols *columns) bool {
			rec := readStored(cols)
			if len(page.Items) == size {
				page.Next = driver.RecordCursor(&q, &page.Items[size-1])
				return false
			}
			rec.AsOf = now
			page.Items = append(page.Items, *rec)
			return true
		}, args...)
	})
	if err != nil {
		return driver.Page[driver.Record]{}, err
	}
	return page, nil
}

// Namespaces implements driver.Records.
func (r *records) Namespaces(ctx context.Context, cursor string) (driver.Page[string], error) {
	if err := driver.CheckNamespaceCursor(cursor); err != nil {
		return driver.Page[string]{}, err
	}
	var names []string
	err := (*Store)(r).readers.read(ctx, func(c *conn) error {
		names = nil
		return c.query(ctx, sqlNamespaces, func(cols *columns) bool {
			names = append(names, cols.text())
			return true
		}, cursor, driver.MaxRecordPage+1)
	})
	if err != nil {
		return driver.Page[string]{}, err
	}
	return driver.NamespacePage(names), nil
}
