package sqlitestore

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	sqlBlobOwner = `SELECT key FROM blob_owners WHERE root = ?1 AND incarnation = ?2`

	sqlInsertBlobOwner = `INSERT INTO blob_owners (root, incarnation) VALUES (?1, ?2)`

	// The incarnation of a session tree that is not removed.
	sqlLiveTree = `SELECT incarnation FROM sessions WHERE id = ?1 AND root_id = ?1`

	sqlPutBlob = `
		INSERT INTO blobs (tenant, hash, size, unnamed_at, data) VALUES (?1, ?2, length(?3), 0, ?3)
		ON CONFLICT (tenant, hash) DO NOTHING`

	sqlNameBlob = `
		INSERT INTO blob_names (owner, blob) SELECT ?1, key FROM blobs WHERE tenant = ?2 AND hash = ?3
		ON CONFLICT (owner, blob) DO NOTHING`

	sqlKeepBlob = `UPDATE blobs SET unnamed_at = 0 WHERE tenant = ?1 AND hash = ?2 AND unnamed_at > 0`

	// The blobs of an owner by their hashes, a JSON array.
	namedBlobs = ` FROM blobs b JOIN blob_names n ON n.owner = ?1 AND n.blob = b.key
		WHERE b.tenant = ?2 AND b.hash IN (SELECT value FROM json_each(?3))`

	sqlGetBlobs = `SELECT b.hash, b.data` + namedBlobs

	sqlHasBlobs = `SELECT b.hash, x''` + namedBlobs

	sqlUnnameBlob = `
		DELETE FROM blob_names WHERE owner = ?1 AND blob = (SELECT key FROM blobs WHERE tenant = ?2 AND hash = ?3)`

	sqlLeaveBlob = `UPDATE blobs SET unnamed_at = ?3 WHERE tenant = ?1 AND hash = ?2`

	sqlDropBlobOwner = `
		DELETE FROM blob_owners WHERE key = ?1 AND NOT EXISTS (SELECT 1 FROM blob_names WHERE owner = ?1)`

	sqlListBlobs = `
		SELECT n.blob, b.hash, b.size FROM blob_names n JOIN blobs b ON b.key = n.blob
		WHERE n.owner = ?1 AND n.blob > ?2 ORDER BY n.blob LIMIT ?3`

	sqlBlobOwners = `
		SELECT root, incarnation FROM blob_owners WHERE (root, incarnation) > (?1, ?2)
		ORDER BY root, incarnation LIMIT ?3`

	sqlUnnamedBlobs = `
		SELECT key, size, EXISTS (SELECT 1 FROM blob_names WHERE blob = blobs.key) FROM blobs
		WHERE unnamed_at > 0 AND unnamed_at <= ?1 ORDER BY unnamed_at LIMIT ?2`

	sqlDeleteBlob = `DELETE FROM blobs WHERE key = ?1`

	sqlKeepBlobAt = `UPDATE blobs SET unnamed_at = 0 WHERE key = ?1`

	// sweptBlobs is how many blobs a write of a sweep deletes, so that other writers do not wait for the whole sweep.
	sweptBlobs = 100

	// At most ?2 of the blobs of a removed session.
	sqlLeaveBlobs = `
		UPDATE blobs SET unnamed_at = ?3
		WHERE key IN (SELECT blob FROM blob_names WHERE owner = ` + ownerOfRemoved + ` ORDER BY blob LIMIT ?2)`

	// The owner of a removed session's blobs.
	ownerOfRemoved = `(SELECT o.key FROM removed r JOIN blob_owners o ON o.root = r.id AND o.incarnation = r.incarnation
		WHERE r.key = ?1)`
)

// Blobs returns the store's blobs. A write is one transaction.
func (s *Store) Blobs() driver.Blobs { return (*blobs)(s) }

var _ driver.BlobProvider = (*Store)(nil)

// blobs is the store as driver.Blobs.
type blobs Store

// blobOwner returns the key of an owner; 0 if it names no blobs.
func (c *conn) blobOwner(owner driver.BlobOwner) (key int64, err error) {
	_, err = c.row(sqlBlobOwner, func(cols *columns) { key = cols.int64() }, owner.Root, owner.Incarnation)
	return key, err
}

// naming returns the key of an owner whose blobs are to be named. Its sessions must exist.
func (c *conn) naming(owner driver.BlobOwner) (key int64, err error) {
	var incarnation string
	found, err := c.row(sqlLiveTree, func(cols *columns) { incarnation = cols.text() }, owner.Root)
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, gone(c, owner.Root)
	case incarnation != owner.Incarnation:
		return 0, driver.NotFound(owner.Root)
	}
	if key, err = c.blobOwner(owner); key > 0 || err != nil {
		return key, err
	}
	return c.insert(sqlInsertBlobOwner, owner.Root, owner.Incarnation)
}

// Put implements driver.Blobs.
func (m *blobs) Put(ctx context.Context, owner driver.BlobOwner, list ...[]byte) (keys []string, err error) {
	if keys, err = driver.CheckBlobs(owner, list); err != nil {
		return nil, err
	}
	s, tenant := (*Store)(m), owner.Tenant()
	err = s.writer.write(ctx, true, func(c *conn) error {
		at, err := c.naming(owner)
		for i, key := range keys {
			if err != nil {
				return err
			}
			data := list[i]
			if data == nil {
				data = []byte{}
			}
			if _, err = c.exec(sqlPutBlob, tenant, key, data); err == nil {
				err = c.nameBlob(at, tenant, key)
			}
		}
		return err
	})
	if err != nil {
		return nil, fault("put blobs", err)
	}
	return keys, nil
}

func (c *conn) nameBlob(owner int64, tenant, key string) error {
	_, err := c.exec(sqlNameBlob, owner, tenant, key)
	if err == nil {
		_, err = c.exec(sqlKeepBlob, tenant, key)
	}
	return err
}

// Get implements driver.Blobs.
func (m *blobs) Get(ctx context.Context, owner driver.BlobOwner, keys ...string) ([][]byte, error) {
	out := make([][]byte, len(keys))
	err := m.look(ctx, sqlGetBlobs, owner, keys, func(i int, data []byte) { out[i] = data })
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Has implements driver.Blobs.
func (m *blobs) Has(ctx context.Context, owner driver.BlobOwner, keys ...string) ([]bool, error) {
	out := make([]bool, len(keys))
	err := m.look(ctx, sqlHasBlobs, owner, keys, func(i int, _ []byte) { out[i] = true })
	if err != nil {
		return nil, err
	}
	return out, nil
}

// look runs a query by keys and calls each with the index of each key that it finds, and the second column.
func (m *blobs) look(ctx context.Context, text string, owner driver.BlobOwner, keys []string, each func(int, []byte)) error {
	if err := driver.CheckBlobKeys(owner, keys); err != nil {
		return err
	}
	places := map[string][]int{}
	for i, key := range keys {
		places[key] = append(places[key], i)
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return cairn.Errorf(cairn.ErrInternal, "%w", err)
	}
	return (*Store)(m).readers.view(ctx, func(c *conn) error {
		at, err := c.blobOwner(owner)
		if at == 0 || err != nil || len(keys) == 0 {
			return err
		}
		return c.query(ctx, text, func(cols *columns) bool {
			key, data := cols.text(), cols.bytes()
			for n, i := range places[key] {
				if n > 0 || data == nil { // an empty blob is not nil
					data = append([]byte{}, data...)
				}
				each(i, data)
			}
			return true
		}, at, owner.Tenant(), string(list))
	})
}

// Name implements driver.Blobs.
func (m *blobs) Name(ctx context.Context, from, to driver.BlobOwner, keys ...string) error {
	if err := driver.CheckBlobNames(from, to, keys); err != nil {
		return err
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return cairn.Errorf(cairn.ErrInternal, "%w", err)
	}
	tenant := from.Tenant()
	err = (*Store)(m).writer.write(ctx, true, func(c *conn) error {
		at, err := c.naming(to)
		if err != nil || len(keys) == 0 {
			return err
		}
		source, err := c.blobOwner(from)
		if err != nil {
			return err
		}
		there := map[string]bool{}
		err = c.query(ctx, sqlHasBlobs, func(cols *columns) bool { there[cols.text()] = true; return true }, source, tenant, string(list))
		for _, key := range keys {
			if err == nil && !there[key] {
				err = driver.BlobNotFound(from, key)
			}
		}
		for _, key := range keys {
			if err != nil {
				return err
			}
			err = c.nameBlob(at, tenant, key)
		}
		return err
	})
	return fault("name blobs", err)
}

// Drop implements driver.Blobs.
func (m *blobs) Drop(ctx context.Context, owner driver.BlobOwner, keys ...string) error {
	if err := driver.CheckBlobKeys(owner, keys); err != nil {
		return err
	}
	s, tenant := (*Store)(m), owner.Tenant()
	err := s.writer.write(ctx, true, func(c *conn) error {
		at, err := c.blobOwner(owner)
		if at == 0 || err != nil {
			return err
		}
		for _, key := range keys {
			n, err := c.exec(sqlUnnameBlob, at, tenant, key)
			if err == nil && n > 0 {
				_, err = c.exec(sqlLeaveBlob, tenant, key, micros(s.clock()))
			}
			if err != nil {
				return err
			}
		}
		_, err = c.exec(sqlDropBlobOwner, at)
		return err
	})
	return fault("drop blobs", err)
}

// List implements driver.Blobs.
func (m *blobs) List(ctx context.Context, owner driver.BlobOwner, q driver.BlobQuery) (page driver.Page[driver.BlobRow], err error) {
	if err := owner.Check(); err != nil {
		return page, err
	}
	after, err := strconv.ParseInt(cmp.Or(q.Cursor, "0"), 10, 64)
	if err != nil {
		return page, q.Foreign()
	}
	type row struct {
		key int64
		driver.BlobRow
	}
	var rows []row
	err = (*Store)(m).readers.view(ctx, func(c *conn) error {
		rows = nil
		at, err := c.blobOwner(owner)
		if at == 0 || err != nil {
			return err
		}
		return c.query(ctx, sqlListBlobs, func(cols *columns) bool {
			rows = append(rows, row{cols.int64(), driver.BlobRow{Key: cols.text(), Size: cols.int()}})
			return true
		}, at, after, driver.PageSize(q.Limit)+1)
	})
	if err != nil {
		return page, err
	}
	return driver.BlobPage(q, rows, func(r row) driver.BlobRow { return r.BlobRow },
		func(r row) string { return strconv.FormatInt(r.key, 10) }), nil
}

// Owners implements driver.Blobs.
func (m *blobs) Owners(ctx context.Context, q driver.BlobQuery) (page driver.Page[driver.BlobOwner], err error) {
	after, err := q.AfterOwner()
	if err != nil {
		return page, err
	}
	var owners []driver.BlobOwner
	err = (*Store)(m).readers.read(ctx, func(c *conn) error {
		owners = nil
		return c.query(ctx, sqlBlobOwners, func(cols *columns) bool {
			owners = append(owners, driver.BlobOwner{Root: cols.text(), Incarnation: cols.text()})
			return true
		}, after.Root, after.Incarnation, driver.PageSize(q.Limit)+1)
	})
	if err != nil {
		return page, err
	}
	return driver.BlobOwnerPage(q, owners), nil
}

// Sweep implements driver.Blobs.
func (m *blobs) Sweep(ctx context.Context, age time.Duration) (swept driver.SweptBlobs, err error) {
	if err := driver.CheckBlobAge(age); err != nil {
		return swept, err
	}
	s := (*Store)(m)
	before := s.clock().Add(-age)
	for done := false; !done; {
		var some driver.SweptBlobs
		err := s.writer.write(ctx, false, func(c *conn) error {
			some = driver.SweptBlobs{}
			var named, unnamed []int64
			err := c.query(ctx, sqlUnnamedBlobs, func(cols *columns) bool {
				key, size, has := cols.int64(), cols.int64(), cols.int64() == 1
				if has {
					named = append(named, key)
				} else {
					unnamed = append(unnamed, key)
					some.Bytes += size
				}
				return true
			}, micros(before), sweptBlobs)
			some.Blobs, done = len(unnamed), len(named)+len(unnamed) < sweptBlobs
			for _, key := range named {
				if err == nil {
					_, err = c.exec(sqlKeepBlobAt, key)
				}
			}
			for _, key := range unnamed {
				if err == nil {
					_, err = c.exec(sqlDeleteBlob, key)
				}
			}
			return err
		})
		if err != nil {
			return swept, fault("sweep blobs", err)
		}
		swept.Blobs += some.Blobs
		swept.Bytes += some.Bytes
	}
	return swept, nil
}
