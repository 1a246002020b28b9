package sqlitestore

import (
	"context"
	"strconv"

	"github.com/cairn-agents/cairn/store/driver"
)

// purgeBatch is how many rows a purge removes at once, so that other writers do not wait for the whole purge.
const purgeBatch = 1000

const (
	// The next session of a removed tree to purge. The root is last, so that the tree stays listed until it is purged.
	sqlNextPurge = `SELECT key FROM removed WHERE tree = ?1 ORDER BY root LIMIT 1`

	sqlPurgeCheckpoints = `
		DELETE FROM checkpoints
		WHERE session = ?1 AND number IN (SELECT number FROM checkpoints WHERE session = ?1 LIMIT ?2)`
)

// sqlPurge removes at most ?2 rows of each kind that a removed session owns.
var sqlPurge = []string{
	`DELETE FROM messages WHERE place IN (SELECT place FROM messages WHERE ` + ofOwner + ` LIMIT ?2)`,
	`DELETE FROM state WHERE place IN (SELECT place FROM state WHERE ` + ofOwner + ` LIMIT ?2)`,
	`DELETE FROM runs WHERE place IN (SELECT place FROM runs WHERE ` + ofOwner + ` LIMIT ?2)`,
	`DELETE FROM staged WHERE number IN (SELECT number FROM staged WHERE session = ?1 LIMIT ?2)`,
	`DELETE FROM removed_calls WHERE rowid IN (SELECT rowid FROM removed_calls WHERE session = ?1 LIMIT ?2)`,
	`DELETE FROM queue WHERE place IN (SELECT place FROM queue WHERE ` + ofOwner + ` LIMIT ?2)`,
	`DELETE FROM cache WHERE number IN (SELECT number FROM cache WHERE session = ?1 LIMIT ?2)`,
	`DELETE FROM memory_entries WHERE (scope, key) IN
		(SELECT scope, key FROM memory_entries WHERE scope = ` + ofRemoved + ` LIMIT ?2)`,
	`DELETE FROM blob_names WHERE owner = ` + ownerOfRemoved + `
		AND blob IN (SELECT blob FROM blob_names WHERE owner = ` + ownerOfRemoved + ` ORDER BY blob LIMIT ?2)`,
}

// sqlPurged removes the remaining rows of a session after that.
var sqlPurged = []string{
	`DELETE FROM removed_assignments WHERE root_id = (SELECT id FROM removed WHERE key = ?1)`,
	`DELETE FROM memory_scopes WHERE key = ` + ofRemoved,
	`DELETE FROM blob_owners WHERE key = ` + ownerOfRemoved,
	`DELETE FROM removed_heads WHERE session = ?1`,
	`DELETE FROM removed_sessions WHERE key = ?1`,
	`DELETE FROM removed WHERE key = ?1`,
}

// Purge implements driver.Store.
func (s *Store) Purge(ctx context.Context, key string) (checkpoints int, err error) {
	tree, err := strconv.ParseInt(key, 10, 64)
	if err != nil {
		tree = 0 // no session has this key
	}
	for done := false; !done; {
		var p purge
		err := s.writer.write(ctx, false, func(c *conn) (err error) {
			p, err = purgeSome(c, tree, micros(s.clock()))
			if err == nil && !p.found {
				err = driver.NotRemoved(key)
			}
			return err
		})
		if err != nil {
			return checkpoints, fault("purge", err)
		}
		checkpoints += int(p.checkpoints)
		done = p.done
	}
	return checkpoints, nil
}

// purge is what one write of a purge did.
type purge struct {
	found, done bool // something was left to purge; nothing is left
	checkpoints int64
}

// purgeSome removes a batch of what a session of a removed tree owns at the time now, and then the session.
func purgeSome(c *conn, tree, now int64) (p purge, err error) {
	var session int64
	p.found, err = c.row(sqlNextPurge, func(cols *columns) { session = cols.int64() }, tree)
	if err != nil || !p.found {
		return p, err
	}
	left := int64(purgeBatch)
	some := func(text string, key int64) (n int64, err error) {
		if left > 0 {
			n, err = c.exec(text, key, left)
			left -= n
		}
		return n, err
	}
	if p.checkpoints, err = some(sqlPurgeCheckpoints, session); err != nil {
		return p, err
	}
	if _, err := c.exec(sqlLeaveBlobs, session, left, now); err != nil {
		return p, err
	}
	for _, text := range sqlPurge {
		if _, err := some(text, session); err != nil {
			return p, err
		}
	}
	if left == 0 {
		return p, nil
	}
	p.done = session == tree
	for _, text := range sqlPurged {
		if _, err := c.exec(text, session); err != nil {
			return p, err
		}
	}
	return p, nil
}
