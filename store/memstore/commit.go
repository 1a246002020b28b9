package memstore

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, id string, c *store.Commit) (*cairn.Session, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.clock()

	ses, err := s.find(id, now)
	if err != nil {
		return nil, err
	}
	if ses == nil {
		if c.Create == nil {
			return nil, store.NotFound(id)
		}
		ses = newSession(c.NewRow(id, now), c.InitialState)
	} else {
		ses.row.AsOf = now
		if c.Guard.CheckToken(&ses.row) != nil && !c.Took(&ses.row) {
			return nil, c.Guard.CheckToken(copyOf(&ses.row)) // a conflict hands the row out
		}
		if ses.happened(c) {
			return copyOf(&ses.row), nil
		}
		if c.Guard.Check(&ses.row, now) != nil {
			return nil, c.Guard.Check(copyOf(&ses.row), now)
		}
	}

	// Everything is worked out on a copy first, so that an error leaves no trace.
	if err := s.checkCalls(&ses.row, c.Calls); err != nil {
		return nil, err
	}
	next := *ses
	row, calls, err := next.apply(c, now)
	if err != nil {
		return nil, err
	}
	*ses = next
	s.sessions[id] = ses
	s.sweepFrom(ses.sweepAt)
	s.putCalls(ses, calls)
	return row, nil
}

func newSession(row *cairn.Session, state json.RawMessage) *session {
	if len(state) == 0 {
		state = json.RawMessage("{}")
	}
	state = slices.Clone(state)
	row.State.KeyframeBytes = int64(len(state))
	return &session{row: *row, runIndex: map[string]int{}, steps: map[string]struct{}{},
		changes: []change{{keyframe: state, size: len(state)}}, sweepAt: store.SweepAt(row.UpdatedAt, row)}
}

// happened reports whether a commit had been applied before.
func (ses *session) happened(c *store.Commit) bool {
	if c.StartRun != nil {
		if _, ok := ses.runIndex[c.StartRun.ID]; ok {
			return true
		}
	}
	if c.Checkpoint != nil {
		_, ok := ses.steps[c.Checkpoint.StepID]
		return ok
	}
	return false
}

// apply changes a copy of a session. Until nothing can fail any more it only appends beyond the length of slices that
// the copy shares with the original, or replaces them, and never writes within.
// It returns the new row, and the rows of pending calls, which are left to the caller.
func (ses *session) apply(c *store.Commit, now time.Time) (*cairn.Session, []cairn.PendingCall, error) {
	if err := ses.rewind(c); err != nil {
		return nil, nil, err
	}
	size := 0
	if c.State != nil {
		stored, err := newChange(c.State)
		if err != nil {
			return nil, nil, err
		}
		size = stored.size
		ses.changes = append(ses.changes, stored)
	}
	row, fx := c.Advance(&ses.row, now, size, ses.numbers)
	ended := -1
	if fx.EndRun != nil {
		var err error
		if ended, err = ses.run(fx.EndRun.ID); err != nil {
			return nil, nil, err
		}
	}
	if err := ses.enqueue(c, row); err != nil {
		return nil, nil, err
	}
	// Nothing fails from here on.
	switch kind := store.DueKindOf(row); {
	case kind == store.DueDeadline:
		ses.dueAt = row.NextDeadline
	case kind != store.DueKindOf(&ses.row):
		ses.dueAt = now
	}
	if c.Context != nil {
		ses.sweepAt = store.SweepAt(now, row)
	}
	ses.row = *row
	if ended >= 0 {
		ses.endRun(ended, fx.EndRun)
	}
	if fx.StartRun != nil {
		ses.runIndex[fx.StartRun.ID] = len(ses.runs)
		ses.runs = append(ses.runs, fx.StartRun)
	}
	if ses.messages == nil && len(c.Messages) > 0 {
		ses.messages = make([]cairn.Message, 0, max(4, len(c.Messages)))
	}
	for _, m := range c.Messages {
		if m.CreatedAt.IsZero() {
			m.CreatedAt = now
		}
		ses.messages = append(ses.messages, m)
	}
	if fx.Checkpoint != nil {
		ses.checkpoints = append(ses.checkpoints, fx.Checkpoint)
		ses.numbers++
		if fx.Checkpoint.StepID != "" {
			ses.steps[fx.Checkpoint.StepID] = struct{}{}
		}
	}
	if c.DropStaged {
		ses.staged = nil
	}
	ses.keep(c)
	return row, fx.Calls, nil
}

// enqueue replaces the queue by one with the commit's changes.
func (ses *session) enqueue(c *store.Commit, row *cairn.Session) error {
	at := func(id string) int {
		return slices.IndexFunc(ses.queue, func(t store.QueuedTurn) bool { return t.ID == id })
	}
	if c.Enqueue != nil && at(c.Enqueue.ID) < 0 {
		turn := store.QueuedTurn{ID: c.Enqueue.ID, Messages: slices.Clone(c.Enqueue.Messages)}
		ses.queue = append(slices.Clone(ses.queue), turn)
	}
	if c.Dequeue != "" {
		i := at(c.Dequeue)
		if i < 0 {
			return store.Conflict(cairn.CodeStale, copyOf(&ses.row), "session %q has no queued turn %q", row.ID, c.Dequeue)
		}
		ses.queue = slices.Delete(slices.Clone(ses.queue), i, i+1)
	}
	row.Queued = len(ses.queue)
	return nil
}

// keep changes the tool-result cache.
func (ses *session) keep(c *store.Commit) {
	if len(c.Cache)+len(c.CacheDrop) == 0 {
		return
	}
	if ses.cache == nil {
		ses.cache = map[string]store.CacheEntry{}
	}
	for _, e := range c.Cache {
		ses.cache[e.Key] = e
	}
	for _, key := range c.CacheDrop {
		delete(ses.cache, key)
	}
}

func newChange(sc *store.StateChange) (change, error) {
	if sc.Keyframe != nil {
		return change{keyframe: slices.Clone(sc.Keyframe), size: len(sc.Keyframe)}, nil
	}
	raw, err := json.Marshal(sc.Ops)
	if err != nil {
		return change{}, cairn.Errorf(cairn.CodeState, "state: %w", err)
	}
	return change{ops: slices.Clone(sc.Ops), size: len(raw)}, nil
}

func (ses *session) endRun(i int, run *cairn.Run) {
	old := ses.runs[i]
	run.Turn, run.StartedAt, run.StartSequence = old.Turn, old.StartedAt, old.StartSequence
	run.FirstMessage, run.Before = old.FirstMessage, old.Before
	ses.runs[i] = run
	if ses.stop != nil && ses.stop.RunID == run.ID {
		ses.stop = nil
	}
}

// rewind goes back to where the commit says, if it says so.
func (ses *session) rewind(c *store.Commit) error {
	var to cairn.Checkpoint // number 0: no checkpoint is left
	switch {
	case c.Rewind != "":
		cp, err := ses.checkpoint(c.Rewind)
		if err != nil {
			return err
		}
		to = *cp
	case c.RewindRun != "":
		i, err := ses.run(c.RewindRun)
		if err != nil {
			return err
		}
		if c.RewindRun != ses.row.RunID {
			return store.RunGone(&ses.row, c.RewindRun)
		}
		run := ses.runs[i]
		to = cairn.Checkpoint{ID: run.Before.CheckpointID, MessageCount: run.FirstMessage, StatePosition: run.Before.StatePosition}
		if to.MessageCount > len(ses.messages) || to.StatePosition < ses.firstChange || to.StatePosition > ses.row.State.Position {
			return store.RunGone(&ses.row, c.RewindRun)
		}
		if to.ID != "" {
			cp, err := ses.checkpoint(to.ID)
			if err != nil {
				return store.RunGone(&ses.row, c.RewindRun)
			}
			to.Number = cp.Number
		}
	default:
		return nil
	}
	ses.row.Epoch++
	ses.row.MessageCount, ses.row.CheckpointID = to.MessageCount, to.ID
	ses.row.State = ses.positionAt(to.StatePosition)
	ses.messages = slices.Clone(ses.messages[:to.MessageCount])
	ses.changes = slices.Clone(ses.changes[:to.StatePosition-ses.firstChange+1])
	kept := slices.IndexFunc(ses.checkpoints, func(cp *cairn.Checkpoint) bool { return cp.Number > to.Number })
	if kept < 0 {
		kept = len(ses.checkpoints)
	}
	ses.checkpoints = slices.Clone(ses.checkpoints[:kept])
	ses.steps = map[string]struct{}{}
	for _, cp := range ses.checkpoints {
		if cp.StepID != "" {
			ses.steps[cp.StepID] = struct{}{}
		}
	}
	return nil
}

// positionAt works out the sizes that belong to a state position.
func (ses *session) positionAt(position int64) cairn.StatePosition {
	k := ses.keyframeAt(position)
	at := cairn.StatePosition{Position: position, KeyframeBytes: int64(ses.changes[k].size)}
	for i := k + 1; i <= int(position-ses.firstChange); i++ {
		at.ChangeBytes += int64(ses.changes[i].size)
	}
	return at
}

// Branch implements store.Store.
func (s *Store) Branch(ctx context.Context, from string, at store.BranchPoint, to *cairn.Session) (*cairn.Session, error) {
	ses, err := s.open(ctx, from)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	switch there, err := s.find(to.ID, s.clock()); {
	case err != nil:
		return nil, err
	case there != nil:

		return nil, store.Conflict(cairn.CodeExists, copyOf(&there.row), "session %q already exists", to.ID)
	}
	count, position := len(ses.messages), ses.row.State.Position
	switch {
	case at.CheckpointID != "":
		cp, err := ses.checkpoint(at.CheckpointID)
		if err != nil {
			return nil, err
		}
		count, position = cp.MessageCount, cp.StatePosition
	case at.Messages != nil:
		if count = *at.Messages; count < 0 || count > len(ses.messages) {
			return nil, cairn.Invalid("messages", "%d: session %q has %d", count, from, len(ses.messages))
		}
		if count < len(ses.messages) {
			if position, err = ses.positionBefore(count); err != nil {
				return nil, err
			}
		}
	}
	state, err := ses.state(position)
	if err != nil {
		return nil, err
	}
	create := &store.Commit{Create: to}
	branch := newSession(create.NewRow(to.ID, s.clock()), state)
	branch.messages = slices.Clone(ses.messages[:count])
	branch.row.MessageCount = count
	branch.row.Version = 1
	s.sessions[to.ID] = branch
	s.sweepFrom(branch.sweepAt)
	return copyOf(&branch.row), nil
}

// positionBefore returns the state position of the latest checkpoint with no more than count messages, or the first
// position if there never was such a checkpoint.
func (ses *session) positionBefore(count int) (int64, error) {
	for _, cp := range slices.Backward(ses.checkpoints) {
		if cp.MessageCount <= count {
			return cp.StatePosition, nil
		}
	}
	if len(ses.checkpoints) > 0 && ses.checkpoints[0].ParentID != "" {
		return 0, store.Pruned(ses.row.ID, count, ses.checkpoints[0].MessageCount)
	}
	return ses.firstChange, nil
}

// Prune implements store.Store.
func (s *Store) Prune(ctx context.Context, id string, keep int) (int, error) {
	if keep < 1 {
		return 0, cairn.Invalid("keep", "%d: at least one checkpoint is kept", keep)
	}
	ses, err := s.open(ctx, id)
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	drop := len(ses.checkpoints) - keep
	if drop <= 0 {
		return 0, nil
	}
	ses.checkpoints = slices.Clone(ses.checkpoints[drop:])
	k := ses.keyframeAt(ses.checkpoints[0].StatePosition)
	ses.changes = slices.Clone(ses.changes[k:])
	ses.firstChange += int64(k)
	return drop, nil
}
