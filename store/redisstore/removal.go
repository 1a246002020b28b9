package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var (
	scriptRemove = keyed("remove", "remove", frees) // without id.lua: Remove itself handles expiry
	scriptPurge  = keyed("purge", "purge", frees)

	scriptRemoval = keyed("removal", "purge", reads)
)

// purgeBatch is how many keys a purge removes at once, so that other writers do not wait for the whole purge.
const purgeBatch = 500

// Remove implements driver.Sweeper. It reads the tree and then hides it. If the tree has changed in between, it starts
// over.
func (s *Store) Remove(ctx context.Context, root string, why driver.Removal) (*driver.Removed, error) {
	if err := driver.CheckRemoval(why); err != nil {
		return nil, err
	}
	bucket := s.bucketOf(root)
	key := removalKey(bucket)
	if why == driver.Deleted { // it may have expired
		if _, err := driver.Load(ctx, s, root); err != nil {
			return nil, err
		}
	}
	var rows []*cairn.Session
	var refused error
	args := []any{"", "look"}
	for {
		r, err := s.ask(ctx, scriptRemove, root, args...)
		if err != nil {
			return nil, err
		}
		switch r.word() {
		case "child":
			return nil, driver.NotRoot(&cairn.Session{ID: root, RootID: r.text(1)})
		case "ok":
			if refused != nil {
				return nil, refused
			}
			for _, row := range rows {
				s.known.Drop(row.ID)
			}
			at, err := strconv.ParseInt(r.text(1), 10, 64)
			if err != nil {
				return nil, unknown(scriptRemove, r)
			}
			return &driver.Removed{Key: key, SessionID: root, Reason: why, RemovedAt: fromMicros(at), Incarnation: rows[0].Incarnation}, nil
		case "tree":
		default:
			return nil, unknown(scriptRemove, r)
		}
		now, mark := time.Time{}, r.text(2)
		if now, rows, err = readTree(r); err != nil {
			return nil, err
		}
		refused = driver.RemovalConflict(rows, why, now)
		switch {
		case refused == nil:
			args = []any{mark, "hide", key, string(why), s.opts.Retention.Milliseconds()}
		case why == driver.Expired: // it has not expired: record when to look again
			later := ""
			if at := driver.SweepAt(now, rows[0], rows[1:]...); !at.IsZero() {
				later = strconv.FormatInt(micros(at), 10)
			}
			args = []any{mark, "later", later}
		default:
			return nil, refused
		}
	}
}

// readTree decodes the time and the rows of a tree as remove.lua returns them.
func readTree(r reply) (now time.Time, rows []*cairn.Session, err error) {
	stamp, err := strconv.ParseInt(r.text(1), 10, 64)
	if err != nil {
		return now, nil, unknown(scriptRemove, r)
	}
	list := r.list(3)
	for i := 0; i+1 < len(list); i += 2 {
		stored, _ := list[i+1].([]any)
		row, err := readRow(plain(list[i]), stored)
		if err != nil {
			return now, nil, err
		}
		rows = append(rows, row)
	}
	return fromMicros(stamp), rows, nil
}

// removalKey returns a new key for a removed tree. The key names the tree's bucket.
func removalKey(bucket int) string { return fmt.Sprint(bucket, "-", rand.Text()) }

// bucketOfRemoval returns the bucket that a key names, if it is one that removalKey may have made.
func (s *Store) bucketOfRemoval(key string) (bucket int, ok bool) {
	number, _, ok := strings.Cut(key, "-")
	bucket, err := strconv.Atoi(number)
	return bucket, ok && err == nil && bucket >= 0 && bucket < len(s.buckets)
}

// Stale implements driver.Sweeper.
func (s *Store) Stale(ctx context.Context, q driver.PageQuery) (driver.Page[string], error) {
	found, err := s.overdues(ctx, "sweep", q, 0, "s", "version")
	page := driver.Page[string]{Next: found.Next}
	for _, o := range found.Items {
		page.Items = append(page.Items, o.name)
	}
	return page, err
}

// Removed implements driver.Sweeper.
func (s *Store) Removed(ctx context.Context, age time.Duration, q driver.PageQuery) (driver.Page[driver.Removed], error) {
	return s.removedIn(ctx, "removed", age, q)
}

// removedIn pages through an index of removed trees.
func (s *Store) removedIn(ctx context.Context, index string, age time.Duration, q driver.PageQuery) (driver.Page[driver.Removed], error) {
	found, err := s.overdues(ctx, index, q, age, "z", "id", "reason", "incarnation")
	page := driver.Page[driver.Removed]{Next: found.Next}
	for _, o := range found.Items {
		page.Items = append(page.Items, driver.Removed{Key: o.name, SessionID: o.fields.text(0), Reason: driver.Removal(o.fields.text(1)),
			RemovedAt: o.at, Incarnation: o.fields.text(2)})
	}
	return page, err
}

// Purge implements driver.Sweeper.
func (s *Store) Purge(ctx context.Context, key string) (checkpoints int, err error) {
	bucket, ok := s.bucketOfRemoval(key)
	if !ok {
		return 0, driver.NotRemoved(key)
	}
	if err := s.dropOwned(ctx, bucket, key); err != nil {
		return 0, err
	}
	for {
		r, err := s.run(ctx, scriptPurge, bucket, key, purgeBatch)
		if err != nil {
			return checkpoints, err
		}
		if r.word() == "none" {
			return checkpoints, driver.NotRemoved(key)
		}
		n, err := strconv.Atoi(r.text(1))
		if err != nil {
			return checkpoints, unknown(scriptPurge, r)
		}
		checkpoints += n
		for _, id := range r.list(3) { // failing that, the next creator of a session with the id does it
			if err := s.release(ctx, plain(id), bucket); err != nil {
				return checkpoints, err
			}
		}
		if r.text(2) == "all" {
			return checkpoints, nil
		}
	}
}

// dropOwned drops the memories and the names of blobs of a removed tree, before the tree is purged: afterwards nothing
// names them.
func (s *Store) dropOwned(ctx context.Context, bucket int, removal string) error {
	answer, err := s.run(ctx, scriptRemoval, bucket, removal)
	if err != nil {
		return err
	}
	for _, id := range answer.list(2) {
		if _, err := s.Memories().Drop(ctx, driver.SessionMemories(plain(id), answer.text(1))); err != nil {
			return err
		}
	}
	if answer.text(3) == "" {
		return nil
	}
	owner := driver.BlobOwner{Root: answer.text(3), Incarnation: answer.text(1)}
	for {
		page, err := s.Blobs().List(ctx, owner, driver.BlobQuery{Limit: driver.MaxBlobs})
		if err != nil || len(page.Items) == 0 {
			return err
		}
		keys := make([]string, len(page.Items))
		for i := range page.Items {
			keys[i] = page.Items[i].Key
		}
		if err := s.Blobs().Drop(ctx, owner, keys...); err != nil {
			return err
		}
	}
}
