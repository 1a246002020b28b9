package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// upkeep removes and purges session trees and trims event logs: the maintenance of sessions that no run holds. It knows
// neither agents nor runs.
type upkeep struct {
	opts   *Options // the engine's
	reader *reader
	store  store.Store
	// sweeper is the store, if it can hide what it removes; else nil.
	sweeper driver.Sweeper
	log     store.Log
	records store.Records        // nil if the store keeps none
	blobs   store.Blobs          // nil if the store keeps none
	usages  driver.Usages        // nil if the store keeps none
	evict   func(session string) // removes a session from memory

	scrubbers  []driver.Scrubber
	unscrubbed atomic.Bool // the last scrub has not succeeded

	mu   sync.Mutex
	seen clocks // at the last sweep
}

// clocks are the times of the store and of this process at one moment.
type clocks struct{ store, own time.Time }

// maxClockJump is how far the store's clock may move between two sweeps in addition to the time that passes.
const maxClockJump = time.Minute

// clockJump reads the store's clock, and returns by how much it has moved in addition to the time that has passed since
// the last call; 0 if that is little, or in the first call, or in a store without records. A store that refuses the
// record, for example because its memory is full, is swept all the same: that makes room.
func (u *upkeep) clockJump(ctx context.Context) (time.Duration, error) {
	if u.records == nil {
		return 0, nil
	}
	r, err := u.records.Put(ctx, store.RecordWrite{Namespace: driver.SweepRecords, Key: "last", Value: []byte("{}"), Seen: store.AnyVersion})
	if errors.Is(err, cairn.ErrUnavailable) && ctx.Err() == nil {
		u.opts.Logger.Warn("sweeping without checking the store's clock", "error", err)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	now := clocks{store: r.UpdatedAt, own: time.Now()}
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.seen
	u.seen = now
	if before.own.IsZero() {
		return 0, nil
	}
	if jump := now.store.Sub(before.store) - now.own.Sub(before.own); jump.Abs() > maxClockJump {
		return jump, nil
	}
	return 0, nil
}

// publish appends an event to the log of a tree that no run holds. A failure is only logged: readers check the store as
// well.
func (u *upkeep) publish(ctx context.Context, log string, ev cairn.Event) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	ev.Time = u.opts.Now().UTC()
	if _, err := u.log.Append(ctx, log, driver.AnySequence, ev); err != nil {
		u.opts.Logger.Warn("event not published", "log", log, "event", ev.Type, "error", err)
	}
}

// remove hides a session tree, evicts it from memory and publishes the removal.
func (u *upkeep) remove(ctx context.Context, root string, why store.Removal) error {
	removed, err := u.hide(ctx, root, why)
	if err == nil && removed != nil {
		u.published(ctx, removed)
	}
	return err
}

// published publishes the removal of a tree on its log.
func (u *upkeep) published(ctx context.Context, r *driver.Removed) {
	u.publish(ctx, r.Log(), cairn.Event{Type: cairn.EventSessionDeleted, SessionID: r.SessionID, Name: string(r.Reason)})
}

// hide hides a session tree and evicts it from memory. It returns nil if the store can only delete the tree for good.
func (u *upkeep) hide(ctx context.Context, root string, why store.Removal) (*driver.Removed, error) {
	if err := cairn.CheckSessionID(root); err != nil {
		return nil, err
	}
	if u.sweeper == nil {
		return nil, u.deleteTree(ctx, root)
	}
	removed, err := u.sweeper.Remove(ctx, root, why)
	if err != nil {
		return nil, err
	}
	u.evict(root)
	return removed, nil
}

// deleteTree removes a session tree for good from a store that cannot hide it first.
func (u *upkeep) deleteTree(ctx context.Context, root string) error {
	row, err := driver.Load(ctx, u.store, root)
	if err != nil {
		return err
	}
	if row.RootID != root {
		return cairn.Invalid("session", "%q belongs to a sub-agent; its root is %q", root, row.RootID)
	}
	if err := keepBranches(ctx, u.store, u.records, u.blobs, driver.OwnerOfBlobs(row)); err != nil {
		return err
	}
	// The root goes last, so that what is left of a tree can be deleted again.
	for {
		page, err := u.store.List(ctx, store.SessionQuery{RootID: root, Limit: 100})
		if err != nil {
			return err
		}
		children := slices.DeleteFunc(page.Items, func(s cairn.Session) bool { return s.ID == root })
		for i := range children {
			if err := u.store.Delete(ctx, children[i].ID); err != nil && !errors.Is(err, cairn.ErrNotFound) {
				return err
			}
			u.evict(children[i].ID)
		}
		if len(children) == 0 {
			break
		}
	}
	if err := u.store.Delete(ctx, root); err != nil {
		return err
	}
	u.evict(root)
	if err := u.dropRecords(ctx, row.Log()); err != nil {
		return err
	}
	return u.log.Drop(ctx, row.Log())
}

// sweep removes what has expired, purges what was removed long enough ago, and trims logs.
func (u *upkeep) sweep(ctx context.Context, progress []func(SweepReport)) (SweepReport, error) {
	var r SweepReport
	looked := func() {
		for _, show := range progress {
			show(r)
		}
	}
	jump, err := u.clockJump(ctx)
	switch {
	case err != nil:
		return r, fmt.Errorf("read the store's clock: %w", err)
	case jump != 0:
		r.ClockJump = cairn.Duration(jump)
		return r, cairn.Errorf(cairn.ErrUnavailable,
			"the store's clock has jumped by %s since the last sweep: nothing was removed; the next sweep continues unless it jumps again", jump)
	}
	var errs error
	for _, part := range []func(context.Context, *SweepReport, func()) error{u.sweepStale, u.sweepRemoved, u.sweepBlobs, u.sweepLogs, u.sweepUsage} {
		if errs = errors.Join(errs, part(ctx, &r, looked)); ctx.Err() != nil {
			break
		}
	}
	if (r.Purged+r.BlobsDeleted > 0 || u.unscrubbed.Load()) && ctx.Err() == nil {
		u.scrub(ctx) // logs its error
	}
	return r, errs
}

// sweepStale removes the sessions that have expired.
func (u *upkeep) sweepStale(ctx context.Context, r *SweepReport, looked func()) error {
	if u.sweeper == nil {
		return nil
	}
	for id, err := range store.All(func(cursor string) (store.Page[string], error) {
		return u.sweeper.Stale(ctx, store.PageQuery{Limit: sweepBatch, Cursor: cursor})
	}) {
		if err != nil {
			return err
		}
		err := u.remove(ctx, *id, store.Expired)
		switch {
		case err == nil:
			r.Detected++
			r.Expired++
		case ctx.Err() != nil:
			return ctx.Err()
		case isConflict(err), errors.Is(err, cairn.ErrNotFound): // it was active, or another process was faster
			continue
		default:
			r.Detected++
			r.failed(*id, err)
		}
		looked()
	}
	return nil
}

// sweepRemoved purges the sessions that were removed long enough ago.
func (u *upkeep) sweepRemoved(ctx context.Context, r *SweepReport, looked func()) error {
	if u.sweeper == nil || u.opts.Retention < 0 {
		return nil
	}
	for removed, err := range store.All(func(cursor string) (store.Page[driver.Removed], error) {
		page, err := u.sweeper.Removed(ctx, u.opts.Retention, store.PageQuery{Limit: sweepBatch, Cursor: cursor})
		if err == nil && len(page.Items) > 0 {
			err = u.forgetUsage(ctx, driver.Forget{Roots: rootsOf(page.Items)})
		}
		return page, err
	}) {
		if err != nil {
			return err
		}
		n, err := u.purge(ctx, *removed)
		r.SnapshotsDeleted += n
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, cairn.ErrNotFound): // another process was faster
		case err != nil:
			r.failed(removed.SessionID, err)
		default:
			r.Purged++
		}
		looked()
	}
	return nil
}

// sweepBlobs deletes the blobs that no session has named for a while.
func (u *upkeep) sweepBlobs(ctx context.Context, r *SweepReport, _ func()) error {
	if u.blobs == nil {
		return nil
	}
	swept, err := u.blobs.Sweep(ctx, driver.KeepBlobs)
	r.BlobsDeleted, r.BytesDeleted = swept.Blobs, swept.Bytes
	return err
}

// rootsOf returns the ids of removed trees.
func rootsOf(list []driver.Removed) (ids []string) {
	for i := range list {
		ids = append(ids, list[i].SessionID)
	}
	return ids
}

// purge removes what is left of a session, whose usage has lost its ids, once its branches have their files. The log goes
// first: an unfinished purge is found again by the session, and a session without a log is not restored.
func (u *upkeep) purge(ctx context.Context, removed driver.Removed) (checkpoints int, err error) {
	log := removed.Log()
	if err := keepBranches(ctx, u.store, u.records, u.blobs, store.BlobOwner{Root: removed.SessionID, Incarnation: removed.Incarnation}); err != nil {
		return 0, err
	}
	if err := u.log.Trim(ctx, log, math.MaxInt64); err != nil { // in parts, if it is long
		return 0, err
	}
	if err := u.log.Drop(ctx, log); err != nil {
		return 0, err
	}
	if err := u.dropRecords(ctx, log); err != nil {
		return 0, err
	}
	return u.sweeper.Purge(ctx, removed.Key)
}
