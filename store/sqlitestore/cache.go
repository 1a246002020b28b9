package sqlitestore

import (
	"context"

	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

const (
	sqlCache = `SELECT data FROM cache WHERE session = ?1 ORDER BY key`

	sqlPutCache = `
		INSERT INTO cache (session, key, data) VALUES (?1, ?2, ?3)
		ON CONFLICT (session, key) DO UPDATE SET data = excluded.data`

	sqlDropCache = `DELETE FROM cache WHERE session = ?1 AND key = ?2`
)

// writeCache changes the tool-result cache of a session.
func writeCache(c *conn, key int64, d *plan.Delta) error {
	for i := range d.Cache {
		data, err := backend.EncodeJSON("cached result", &d.Cache[i])
		if err != nil {
			return err
		}
		if _, err := c.exec(sqlPutCache, key, d.Cache[i].Key, data); err != nil {
			return err
		}
	}
	for _, drop := range d.CacheDrop {
		if _, err := c.exec(sqlDropCache, key, drop); err != nil {
			return err
		}
	}
	return nil
}

// readCache returns the tool-result cache of a session, by key.
func readCache(ctx context.Context, c *conn, key int64) (list []driver.CacheEntry, err error) {
	err = c.query(ctx, sqlCache, func(cols *columns) bool {
		list = append(list, readEntry(cols))
		return true
	}, key)
	return list, err
}

func readEntry(cols *columns) (e driver.CacheEntry) {
	cols.json("cached result", &e)
	return e
}
