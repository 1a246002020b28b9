package pgstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

const (
	// sqlLiveTree reads the incarnation of a tree that is not removed, and keeps it from being removed: by sessions_id.
	sqlLiveTree = `SELECT incarnation FROM {schema}.sessions WHERE id = $1 AND root_id = $1 FOR SHARE`

	// sqlNamingOwner locks the owner, or creates it.
	sqlNamingOwner = `
		INSERT INTO {schema}.blob_owners AS o (root, incarnation) VALUES ($1, $2)
		ON CONFLICT (root, incarnation) DO UPDATE SET root = excluded.root
		RETURNING key`

	sqlLockOwner = `SELECT key FROM {schema}.blob_owners WHERE root = $1 AND incarnation = $2 FOR UPDATE`

	// sqlPutBlobs takes sorted hashes, so that all writers lock blobs in the same order. It locks the blobs that exist,
	// also if it does not change them.
	sqlPutBlobs = `
		INSERT INTO {schema}.blobs AS b (tenant, hash, size, data)
		SELECT $1, x.hash, octet_length(x.data), x.data FROM unnest($2::text[], $3::bytea[]) x (hash, data)
		ON CONFLICT (tenant, hash) DO UPDATE SET unnamed_at = NULL WHERE b.unnamed_at IS NOT NULL`

	sqlLockBlobs = `SELECT key FROM {schema}.blobs WHERE tenant = $1 AND hash = ANY ($2::text[]) ORDER BY hash FOR UPDATE`

	sqlNameBlobs = `
		INSERT INTO {schema}.blob_names (owner, blob)
		SELECT $1, key FROM {schema}.blobs WHERE tenant = $2 AND hash = ANY ($3::text[])
		ON CONFLICT (owner, blob) DO NOTHING`

	sqlKeepBlobs = `UPDATE {schema}.blobs SET unnamed_at = NULL WHERE key = ANY ($1::bigint[]) AND unnamed_at IS NOT NULL`

	// By the keys of blob_owners, blobs and blob_names.
	namedBlobs = `
		FROM unnest($3::text[]) x (hash)
		JOIN {schema}.blobs b ON b.tenant = $4 AND b.hash = x.hash
		JOIN {schema}.blob_names n ON n.blob = b.key
			AND n.owner = (SELECT key FROM {schema}.blob_owners WHERE root = $1 AND incarnation = $2)`

	sqlGetBlobs = `SELECT b.hash, b.data` + namedBlobs

	sqlHasBlobs = `SELECT b.hash, NULL::bytea` + namedBlobs

	// sqlUnnameBlobs removes names of locked blobs. Others may name them, which the next sweep finds out.
	sqlUnnameBlobs = `
		WITH gone AS (
			DELETE FROM {schema}.blob_names WHERE owner = $1 AND blob = ANY ($2::bigint[]) RETURNING blob
		)
		UPDATE {schema}.blobs SET unnamed_at = statement_timestamp() WHERE key IN (SELECT blob FROM gone)`

	sqlDropBlobOwner = `
		DELETE FROM {schema}.blob_owners
		WHERE key = $1 AND NOT EXISTS (SELECT FROM {schema}.blob_names WHERE owner = $1)`

	// By the keys of blob_owners, blob_names and blobs.
	sqlListBlobs = `
		SELECT n.blob, b.hash, b.size FROM {schema}.blob_names n JOIN {schema}.blobs b ON b.key = n.blob
		WHERE n.owner = (SELECT key FROM {schema}.blob_owners WHERE root = $1 AND incarnation = $2) AND n.blob > $3
		ORDER BY n.blob LIMIT $4`

	sqlBlobOwners = `
		SELECT root, incarnation FROM {schema}.blob_owners WHERE (root, incarnation) > ($1, $2)
		ORDER BY root, incarnation LIMIT $3`

	// By blobs_unnamed. Blobs that others are about to name, drop or sweep are left out.
	sqlUnnamedBlobs = `
		SELECT key FROM {schema}.blobs
		WHERE unnamed_at <= statement_timestamp() - $1::bigint * interval '1 microsecond'
		ORDER BY unnamed_at LIMIT $2 FOR UPDATE SKIP LOCKED`

	// sqlSweepBlobs deletes those of some locked blobs that have no name. The statement begins after they were locked, so
	// it sees every name.
	sqlSweepBlobs = `
		WITH gone AS (
			DELETE FROM {schema}.blobs b
			WHERE key = ANY ($1::bigint[]) AND NOT EXISTS (SELECT FROM {schema}.blob_names n WHERE n.blob = b.key)
			RETURNING size
		)
		SELECT count(*), coalesce(sum(size), 0) FROM gone`

	// sweptBlobs is how many blobs a transaction of a sweep deletes.
	sweptBlobs = 100
)

// Blobs returns the store's blobs. A write is one transaction, which is repeated if its answer was lost.
func (s *Store) Blobs() driver.Blobs { return (*blobs)(s) }

var _ driver.BlobProvider = (*Store)(nil)

// blobs is the store as driver.Blobs.
type blobs Store

// write runs a transaction.
func (m *blobs) write(ctx context.Context, doing string, do func(context.Context, *conn) error) error {
	return (*Store)(m).try(ctx, doing, again, func(ctx context.Context, c *conn) error {
		return c.transact(ctx, func(c *conn) error { return do(ctx, c) })
	})
}

// naming returns the key of an owner whose blobs are to be named. Its sessions must exist.
func (c *conn) naming(ctx context.Context, owner driver.BlobOwner) (key int64, err error) {
	var incarnation string
	found, err := c.row(ctx, sqlLiveTree, []any{&incarnation}, owner.Root)
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, c.gone(ctx, owner.Root)
	case incarnation != owner.Incarnation:
		return 0, driver.NotFound(owner.Root)
	}
	_, err = c.row(ctx, sqlNamingOwner, []any{&key}, owner.Root, owner.Incarnation)
	return key, err
}

// sorted returns keys in order, each once.
func sorted(keys []string) []string { return slices.Compact(slices.Sorted(slices.Values(keys))) }

// Put implements driver.Blobs.
func (m *blobs) Put(ctx context.Context, owner driver.BlobOwner, list ...[]byte) ([]string, error) {
	keys, err := driver.CheckBlobs(owner, list)
	if err != nil {
		return nil, err
	}
	byKey := map[string][]byte{}
	for i, key := range keys {
		byKey[key] = append([]byte{}, list[i]...)
	}
	hashes := sorted(keys)
	data := make([][]byte, len(hashes))
	for i, hash := range hashes {
		data[i] = byKey[hash]
	}
	err = m.write(ctx, "put blobs", func(ctx context.Context, c *conn) error {
		at, err := c.naming(ctx, owner)
		if err == nil {
			_, err = c.exec(ctx, sqlPutBlobs, owner.Tenant(), hashes, data)
		}
		if err == nil {
			_, err = c.exec(ctx, sqlNameBlobs, at, owner.Tenant(), hashes)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}

// Get implements driver.Blobs.
func (m *blobs) Get(ctx context.Context, owner driver.BlobOwner, keys ...string) ([][]byte, error) {
	var found map[string][]byte
	err := m.look(ctx, sqlGetBlobs, owner, keys, &found)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(keys))
	for i, key := range keys {
		if data, has := found[key]; has {
			out[i] = append([]byte{}, data...)
		}
	}
	return out, nil
}

// Has implements driver.Blobs.
func (m *blobs) Has(ctx context.Context, owner driver.BlobOwner, keys ...string) ([]bool, error) {
	var found map[string][]byte
	err := m.look(ctx, sqlHasBlobs, owner, keys, &found)
	if err != nil {
		return nil, err
	}
	out := make([]bool, len(keys))
	for i, key := range keys {
		_, out[i] = found[key]
	}
	return out, nil
}

// look reads the blobs of an owner by their keys.
func (m *blobs) look(ctx context.Context, text string, owner driver.BlobOwner, keys []string, found *map[string][]byte) error {
	if err := driver.CheckBlobKeys(owner, keys); err != nil {
		return err
	}
	return (*Store)(m).try(ctx, "read blobs", reads, func(ctx context.Context, c *conn) (err error) {
		*found, err = c.blobs(ctx, text, owner, keys)
		return err
	})
}

// blobs returns the second column of a query by keys.
func (c *conn) blobs(ctx context.Context, text string, owner driver.BlobOwner, keys []string) (map[string][]byte, error) {
	found := map[string][]byte{}
	err := c.query(ctx, text, func(rows pgx.Rows) error {
		var key string
		var data []byte
		err := rows.Scan(&key, &data)
		found[key] = data
		return err
	}, owner.Root, owner.Incarnation, sorted(keys), owner.Tenant())
	return found, err
}

// lockBlobs locks blobs by their hashes and returns their keys.
func (c *conn) lockBlobs(ctx context.Context, tenant string, hashes []string) (list []int64, err error) {
	err = c.query(ctx, sqlLockBlobs, func(rows pgx.Rows) error {
		var key int64
		err := rows.Scan(&key)
		list = append(list, key)
		return err
	}, tenant, hashes)
	return list, err
}

// Name implements driver.Blobs.
func (m *blobs) Name(ctx context.Context, from, to driver.BlobOwner, keys ...string) error {
	if err := driver.CheckBlobNames(from, to, keys); err != nil {
		return err
	}
	hashes := sorted(keys)
	return m.write(ctx, "name blobs", func(ctx context.Context, c *conn) error {
		at, err := c.naming(ctx, to)
		if err != nil {
			return err
		}
		list, err := c.lockBlobs(ctx, from.Tenant(), hashes)
		if err != nil {
			return err
		}
		there, err := c.blobs(ctx, sqlHasBlobs, from, hashes)
		if err != nil {
			return err
		}
		for _, hash := range hashes {
			if _, has := there[hash]; !has {
				return driver.BlobNotFound(from, hash)
			}
		}
		if _, err = c.exec(ctx, sqlNameBlobs, at, from.Tenant(), hashes); err == nil {
			_, err = c.exec(ctx, sqlKeepBlobs, list)
		}
		return err
	})
}

// Drop implements driver.Blobs.
func (m *blobs) Drop(ctx context.Context, owner driver.BlobOwner, keys ...string) error {
	if err := driver.CheckBlobKeys(owner, keys); err != nil {
		return err
	}
	return m.write(ctx, "drop blobs", func(ctx context.Context, c *conn) error {
		var at int64
		found, err := c.row(ctx, sqlLockOwner, []any{&at}, owner.Root, owner.Incarnation)
		if err != nil || !found {
			return err
		}
		list, err := c.lockBlobs(ctx, owner.Tenant(), sorted(keys))
		if err == nil && len(list) > 0 {
			_, err = c.exec(ctx, sqlUnnameBlobs, at, list)
		}
		if err == nil {
			_, err = c.exec(ctx, sqlDropBlobOwner, at)
		}
		return err
	})
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
	var list []row
	err = (*Store)(m).try(ctx, "list blobs", reads, func(ctx context.Context, c *conn) error {
		list = nil
		return c.query(ctx, sqlListBlobs, func(rows pgx.Rows) error {
			var r row
			err := rows.Scan(&r.key, &r.Key, &r.Size)
			list = append(list, r)
			return err
		}, owner.Root, owner.Incarnation, after, driver.PageSize(q.Limit)+1)
	})
	if err != nil {
		return page, err
	}
	return driver.BlobPage(q, list, func(r row) driver.BlobRow { return r.BlobRow },
		func(r row) string { return strconv.FormatInt(r.key, 10) }), nil
}

// Owners implements driver.Blobs.
func (m *blobs) Owners(ctx context.Context, q driver.BlobQuery) (page driver.Page[driver.BlobOwner], err error) {
	after, err := q.AfterOwner()
	if err != nil {
		return page, err
	}
	var owners []driver.BlobOwner
	err = (*Store)(m).try(ctx, "list owners of blobs", reads, func(ctx context.Context, c *conn) error {
		owners = nil
		return c.query(ctx, sqlBlobOwners, func(rows pgx.Rows) error {
			var o driver.BlobOwner
			err := rows.Scan(&o.Root, &o.Incarnation)
			owners = append(owners, o)
			return err
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
	for done := false; !done; {
		var some driver.SweptBlobs
		err := m.write(ctx, "sweep blobs", func(ctx context.Context, c *conn) error {
			var list []int64
			err := c.query(ctx, sqlUnnamedBlobs, func(rows pgx.Rows) error {
				var key int64
				err := rows.Scan(&key)
				list = append(list, key)
				return err
			}, age.Microseconds(), sweptBlobs)
			if done = len(list) < sweptBlobs; err != nil || len(list) == 0 {
				return err
			}
			if _, err = c.row(ctx, sqlSweepBlobs, []any{&some.Blobs, &some.Bytes}, list); err == nil {
				_, err = c.exec(ctx, sqlKeepBlobs, list)
			}
			return err
		})
		if err != nil {
			return swept, err
		}
		swept.Blobs += some.Blobs
		swept.Bytes += some.Bytes
	}
	return swept, nil
}
