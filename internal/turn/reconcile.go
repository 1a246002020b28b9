package turn

import (
	"context"
	"errors"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// past is a run as the store has it, to hold the log against: it ended, or its process died.
type past struct {
	runID      string
	token      int64 // of the lease, whose earlier holders may write no more
	steps      int   // committed
	start      int64 // the log's position when it began
	after      int64 // a log position no later than what followed the last commit
	messages   int
	checkpoint string
	// end is the run's record if it has ended.
	end *cairn.Run
}

// pastOf returns the past of a session's current run.
func pastOf(row *cairn.Session, run *cairn.Run) past {
	return past{runID: row.RunID, token: row.Lease.Token, steps: row.Step, start: run.StartSequence, after: row.LogSequence,
		messages: row.MessageCount, checkpoint: row.CheckpointID}
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
	p := pastOf(row, run)
	if row.RunID != runID {
		p = past{runID: runID, token: row.Lease.Token, steps: run.Steps, start: run.StartSequence, after: run.StartSequence, messages: run.FirstMessage}
	}
	p.end = run
	_, err = fx.reconcile(ctx, row, p)
	return err
}

// tellEnds completes the log of those of a session's runs up to a turn that have ended but whose end is not there: a
// process that took over may itself have died before it told of what it found. The oldest is told first, so that one
// whose end is there has none before it that lacks it.
func (fx *Effects) tellEnds(ctx context.Context, row *cairn.Session, upTo int) error {
	if row.Turn == upTo && upTo > 0 { // mostly the last run's end is right behind its last commit
		seen, _, err := fx.since(ctx, row, past{runID: row.RunID, after: row.LogSequence})
		if err != nil || seen.ended {
			return err
		}
	}
	untold, err := fx.untold(ctx, row, upTo)
	if err != nil {
		return err
	}
	for _, id := range slices.Backward(untold) {
		if err := fx.Reconcile(ctx, row, id); err != nil {
			return err
		}
	}
	return nil
}

// untold lists the runs up to a turn whose end is not in the log, from the latest back to the first whose end is.
func (fx *Effects) untold(ctx context.Context, row *cairn.Session, upTo int) ([]string, error) {
	var list []string
	q := store.PageQuery{Newest: true, Limit: 4}
	for {
		page, err := fx.Store.Runs(ctx, row.ID, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			run := &page.Items[i]
			if run.Turn > upTo {
				continue
			}
			seen, _, err := fx.since(ctx, row, past{runID: run.ID, after: run.StartSequence})
			if err != nil || seen.ended {
				return list, err
			}
			list = append(list, run.ID)
		}
		if q.Cursor = page.Next; page.Next == "" {
			return list, nil
		}
	}
}

// retell puts a step that was staged on the log again, whole: what its dead process said of it has been taken back,
// because nobody knows how much of that there is.
func (l *live) retell() {
	st := l.step
	say := func(ev cairn.Event) {
		ev.Step = st.number
		l.emit.event(ev)
	}
	say(cairn.Event{Type: cairn.EventStepStart})
	for i := range st.reply.Parts {
		switch p := &st.reply.Parts[i]; p.Type {
		case cairn.PartText:
			say(cairn.Event{Type: cairn.EventTextDelta, Text: p.Text})
		case cairn.PartReasoning:
			say(cairn.Event{Type: cairn.EventThinking, Text: p.Text})
			say(cairn.Event{Type: cairn.EventThinkingEnd})
		case cairn.PartToolUse:
			say(cairn.Event{Type: cairn.EventToolArgStart, CallID: p.ToolUse.CallID, Tool: p.ToolUse.Tool})
			say(cairn.Event{Type: cairn.EventToolArgDelta, CallID: p.ToolUse.CallID, Text: string(p.ToolUse.Input)})
			say(cairn.Event{Type: cairn.EventToolArgEnd, CallID: p.ToolUse.CallID, Tool: p.ToolUse.Tool, Data: p.ToolUse.Input})
		}
	}
	for _, c := range st.calls {
		if c.result != nil {
			say(cairn.Event{Type: cairn.EventToolStart, CallID: c.use.CallID, Tool: c.use.Tool, Data: c.use.Input})
			say(cairn.Event{Type: cairn.EventToolEnd, CallID: c.use.CallID, Tool: c.use.Tool, Data: c.result.Output, IsError: c.result.IsError})
		}
	}
}

// reconcile adds what the log lacks of a run and returns the log's last sequence.
func (fx *Effects) reconcile(ctx context.Context, row *cairn.Session, p past) (int64, error) {
	if _, err := fx.append(ctx, row.RootID, store.AnySequence, row.ID, p.token); err != nil {
		return 0, err
	}
	for {
		seen, last, err := fx.since(ctx, row, p)
		if err != nil {
			return 0, err
		}
		told := p.steps == 0 && seen.started || p.steps > 0 && seen.committed[p.steps]
		if !told && p.after > p.start {
			// The last commit may have held several steps, of which any number of marks are missing, or none at all.
			p.after = p.start
			continue
		}
		var missing []cairn.Event
		for _, ev := range p.missing(seen) {
			ev.SessionID, ev.RunID, ev.Agent, ev.Time = row.ID, p.runID, row.Agent, fx.Now().UTC()
			missing = append(missing, fit(ev, fx.eventLimit())...)
		}
		if len(missing) == 0 {
			return last, nil
		}
		last, err = fx.append(ctx, row.RootID, last, row.ID, p.token, missing...)
		if !errors.Is(err, cairn.ErrStale) { // else somebody else wrote meanwhile: look again
			return last, err
		}
	}
}

// marks is what a log tells of a run beyond its last commit.
type marks struct {
	started, ended bool
	committed      map[int]bool
	open           []int // steps begun but neither committed nor taken back
}

// since reads what the log says of a run.
func (fx *Effects) since(ctx context.Context, row *cairn.Session, p past) (m marks, last int64, err error) {
	after := p.after
	m.committed = map[int]bool{}
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
		m.committed[ev.Step] = true
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
	if p.steps > 0 && !m.committed[p.steps] {
		for n := 1; n <= p.steps; n++ {
			if !m.committed[n] {
				list = append(list, cairn.Event{Type: cairn.EventStepCommitted, Step: n, MessageCount: p.messages})
			}
		}
		if p.checkpoint != "" {
			list = append(list, cairn.Event{Type: cairn.EventCheckpoint, Step: p.steps, CheckpointID: p.checkpoint, MessageCount: p.messages})
		}
	}
	for _, n := range m.open {
		list = append(list, cairn.Event{Type: cairn.EventStepDiscarded, Step: n})
	}
	if p.end != nil && !m.ended {
		list = append(list, endEvent(p.end))
	}
	return list
}
