package turn

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
)

// Reconcile brings a session's log up to its store after a process died between the two: it adds the marks of what was
// committed and takes back what was not. It is safe to call at any time on a session that nobody drives.
func (fx *Effects) Reconcile(ctx context.Context, row *cairn.Session) error {
	_, err := fx.reconcile(ctx, row, false)
	return err
}

// reconcile does the work of Reconcile and returns the log's last sequence. With keep, the step after the last
// committed one goes on where it stood, and what it said is not taken back.
func (fx *Effects) reconcile(ctx context.Context, row *cairn.Session, keep bool) (int64, error) {
	for {
		seen, last, err := fx.since(ctx, row)
		if err != nil {
			return 0, err
		}
		missing, err := fx.missing(ctx, row, seen, keep)
		if err != nil || len(missing) == 0 {
			return last, err
		}
		for i := range missing {
			ev := &missing[i]
			ev.SessionID, ev.RunID, ev.Agent, ev.Time = row.ID, row.RunID, row.Agent, fx.Now().UTC()
		}
		last, err = fx.Log.Append(ctx, row.RootID, last, missing...)
		if !errors.Is(err, cairn.ErrStale) { // else somebody else wrote meanwhile: look again
			return last, err
		}
	}
}

// marks is what a session's log tells of its current run beyond the last commit.
type marks struct {
	started, committed, ended bool
	open                      []int // steps begun but neither committed nor taken back
}

// since reads what the log says after the session's last commit.
func (fx *Effects) since(ctx context.Context, row *cairn.Session) (m marks, last int64, err error) {
	after := row.LogSequence
	for {
		batch, err := fx.Log.Read(ctx, row.RootID, after, 0)
		if errors.Is(err, cairn.ErrTrimmed) {
			first, _, err := fx.Log.Bounds(ctx, row.RootID)
			if err != nil {
				return m, 0, err
			}
			after = first - 1
			continue
		}
		if err != nil {
			return m, 0, err
		}
		for i := range batch {
			if ev := &batch[i]; ev.SessionID == row.ID && ev.RunID == row.RunID {
				m.add(ev, row.Step)
			}
			after = batch[i].Sequence
		}
		if len(batch) == 0 {
			break
		}
	}
	// What comes in from here on makes an append on top of after fail, so that it is not overlooked.
	_, last, err = fx.Log.Bounds(ctx, row.RootID)
	return m, min(after, last), err
}

func (m *marks) add(ev *cairn.Event, committed int) {
	drop := func() {
		for i, n := range m.open {
			if n == ev.Step {
				m.open = append(m.open[:i], m.open[i+1:]...)
				return
			}
		}
	}
	switch ev.Type {
	case cairn.EventRunStart, cairn.EventRunResumed:
		m.started = true
	case cairn.EventStepStart:
		if ev.Step > committed {
			drop()
			m.open = append(m.open, ev.Step)
		}
	case cairn.EventStepDiscarded:
		drop()
	case cairn.EventStepCommitted:
		m.committed = m.committed || ev.Step == committed
	case cairn.EventRunEnd:
		m.ended = true
	}
}

// missing lists the events the log lacks.
func (fx *Effects) missing(ctx context.Context, row *cairn.Session, m marks, keep bool) ([]cairn.Event, error) {
	if row.RunID == "" {
		return nil, nil
	}
	var list []cairn.Event
	if row.Step == 0 && !m.started {
		list = append(list, cairn.Event{Type: cairn.EventRunStart, MessageCount: row.MessageCount})
	}
	if row.Step > 0 && !m.committed {
		list = append(list,
			cairn.Event{Type: cairn.EventStepCommitted, Step: row.Step, MessageCount: row.MessageCount},
			cairn.Event{Type: cairn.EventCheckpoint, Step: row.Step, CheckpointID: row.CheckpointID, MessageCount: row.MessageCount})
	}
	for _, n := range m.open {
		if !keep || n != row.Step+1 {
			list = append(list, cairn.Event{Type: cairn.EventStepDiscarded, Step: n})
		}
	}
	if row.Status == cairn.SessionActive || m.ended {
		return list, nil
	}
	run, err := fx.Store.Run(ctx, row.ID, row.RunID)
	if err != nil {
		return nil, err
	}
	if run.Status == cairn.RunRunning {
		return list, nil
	}
	return append(list, endEvent(run)), nil
}
