package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Copy copies a session tree with everything it owns, and its event log with the same sequences, and then compares the
// copy with the original. The files of its workspaces and its artifacts follow, also if the tree exists in to. copied
// is false if an equal tree already exists in to, so an interrupted copy can be repeated. It returns the errors of
// [Copied], ErrStale for a tree that changes during the copy, and ErrCorrupt if the copy differs from the original; the
// copy then stays for inspection. Both stores have the tree afterwards. It is safe to continue it in only one of them.
// [CopyTrees] copies many trees, faster.
func Copy(ctx context.Context, from, to Importer, root string) (copied bool, err error) {
	t := newCopier(from, to).tree(ctx, root)
	return t.Copied, t.Err
}

// Copied reports whether an equal session tree exists in another store. If a different tree of that id exists there,
// the error is ErrExists. to may be nil, for a store that does not exist yet. If the lease of any session of the tree
// has not lapsed, by the store's clock, the error is ErrAlreadyRunning, since the tree will change.
func Copied(ctx context.Context, from, to Importer, root string) (bool, error) {
	rows, err := driver.Tree(ctx, from, root)
	if err != nil {
		return false, err
	}
	if err := atRest(rows); err != nil || to == nil {
		return false, err
	}
	there, err := driver.Exists(ctx, to, root)
	if !there || err != nil {
		return false, err
	}
	difference, err := Compare(ctx, from, to, root)
	if err == nil && difference != "" {
		err = anotherThere(root, difference)
	}
	return err == nil, err
}

// atRest returns an error for a session of a tree that is running.
func atRest(rows []cairn.Session) error {
	for i := range rows {
		if rows[i].Running(rows[i].AsOf) {
			return driver.Conflict(cairn.ErrAlreadyRunning, &rows[i], "session %q is running; stop it or wait for its run's end", rows[i].ID)
		}
	}
	return nil
}

func anotherThere(root, difference string) error {
	return cairn.Errorf(cairn.ErrExists, "session %q already exists and differs in %s", root, difference)
}

// Compare reads a session tree from two stores and names the first kind of item in which the two differ; empty if they
// are equal. TTLs are compared only if both stores are Sweepers, and blobs are not compared. A tree that only one of the
// stores has is an error.
func Compare(ctx context.Context, a, b Importer, root string) (difference string, err error) {
	return compare(root, export(ctx, a, root, false), export(ctx, b, root, false), keepTTLs(a, b))
}

// compare is Compare for the parts of a tree.
func compare(root string, a, b iter.Seq2[*Part, error], ttl bool) (difference string, err error) {
	next, stop := iter.Pull2(b)
	defer stop()
	for part, err := range a {
		if err != nil {
			return "", err
		}
		other, err, more := next()
		switch {
		case err != nil:
			return "", err
		case !more:
			return kind(part), nil
		}
		one, err1 := encode(part, ttl)
		two, err2 := encode(other, ttl)
		if err := errors.Join(err1, err2); err != nil {
			return "", cairn.Errorf(cairn.ErrCorrupt, "session %q: %w", root, err)
		}
		if !bytes.Equal(one, two) {
			return kind(part), nil
		}
	}
	other, err, more := next()
	if more && err == nil {
		difference = kind(other)
	}
	return difference, err
}

// keepTTLs reports whether two stores keep TTLs.
func keepTTLs(a, b Importer) bool {
	_, aSweeps := driver.As[driver.Sweeper](a)
	_, bSweeps := driver.As[driver.Sweeper](b)
	return aSweeps && bSweeps
}

// kind names a part in messages.
func kind(p *Part) string {
	switch {
	case p.Session != nil:
		return fmt.Sprintf("the row of session %q", p.Session.Row.ID)
	case len(p.States) > 0:
		return "states"
	case len(p.Messages) > 0:
		return "messages"
	case len(p.Runs) > 0:
		return "runs"
	case len(p.Checkpoints) > 0:
		return "checkpoints"
	case len(p.Calls) > 0:
		return "calls"
	case len(p.Events) > 0:
		return "events"
	}
	return "the queue, the staged facts or the cache"
}

// kept returns a time as every store keeps it: in UTC, truncated to microseconds.
func kept(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Microsecond)
}
