package turn

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
)

// past is a run as the store has it, to hold the log against: it ended, or its process died.
type past struct {
	runID      string
	steps      int   // committed
	after      int64 // a log position no later than what followed the last commit
	messages   int
	checkpoint string
	// keep says that the step after the last committed one goes on where it stood; what it said is not taken back.
	keep bool
	// end is the run's record if it has ended.
	end *cairn.Run
}

func pastOf(row *cairn.Session) past {
	return past{runID: row.RunID, steps: row.Step, after: row.LogSequence, messages: row.MessageCount, checkpoint: row.CheckpointID}
}

// Reconcile brings a session's log up to its store where a process died between the two: it adds the marks of what a
// run committed and takes back what it did not. It is safe to call at any time on a run that nobody drives; an active
// session's current run is left alone.
func (fx *Effects) Reconcile(ctx context.Context, row *cairn.Session, runID string) error {
	if row.Status == cairn.SessionActive && row.RunID == runID {
		return nil
	}
	run, err := fx.Store.Run(ctx, row.ID, runID)
	if err != nil || run.Status == cairn.RunRunning {
		return err
	}
	p := pastOf(row)
	if row.RunID != runID {
		p = past{runID: runID, steps: run.Steps, after: run.StartSequence, messages: run.FirstMessage}
	}
	p.end = run
	_, err = fx.reconcile(ctx, row, p)
	return err
}

// reconcile adds what the log lacks of a run and returns the log's last sequence.
func (fx *Effects) reconcile(ctx context.Context, row *cairn.Session, p past) (int64, error) {
	for {
		seen, last, err := fx.since(ctx, row, p)
		if err != nil {
			return 0, err
		}
		missing := p.missing(seen)
		if len(missing) == 0 {
			return last, nil
		}
		for i := range missing {
			ev := &missing[i]
			ev.SessionID, ev.RunID, ev.Agent, ev.Time = row.ID, p.runID, row.Agent, fx.Now().UTC()
		}
		last, err = fx.Log.Append(ctx, row.RootID, last, missing...)
		if !errors.Is(err, cairn.ErrStale) { // else somebody else wrote meanwhile: look again
			return last, err
		}
	}
}

// marks is what a log tells of a run beyond its last commit.
type marks struct {
	started, committed, ended bool
	open                      []int // steps begun but neither committed nor taken back
}

// since reads what the log says of a run.
func (fx *Effects) since(ctx context.Context, row *cairn.Session, p past) (m marks, last int64, err error) {
	after := p.after
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
			if ev := &batch[i]; ev.SessionID == row.ID && ev.RunID == p.runID {
				m.add(ev, p.steps)
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
func (p *past) missing(m marks) []cairn.Event {
	if p.runID == "" {
		return nil
	}
	var list []cairn.Event
	if p.steps == 0 && !m.started {
		list = append(list, cairn.Event{Type: cairn.EventRunStart, MessageCount: p.messages})
	}
	if p.steps > 0 && !m.committed {
		list = append(list, cairn.Event{Type: cairn.EventStepCommitted, Step: p.steps, MessageCount: p.messages})
		if p.checkpoint != "" {
			list = append(list, cairn.Event{Type: cairn.EventCheckpoint, Step: p.steps, CheckpointID: p.checkpoint, MessageCount: p.messages})
		}
	}
	for _, n := range m.open {
		if !p.keep || n != p.steps+1 {
			list = append(list, cairn.Event{Type: cairn.EventStepDiscarded, Step: n})
		}
	}
	if p.end != nil && !m.ended {
		list = append(list, endEvent(p.end))
	}
	return list
}
