package backend

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// Read implements driver.Store.Read.
func (doc *Document) Read(want driver.Want) (*driver.Contents, error) {
	snap := &driver.Contents{Session: doc.row(), Stop: StopOf(doc.Row.RunID, doc.Stop)}
	position := doc.Row.State.Position
	if want.Checkpoint != "" {
		if snap.Checkpoint = doc.checkpoint(want.Checkpoint); snap.Checkpoint == nil {
			return nil, driver.UnknownCheckpoint(doc.Row.ID, want.Checkpoint)
		}
		position = snap.Checkpoint.StatePosition
	}
	if want.Run != "" {
		i, ok := doc.runIndex()[want.Run]
		if !ok {
			return nil, driver.UnknownRun(doc.Row.ID, want.Run)
		}
		run := doc.Runs[i]
		snap.Run = &run
	}
	if want.State {
		var err error
		if snap.State, err = doc.state(position); err != nil {
			return nil, err
		}
	}
	if want.Messages {
		from := min(want.First(&doc.Row), len(doc.Messages))
		to := min(from+want.Size(), len(doc.Messages))
		snap.Messages = doc.Messages[from:to:to]
	}
	if want.Staged {
		for _, piece := range doc.Staged {
			if want.StagedStep == "" || piece.StepID == want.StagedStep {
				snap.Staged = append(snap.Staged, piece)
			}
		}
	}
	if want.Calls {
		snap.Calls = doc.waiting()
	}
	if want.Cache {
		snap.Cache = slices.SortedFunc(maps.Values(doc.Cache), func(a, b driver.CacheEntry) int { return strings.Compare(a.Key, b.Key) })
	}
	if want.Queue {
		snap.Queue = slices.Clone(doc.Queue)
	}
	return snap, nil
}

// waiting returns the pending calls of the suspended step, oldest first.
func (doc *Document) waiting() (list []cairn.PendingCall) {
	for _, call := range doc.Calls {
		if doc.Row.SuspendedStep != "" && call.StepID == doc.Row.SuspendedStep {
			list = append(list, *call)
		}
	}
	slices.SortFunc(list, func(a, b cairn.PendingCall) int { return driver.CompareCalls(&a, &b) })
	return list
}

// state returns the state at a position.
func (doc *Document) state(position int64) (json.RawMessage, error) {
	k := doc.keyframe(position)
	var later [][]cairn.Op
	for i := k + 1; i <= int(position-doc.States[0].Position); i++ {
		list, err := doc.States[i].Changes()
		if err != nil {
			return nil, err
		}
		later = append(later, list)
	}
	if len(later) == 0 {
		return doc.States[k].Data, nil
	}
	return driver.FoldState(doc.States[k].Data, later)
}

// RunPage implements driver.Store.Runs.
func (doc *Document) RunPage(q driver.PageQuery) (driver.Page[cairn.Run], error) {
	return page(doc.Runs, q, func(r *cairn.Run) int64 { return int64(r.Turn) })
}

// CheckpointPage implements driver.Store.Checkpoints.
func (doc *Document) CheckpointPage(q driver.PageQuery) (driver.Page[cairn.Checkpoint], error) {
	return page(doc.Checkpoints, q, func(cp *cairn.Checkpoint) int64 { return cp.Number })
}

// page cuts a page from a list sorted by an increasing number; the cursor is the number of the last listed item.
func page[T any](list []T, q driver.PageQuery, number func(*T) int64) (out driver.Page[T], err error) {
	last, err := NumberCursor(q)
	if err != nil {
		return out, err
	}
	take := func(item *T) (full bool) {
		if len(out.Items) == q.Size() {
			out.Next = strconv.FormatInt(number(&out.Items[len(out.Items)-1]), 10)
			return true
		}
		out.Items = append(out.Items, *item)
		return false
	}
	if q.Newest {
		for i := len(list) - 1; i >= 0; i-- {
			if number(&list[i]) < last && take(&list[i]) {
				break
			}
		}
		return out, nil
	}
	for i := range list {
		if number(&list[i]) > last && take(&list[i]) {
			break
		}
	}
	return out, nil
}

// NumberCursor returns the number after which a page of a session's runs or checkpoints begins, or before which it
// begins if the newest come first. It is the number in the cursor, or without a cursor a number beyond all others. The
// cursor after an item is its number.
func NumberCursor(q driver.PageQuery) (int64, error) {
	switch {
	case q.Cursor != "":
		last, err := strconv.ParseInt(q.Cursor, 10, 64)
		if err != nil {
			return 0, cairn.Invalid("cursor", "%q does not belong to this list", q.Cursor)
		}
		return last, nil
	case q.Newest:
		return math.MaxInt64, nil
	}
	return math.MinInt64, nil
}

// Due returns why, and since when, the session needs a worker, now or later; Kind is empty if it never will. Agent is
// the session's own.
func (doc *Document) Due() driver.Due {
	row := &doc.Row
	d := driver.Due{SessionID: row.ID, RootID: row.RootID, Agent: row.Agent, Kind: driver.DueKindOf(row), Since: doc.DueAt}
	if row.Status == cairn.SessionActive {
		d.Kind, d.Since = driver.DueCrashed, row.Lease.Until
	}
	return d
}

// DueAtOnce reports whether the session is due at the store's time now although its Since is later: the clock was set
// back since. Only a deadline is due no earlier than its time.
func (doc *Document) DueAtOnce(now time.Time) bool {
	if doc.Row.Status == cairn.SessionActive {
		return doc.Row.Lease.Ahead(now)
	}
	return driver.DueKindOf(&doc.Row) != driver.DueDeadline
}

// Stage implements driver.Store.Stage.
func (doc *Document) Stage(token int64, pieces []driver.Staged) error {
	if err := plan.Ended(doc.row(), token); err != nil {
		return err
	}
	for _, piece := range pieces {
		if !slices.ContainsFunc(doc.Staged, func(have driver.Staged) bool {
			return have.StepID == piece.StepID && have.Key == piece.Key
		}) {
			piece.Data = slices.Clone(piece.Data)
			doc.Staged = append(doc.Staged, piece)
		}
	}
	return nil
}

// Renew implements driver.Store.Renew at the store's time now.
func (doc *Document) Renew(token int64, ttl time.Duration, now time.Time) (*cairn.Stop, error) {
	if err := plan.Released(doc.row(), token); err != nil {
		return nil, err
	}
	doc.Row.Lease.Until, doc.Row.Lease.TTL = now.Add(ttl), cairn.Duration(ttl)
	return StopOf(doc.Row.RunID, doc.Stop), nil
}

// StopOf returns a copy of a stop request if it is for the given run; nil if it is for another run, or if there is
// none.
func StopOf(runID string, stop *cairn.Stop) *cairn.Stop {
	if stop == nil || stop.RunID != runID {
		return nil
	}
	own := *stop
	return &own
}

// RequestStop implements driver.Store.RequestStop at the store's time now, and returns the request that is in force.
func (doc *Document) RequestStop(stop cairn.Stop, now time.Time) (cairn.Stop, error) {
	stands, write, err := plan.Stopped(doc.row(), doc.Stop, stop)
	if write && err == nil {
		stands.At = now
		doc.Stop = &cairn.Stop{}
		*doc.Stop = stands
	}
	return stands, err
}

// Prune removes all but the newest keep checkpoints, and the states that only the removed ones needed. It returns how
// many checkpoints it removed.
func (doc *Document) Prune(keep int) int {
	drop := len(doc.Checkpoints) - keep
	if drop <= 0 {
		return 0
	}
	doc.Checkpoints, doc.steps = slices.Clone(doc.Checkpoints[drop:]), nil
	doc.States = slices.Clone(doc.States[doc.keyframe(doc.Checkpoints[0].StatePosition):])
	return drop
}

// Branch returns the document of the session to, created at the store's time now as a branch of doc at a point. It is
// for a store without a log.
func (doc *Document) Branch(at driver.BranchPoint, to *cairn.Session, now time.Time) (*Document, error) {
	if err := at.Commit(to).Validate(); err != nil {
		return nil, err
	}
	d, err := doc.PlanBranch(at, to)
	if err != nil {
		return nil, err
	}
	return doc.Branched(d, now), nil
}

// PlanBranch returns the delta of a branch of doc at a point, for Branched.
func (doc *Document) PlanBranch(at driver.BranchPoint, to *cairn.Session) (*plan.Delta, error) {
	count, position := len(doc.Messages), doc.Row.State.Position
	switch {
	case at.CheckpointID != "":
		cp := doc.checkpoint(at.CheckpointID)
		if cp == nil {
			return nil, driver.UnknownCheckpoint(doc.Row.ID, at.CheckpointID)
		}
		count, position = cp.MessageCount, cp.StatePosition
	case at.Messages != nil:
		if count = *at.Messages; count < 0 || count > len(doc.Messages) {
			return nil, cairn.Invalid("messages", "%d: session %q has only %d", count, doc.Row.ID, len(doc.Messages))
		}
		if count < len(doc.Messages) {
			var err error
			if position, err = doc.positionBefore(count); err != nil {
				return nil, err
			}
		}
	}
	state, err := doc.state(position)
	if err != nil {
		return nil, err
	}
	return plan.Branch(to, &at, at.StateOr(state), count, &doc.Row), nil
}

// Branched returns the document of a branch of doc by the delta that PlanBranch made.
func (doc *Document) Branched(d *plan.Delta, now time.Time) *Document {
	branch := &Document{}
	branch.Apply(d, now)
	branch.Messages = slices.Concat(doc.Messages[:d.FirstMessage], d.Messages)
	return branch
}

// positionBefore returns the state position of the latest checkpoint with no more than count messages, or the first
// position if no such checkpoint ever existed.
func (doc *Document) positionBefore(count int) (int64, error) {
	for i := len(doc.Checkpoints) - 1; i >= 0; i-- {
		if doc.Checkpoints[i].MessageCount <= count {
			return doc.Checkpoints[i].StatePosition, nil
		}
	}
	if len(doc.Checkpoints) > 0 && doc.Checkpoints[0].ParentID != "" {
		return 0, driver.Pruned(doc.Row.ID, count, doc.Checkpoints[0].MessageCount)
	}
	return doc.States[0].Position, nil
}
