package driver

import (
	"cmp"
	"fmt"
	"iter"
	"math"

	"github.com/cairn-agents/cairn"
)

// CheckImport yields the parts of a tree and fails as soon as they cannot form a whole tree. It is for implementers of
// [Importer]. The error is ErrInvalid and names the kind of part if one is missing, repeated or out of order, or has
// blobs, and ErrTooLarge for an event of more than maxEvent bytes.
func CheckImport(root string, maxEvent int, parts iter.Seq2[*Part, error]) iter.Seq2[*Part, error] {
	return func(yield func(*Part, error) bool) {
		c := importCheck{root: root, maxEvent: maxEvent, sessions: map[string]bool{}, calls: map[string]bool{}}
		for part, err := range parts {
			if err == nil {
				err = c.part(part)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(part, nil) {
				return
			}
		}
		if err := c.end(); err != nil {
			yield(nil, err)
		}
	}
}

// importCheck is the state of a check of a tree's parts.
type importCheck struct {
	root     string
	maxEvent int
	sessions map[string]bool // begun so far
	calls    map[string]bool // of the tree, by id
	log      LogExtent
	sequence int64 // of the last event

	// Of the current session.
	session     *SessionPart
	states      int64
	messages    int
	runs        map[string]bool
	checkpoints map[string]bool
	steps       map[string]bool
	number      int64 // of the last checkpoint
	queue       map[string]bool
	staged      map[[2]string]bool
	cache       map[string]bool
}

func (c *importCheck) part(p *Part) error {
	if p.Session != nil {
		if err := c.begin(p.Session); err != nil {
			return err
		}
	}
	if c.session == nil {
		return cairn.Invalid("session", "the first part must begin session %q", c.root)
	}
	if len(p.Blobs)+len(p.Bytes) > 0 {
		return cairn.Invalid("blobs", "session %q: files are imported by Import of package store, not by the store", c.root)
	}
	for _, check := range []func(*Part) error{c.state, c.history, c.runsOf, c.checkpointsOf, c.callsOf, c.rest, c.events} {
		if err := check(p); err != nil {
			return err
		}
	}
	return nil
}

// begin ends the current session and checks the row of the next one.
func (c *importCheck) begin(s *SessionPart) error {
	if err := c.whole(); err != nil {
		return err
	}
	row := &s.Row
	if err := cairn.CheckSessionID(row.ID); err != nil {
		return err
	}
	isRoot := len(c.sessions) == 0
	switch {
	case isRoot && (row.ID != c.root || row.ParentID != ""):
		return cairn.Invalid("session", "%q must not come before the root %q", row.ID, c.root)
	case row.RootID != c.root:
		return cairn.Invalid("session", "%q belongs to the tree of %q, not of %q", row.ID, row.RootID, c.root)
	case c.sessions[row.ID]:
		return cairn.Invalid("session", "duplicate session %q", row.ID)
	case !isRoot && !c.sessions[row.ParentID]:
		return cairn.Invalid("session", "%q has no parent %q in the tree", row.ID, row.ParentID)
	case isRoot && (s.Log == nil || s.Log.First < 1 || s.Log.Last < s.Log.First-1):
		return cairn.Invalid("events", "root %q must have the extent of its event log", row.ID)
	case !isRoot && s.Log != nil || c.sequence > 0:
		return cairn.Invalid("events", "events of session %q must follow it and belong to the root", row.ID)
	case s.Secret == "":
		return cairn.Invalid("session", "%q has no secret", row.ID)
	case row.Version < 1:
		return cairn.Invalid("session", "%q has version %d", row.ID, row.Version)
	case row.Summary.From < 0 || row.Summary.From > row.Summary.At || row.Summary.At > max(row.MessageCount-1, 0):
		return cairn.Invalid("session", "%q has a summary at %d of %d messages from %d", row.ID, row.Summary.At, row.MessageCount, row.Summary.From)
	case !trustFits(row):
		return cairn.Invalid("session", "%q has changes of its trust at %v of %d messages", row.ID, row.TrustAt, row.MessageCount)
	case s.Inside.FirstState < 0 || s.Inside.FirstState > row.State.Position:
		return cairn.Invalid("states", "session %q: begin at %d, after the current %d",
			row.ID, s.Inside.FirstState, row.State.Position)
	}
	if err := validateImported(s); err != nil {
		return err
	}
	if isRoot {
		c.log = *s.Log
	}
	c.sessions[row.ID] = true
	c.session, c.states, c.messages, c.number = s, 0, 0, 0
	c.runs, c.checkpoints, c.steps = map[string]bool{}, map[string]bool{}, map[string]bool{}
	c.queue, c.staged, c.cache = map[string]bool{}, map[[2]string]bool{}, map[string]bool{}
	return nil
}

// trustFits reports whether the places at which a session became tainted and was cleared can be those of its transcript.
func trustFits(row *cairn.Session) bool {
	before := -1
	for _, at := range row.TrustAt {
		if at <= before || at >= row.MessageCount {
			return false
		}
		before = at
	}
	return row.Tainted == (len(row.TrustAt)%2 == 1)
}

// validateImported reports which part of a session's row cannot be kept.
func validateImported(s *SessionPart) error {
	row := &s.Row
	err := cmp.Or(validateRow(row), cairn.CheckText("secret", s.Secret), cairn.CheckText("run_id", row.RunID), cairn.CheckText("lease.owner", row.Lease.Owner),
		cairn.CheckText("suspended_step", row.SuspendedStep), row.Usage.Validate(), row.RunUsage.Validate())
	if err == nil && row.Outbox != nil {
		err = within("outbox", ValidateEvents(row.Outbox.Events, math.MaxInt))
	}
	switch {
	case err != nil || row.Ending == nil:
	case row.Status != cairn.SessionPaused:
		err = cairn.Invalid("ending", "session %q is %s, but only a paused session can be ending", row.ID, row.Status)
	default:
		err = within("ending", row.Ending.Validate())
	}
	if err == nil && s.Inside.Stop != nil {
		err = s.Inside.Stop.Validate()
	}
	return err
}

func (c *importCheck) state(p *Part) error {
	for i := range p.States {
		change := &p.States[i]
		switch {
		case c.states == 0 && change.Keyframe == nil:
			return cairn.Invalid("states", "session %q: the oldest state must be a keyframe", c.session.Row.ID)
		}
		if err := change.validate(); err != nil {
			return within(fmt.Sprintf("states[%d]", c.session.Inside.FirstState+c.states), err)
		}
		c.states++
	}
	return nil
}

func (c *importCheck) history(p *Part) error {
	c.messages += len(p.Messages)
	if err := validateMessages(p.Messages); err != nil {
		return err
	}
	for i := range p.Messages {
		if p.Messages[i].CreatedAt.IsZero() {
			return cairn.Invalid("messages", "session %q: a message has no time", c.session.Row.ID)
		}
	}
	return nil
}

func (c *importCheck) runsOf(p *Part) error {
	for i := range p.Runs {
		run := &p.Runs[i]
		if run.ID == "" || c.runs[run.ID] || run.Turn != len(c.runs)+1 || run.SessionID != c.session.Row.ID {
			return cairn.Invalid("runs", "session %q: turn %d comes after turn %d as run %q of session %q",
				c.session.Row.ID, run.Turn, len(c.runs), run.ID, run.SessionID)
		}
		if err := within("runs", run.Validate()); err != nil {
			return err
		}
		c.runs[run.ID] = true
	}
	return nil
}

func (c *importCheck) checkpointsOf(p *Part) error {
	row, inside := &c.session.Row, &c.session.Inside
	for i := range p.Checkpoints {
		cp := &p.Checkpoints[i]
		switch {
		case cp.ID == "" || c.checkpoints[cp.ID] || cp.SessionID != row.ID || cp.Number <= c.number || cp.Number > inside.Checkpoints:
			return cairn.Invalid("checkpoints", "session %q: number %d comes after number %d of %d as checkpoint %q of session %q",
				row.ID, cp.Number, c.number, inside.Checkpoints, cp.ID, cp.SessionID)
		case cp.StepID != "" && c.steps[cp.StepID]:
			return cairn.Invalid("checkpoints", "session %q: duplicate checkpoint of step %q", row.ID, cp.StepID)
		case cp.MessageCount < 0 || cp.MessageCount > row.MessageCount:
			return cairn.Invalid("checkpoints", "session %q: %q has %d messages of %d", row.ID, cp.ID, cp.MessageCount, row.MessageCount)
		case cp.StatePosition < inside.FirstState || cp.StatePosition >= inside.FirstState+c.states:
			return cairn.Invalid("checkpoints", "session %q: %q is at state %d, which must be between %d and %d",
				row.ID, cp.ID, cp.StatePosition, inside.FirstState, inside.FirstState+c.states-1)
		}
		c.checkpoints[cp.ID], c.number = true, cp.Number
		if cp.StepID != "" {
			c.steps[cp.StepID] = true
		}
	}
	return nil
}

func (c *importCheck) callsOf(p *Part) error {
	row := &c.session.Row
	for i := range p.Calls {
		call := &p.Calls[i]
		if call.ID == "" || c.calls[call.ID] || call.SessionID != row.ID || call.RootID != row.RootID || call.Version < 1 {
			return cairn.Invalid("calls", "session %q: %q of session %q and root %q belongs to another session, is a duplicate or has no version",
				row.ID, call.ID, call.SessionID, call.RootID)
		}
		if err := call.Validate(); err != nil {
			return err
		}
		c.calls[call.ID] = true
	}
	return nil
}

// rest checks queued turns, staged pieces and cache entries, whose names must be unique.
func (c *importCheck) rest(p *Part) error {
	id := c.session.Row.ID
	for i := range p.Queue {
		if turn := p.Queue[i].ID; c.queue[turn] {
			return cairn.Invalid("queue", "session %q: duplicate turn %q", id, turn)
		}
		if err := within("queue", validateMessages(p.Queue[i].Messages)); err != nil {
			return err
		}
		c.queue[p.Queue[i].ID] = true
	}
	for i := range p.Staged {
		name := [2]string{p.Staged[i].StepID, p.Staged[i].Key}
		if c.staged[name] {
			return cairn.Invalid("staged", "session %q: duplicate staged fact %q of step %q", id, name[1], name[0])
		}
		if err := p.Staged[i].Validate(); err != nil {
			return err
		}
		c.staged[name] = true
	}
	for i := range p.Cache {
		if key := p.Cache[i].Key; c.cache[key] {
			return cairn.Invalid("cache", "session %q: duplicate entry %q", id, key)
		}
		if err := p.Cache[i].validate(); err != nil {
			return err
		}
		c.cache[p.Cache[i].Key] = true
	}
	return nil
}

func (c *importCheck) events(p *Part) error {
	for i := range p.Events {
		ev := &p.Events[i]
		if c.sequence == 0 {
			c.sequence = c.log.First - 1
		}
		if c.sequence++; ev.Sequence != c.sequence {
			return cairn.Invalid("events", "session %q: got sequence %d, want %d", c.root, ev.Sequence, c.sequence)
		}
		if err := CheckEvent(ev, c.maxEvent); err != nil {
			return err
		}
	}
	return nil
}

// whole checks that no part of the current session is missing.
func (c *importCheck) whole() error {
	if c.session == nil {
		return nil
	}
	row := &c.session.Row
	missing := func(field string, have, want any) error {
		return cairn.Invalid(field, "session %q has %v, but its row has %v", row.ID, have, want)
	}
	switch kept := row.State.Position - c.session.Inside.FirstState + 1; {
	case c.states != kept:
		return missing("states", c.states, kept)
	case c.messages != row.MessageCount:
		return missing("messages", c.messages, row.MessageCount)
	case len(c.runs) != row.Turn:
		return missing("runs", len(c.runs), row.Turn)
	case len(c.queue) != row.Queued:
		return missing("queue", len(c.queue), row.Queued)
	case row.RunID != "" && !c.runs[row.RunID]:
		return missing("runs", "others", row.RunID)
	case row.CheckpointID != "" && !c.checkpoints[row.CheckpointID]:
		return missing("checkpoints", "others", row.CheckpointID)
	}
	return nil
}

// end checks that no part of the tree is missing.
func (c *importCheck) end() error {
	if c.session == nil {
		return cairn.Invalid("session", "no part of %q", c.root)
	}
	if err := c.whole(); err != nil {
		return err
	}
	if last := max(c.sequence, c.log.First-1); last != c.log.Last {
		return cairn.Invalid("events", "session %q: end at %d, want %d", c.root, last, c.log.Last)
	}
	return nil
}

// LogExists returns the error for a tree whose event log has the name of an existing log with events.
func LogExists(log string) error {
	return cairn.Errorf(cairn.ErrExists, "event log %q already exists", log)
}
