package pgstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn/store/driver"
)

// purgeBatch is how many rows of each table a purge removes at once, so that none of its writes takes long.
const purgeBatch = 1000

// sqlPurge removes at most $2 rows of each table that belong to one session of the removed tree $1. Once none are left
// it removes that session. The root is last, so that what is left of a tree stays listed. The rows to remove are
// counted before they are removed, since two concurrent purges of one tree may remove fewer rows than they found. No
// writer adds rows to a session that was removed.
var sqlPurge = purgeStatement()

func purgeStatement() string {
	var batches, ended strings.Builder
	for _, table := range []struct{ name, owner string }{
		{"messages", "session"}, {"state", "session"}, {"runs", "session"}, {"checkpoints", "session"}, {"staged", "session"},
		{"queue", "session"}, {"cache", "session"}, {"removed_calls", "session"},
		{"memory_entries", "scope"}, {"blob_names", "owner"},
	} {
		fmt.Fprintf(&batches, `), found_%[1]s AS MATERIALIZED (
			SELECT ctid AS place FROM {schema}.%[1]s WHERE %[2]s = (SELECT %[2]s FROM next) LIMIT $2
		), purged_%[1]s AS (
			DELETE FROM {schema}.%[1]s WHERE ctid = ANY (ARRAY(SELECT place FROM found_%[1]s)) RETURNING 1
		`, table.name, table.owner)
		fmt.Fprintf(&ended, `
				AND (SELECT count(*) FROM found_%s) < $2`, table.name)
	}
	return `
		WITH next AS (
			SELECT r.key AS session, r.id, r.root, (
				SELECT m.key FROM {schema}.memory_scopes m WHERE m.kind = 'session' -- see driver.SessionMemories
					AND m.name = r.id || CASE WHEN r.incarnation = '' THEN '' ELSE '@' || r.incarnation END
			) AS scope, (
				SELECT o.key FROM {schema}.blob_owners o WHERE o.root = r.id AND o.incarnation = r.incarnation
			) AS owner
			FROM {schema}.removed r WHERE r.tree = $1 ORDER BY r.root LIMIT 1
		` + batches.String() + `), ended AS (
			DELETE FROM {schema}.removed r USING next
			WHERE r.key = next.session` + ended.String() + `
			RETURNING r.root, r.id
		), unnamed AS (
			UPDATE {schema}.blobs SET unnamed_at = statement_timestamp() WHERE key IN (
				SELECT blob FROM {schema}.blob_names WHERE ctid = ANY (ARRAY(SELECT place FROM found_blob_names)))
		), disowned AS (
			DELETE FROM {schema}.blob_owners WHERE key = (SELECT owner FROM next) AND EXISTS (SELECT FROM ended)
		), forgotten AS (
			DELETE FROM {schema}.memory_scopes WHERE key = (SELECT scope FROM next) AND EXISTS (SELECT FROM ended)
		), freed AS (
			DELETE FROM {schema}.sessions WHERE id = (SELECT id FROM ended) AND root_id = ''
		)
		SELECT (SELECT count(*) FROM purged_checkpoints), coalesce((SELECT root FROM ended), FALSE)
		FROM next`
}

// Purge implements driver.Sweeper.
func (s *Store) Purge(ctx context.Context, key string) (checkpoints int, err error) {
	tree, err := strconv.ParseInt(key, 10, 64)
	if err != nil {
		return 0, driver.NotRemoved(key)
	}
	for done := false; !done; {
		err := s.try(ctx, "purge", again, func(ctx context.Context, c *conn) error {
			var n int
			found, err := c.row(ctx, sqlPurge, []any{&n, &done}, tree, purgeBatch)
			if err == nil && !found {
				err = driver.NotRemoved(key)
			}
			checkpoints += n
			return err
		})
		if err != nil {
			return checkpoints, err
		}
	}
	return checkpoints, nil
}
