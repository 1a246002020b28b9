package pgstore

import (
	"slices"

	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

// By the key of cache.
const sqlCache = `
	SELECT e.data
	FROM {schema}.sessions s JOIN {schema}.cache e ON e.session = s.key
	WHERE s.id = $1
	ORDER BY e.key`

// cacheColumns are the entries that a commit puts into a session's cache and does not drop again.
type cacheColumns struct{ keys, data []string }

func (x *cacheColumns) fill(list []driver.CacheEntry, drop []string) error {
	for i := range list {
		text, err := backend.EncodeJSON("cached result", &list[i])
		if err != nil {
			return err
		}
		if slices.Contains(drop, list[i].Key) {
			continue
		}
		if at := slices.Index(x.keys, list[i].Key); at >= 0 {
			x.data[at] = text
			continue
		}
		x.keys, x.data = append(x.keys, list[i].Key), append(x.data, text)
	}
	return nil
}

func readEntry(rows pgx.Rows) (e driver.CacheEntry, err error) {
	err = readJSON(rows, "cached result", &e)
	return e, err
}
