package lifecycle

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/cairn-agents/cairn"

	"github.com/cairn-agents/cairn/store/driver"
)

// stopsAtOnce bounds the concurrent stop requests to the store for one tree.
const stopsAtOnce = 16

// list iterates over the sessions that a query selects.
func (r *Runs) list(ctx context.Context, q driver.SessionQuery) iter.Seq2[*cairn.Session, error] {
	return driver.All(func(cursor string) (driver.Page[cairn.Session], error) {
		q.Cursor = cursor
		return r.Store.List(ctx, q)
	})
}

// Below lists the sessions below one in its tree that have one of some statuses.
func (r *Runs) Below(ctx context.Context, row *cairn.Session, statuses ...cairn.SessionStatus) ([]cairn.Session, error) {
	q := driver.SessionQuery{RootID: row.RootID, Statuses: statuses, Limit: 1000}
	if row.ParentID != "" { // those that lead to it may have any status
		q.Statuses = nil
	}
	var all []cairn.Session
	for below, err := range r.list(ctx, q) {
		if err != nil {
			return nil, err
		}
		all = append(all, *below)
	}
	parents := make(map[string]string, len(all))
	for i := range all {
		parents[all[i].ID] = all[i].ParentID
	}
	var list []cairn.Session
	for i := range all {
		above := all[i].ParentID
		if row.ParentID == "" && above != "" {
			above = row.ID
		}
		for above != "" && above != row.ID {
			above = parents[above]
		}
		if above != "" && slices.Contains(statuses, all[i].Status) {
			list = append(list, all[i])
		}
	}
	return list, nil
}

// StopBelow asks every run below a session in its tree to stop, in any process. A run that begins concurrently is
// asked, too: by this call, or by the process that begins it, because the run above has been asked by then.
func (r *Runs) StopBelow(ctx context.Context, row *cairn.Session, stop cairn.Stop) error {
	asked := map[string]bool{}
	for {
		list, err := r.Below(ctx, row, cairn.SessionActive)
		if err != nil {
			return err
		}
		var fresh []cairn.Session
		for i := range list {
			if run := list[i].RunID; !asked[run] {
				asked[run] = true
				fresh = append(fresh, list[i])
			}
		}
		if len(fresh) == 0 {
			return nil
		}
		for _, level := range levels(fresh) {
			if err := r.stopAll(ctx, level, stop); err != nil {
				return err
			}
		}
	}
}

// levels groups sessions so that each is in a later group than those above it. Parents are asked to stop first, so that
// none takes the end of a sub-agent that was stopped with it for the sub-agent's outcome.
func levels(list []cairn.Session) (groups [][]cairn.Session) {
	group := make(map[string]int, len(list))    // by id
	for _, row := range slices.Backward(list) { // the oldest first, so parents before their children
		n := 0
		if above, ok := group[row.ParentID]; ok {
			n = above + 1
		}
		group[row.ID] = n
		if n == len(groups) {
			groups = append(groups, nil)
		}
		groups[n] = append(groups[n], row)
	}
	return groups
}

// stopAll asks the runs of sessions to stop. A run that a goroutine of this process drives need not wait for the store.
// A remote effect must: if the step's commit, which sees only stops in the store, came before the request, it would
// take a reply that the stop has cut for a whole one.
func (r *Runs) stopAll(ctx context.Context, list []cairn.Session, stop cairn.Stop) error {
	for i := range list {
		if stop.RunID = list[i].RunID; !r.Remote() {
			r.RequestStop(list[i].ID, stop)
		}
	}
	errs := make([]error, len(list))
	slots := make(chan struct{}, stopsAtOnce)
	var all sync.WaitGroup
	for i := range list {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			one := stop
			one.RunID = list[i].RunID
			err := r.Store.RequestStop(ctx, list[i].ID, one)
			switch {
			case err == nil && r.Remote():
				r.RequestStop(list[i].ID, one)
			case err != nil && !errors.Is(err, cairn.ErrNotRunning) && !errors.Is(err, cairn.ErrNotFound):
				errs[i] = err
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// PassBelow asks the runs below a session to stop, if no goroutine of the session's own run does so.
func (r *Runs) PassBelow(ctx context.Context, row *cairn.Session, stop cairn.Stop) error {
	if !r.Remote() {
		return nil
	}
	return r.StopBelow(ctx, row, stop)
}
