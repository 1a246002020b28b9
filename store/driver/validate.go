package driver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/ops"
)

// Validate reports which part of a commit cannot be kept: text that is not valid UTF-8 or contains a NUL, JSON that is
// invalid or nested too deep, numbers that are not finite, or anything that is too large. The error is ErrInvalid or
// ErrTooLarge and names the field. Stores call Validate first, so that all stores refuse the same commits. It does not
// look at the session. It is for stores without further [Abilities].
func (c *Commit) Validate() error { return c.ValidateFor(Abilities{}) }

// Abilities are the optional features of a store's commits.
type Abilities struct {
	// Dialect is the dialect of the statements that an [Execer] executes; empty for none.
	Dialect string
	// MaxEvent is the maximum size of an event, in bytes, in the log of a [LogProvider], to which commits append their
	// events; 0 if they append none.
	MaxEvent int
}

// ValidateFor is Validate for a store with abilities.
func (c *Commit) ValidateFor(a Abilities) error {
	return cmp.Or(c.validateStatements(a.Dialect), c.validateEvents(a.MaxEvent),
		c.validateSession(), c.validateRuns(), c.validateStep(), c.validateQueue(), c.validateCache())
}

func (c *Commit) validateEvents(max int) error {
	if len(c.Events) == 0 {
		return nil
	}
	if c.Outbox {
		max = math.MaxInt
	} else if max == 0 {
		return cairn.Invalid("events", "store has no log that commits append to")
	}
	return ValidateEvents(c.Events, max)
}

// ValidateEvents reports which of the events of a commit a log cannot keep whose events have at most max bytes.
func ValidateEvents(list []cairn.Event, max int) error {
	for i := range list {
		if err := CheckEvent(&list[i], max); err != nil {
			return within(fmt.Sprintf("events[%d]", i), err)
		}
	}
	return nil
}

func (c *Commit) validateStatements(dialect string) error {
	for i := range c.Statements {
		s := &c.Statements[i]
		if s.Dialect != dialect || dialect == "" {
			return cairn.Invalid("statements", "statements[%d]: unsupported dialect %q", i, s.Dialect)
		}
		if err := within(fmt.Sprintf("statements[%d]", i), s.Validate()); err != nil {
			return err
		}
	}
	return nil
}

// validateSession checks what the commit writes to the session's row.
func (c *Commit) validateSession() error {
	if c.Create != nil {
		if err := validateRow(c.Create); err != nil {
			return err
		}
	}
	if c.Context != nil {
		if err := c.Context.validate(); err != nil {
			return err
		}
	}
	return cmp.Or(checkObject("initial_state", c.InitialState), cairn.CheckText("rewind", c.Rewind), cairn.CheckText("rewind_run", c.RewindRun),
		cairn.CheckText("status", string(c.Status)), cairn.CheckText("lease.owner", c.Lease.Owner), c.validateUsage())
}

// validateRuns checks the runs that end and begin, and the stop of a wait.
func (c *Commit) validateRuns() error {
	if c.EndRun != nil {
		if err := within("end_run", c.EndRun.Validate()); err != nil {
			return err
		}
	}
	if c.StartRun != nil {
		if err := within("start_run", c.StartRun.Validate()); err != nil {
			return err
		}
	}
	if c.Ending != nil {
		return within("ending", c.Ending.Validate())
	}
	return nil
}

// validateStep checks what a step adds: messages, state, checkpoint and calls.
func (c *Commit) validateStep() error {
	if err := validateMessages(c.Messages); err != nil {
		return err
	}
	if c.State != nil {
		if err := c.State.validate(); err != nil {
			return err
		}
	}
	if cp := c.Checkpoint; cp != nil {
		if err := cmp.Or(cairn.CheckText("checkpoint.id", cp.ID), cairn.CheckText("checkpoint.run_id", cp.RunID), cairn.CheckText("checkpoint.step_id", cp.StepID)); err != nil {
			return err
		}
	}
	if c.Suspend != nil {
		if err := cairn.CheckText("suspend.step_id", c.Suspend.StepID); err != nil {
			return err
		}
	}
	for i := range c.Calls {
		if err := c.Calls[i].Call.Validate(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Commit) validateQueue() error {
	for _, id := range c.Dequeue {
		if err := cairn.CheckText("dequeue", id); err != nil {
			return err
		}
	}
	if q := c.Enqueue; q != nil {
		return cmp.Or(cairn.CheckText("enqueue.id", q.ID), cairn.CheckText("enqueue.model", q.Model), within("enqueue", validateMessages(q.Messages)))
	}
	return nil
}

func (c *Commit) validateCache() error {
	for i := range c.Cache {
		if err := c.Cache[i].validate(); err != nil {
			return err
		}
	}
	for _, key := range c.CacheDrop {
		if err := cairn.CheckText("cache_drop", key); err != nil {
			return err
		}
	}
	return nil
}

// validateRow checks the fields of a row that callers set.
func validateRow(row *cairn.Session) error {
	return cmp.Or(cairn.CheckText("session", row.ID), CheckTenancy(row), cairn.CheckText("agent", row.Agent), cairn.CheckText("kind", string(row.Kind)), cairn.CheckText("name", row.Name),
		cairn.CheckText("secret", row.Secret), cairn.CheckText("thread_id", row.ThreadID),
		cairn.CheckText("parent_id", row.ParentID), cairn.CheckText("root_id", row.RootID), row.ValidateContext(), validateBranch(row))
}

// validateBranch checks where a row was branched from.
func validateBranch(row *cairn.Session) error {
	b := row.Branch
	if b == nil {
		return nil
	}
	tenant, _ := ids.Split(row.ID)
	if of, _ := ids.Split(b.From); row.ID != "" && of != tenant {
		return cairn.Invalid("branch.from", "%q belongs to another tenant than session %q", b.From, row.ID)
	}
	return b.Validate()
}

// CheckTenancy returns an ErrInvalid error, which names the field, for a row whose ids are of different tenants, or of one
// that cannot be.
func CheckTenancy(row *cairn.Session) error {
	if row.ID == "" { // it is created under another id
		return nil
	}
	if problem := ids.CheckTenancy(row.ID); problem != "" {
		return cairn.Invalid("session", "id %s", problem)
	}
	if problem := ids.CheckTenancy(row.UserID); problem != "" {
		return cairn.Invalid("user_id", "%s", problem)
	}
	tenant, _ := ids.Split(row.ID)
	for _, at := range [...]struct{ field, id string }{{"user_id", row.UserID}, {"thread_id", row.ThreadID}, {"parent_id", row.ParentID}, {"root_id", row.RootID}} {
		if of, _ := ids.Split(at.id); at.id != "" && of != tenant {
			return cairn.Invalid(at.field, "%q belongs to another tenant than session %q", at.id, row.ID)
		}
	}
	return nil
}

func validateMessages(list []cairn.Message) error {
	for i := range list {
		if err := list[i].Validate(); err != nil {
			return within(fmt.Sprintf("messages[%d]", i), err)
		}
	}
	return nil
}

func (c *StateChange) validate() error {
	for _, op := range c.Ops {
		if err := ops.Validate(&op); err != nil {
			return cairn.Invalid("state", "%v", err)
		}
	}
	return checkObject("state", c.Keyframe)
}

// checkObject reports a state that is set but cannot be kept.
func checkObject(field string, raw json.RawMessage) error {
	if err := cairn.CheckJSON(field, raw); err != nil {
		return err
	}
	if text := bytes.TrimLeft(raw, " \t\r\n"); len(text) > 0 && text[0] != '{' {
		return cairn.Invalid(field, "must be a JSON object")
	}
	return nil
}

func (e *CacheEntry) validate() error {
	return cmp.Or(cairn.CheckText("cache.key", e.Key), cairn.CheckText("cache.tool", e.Tool), cairn.CheckJSON("cache.output", e.Output))
}

func (c *ContextChange) validate() error {
	var after cairn.Session
	c.Apply(&after) // which leaves out removed keys: they need not be valid
	return after.ValidateContext()
}

// Validate reports why a piece cannot be kept. The error is ErrInvalid and names the field. Stores call it first.
func (p *Staged) Validate() error {
	if err := cmp.Or(cairn.CheckText("staged.step_id", p.StepID), cairn.CheckText("staged.key", p.Key)); err != nil {
		return err
	}
	if !json.Valid(p.Data) { // the commit checks its content
		return cairn.Invalid("staged.data", "staged fact %q of step %q is not valid JSON", p.Key, p.StepID)
	}
	return nil
}

// ValidateStaged reports the first piece that cannot be kept.
func ValidateStaged(pieces []Staged) error {
	for i := range pieces {
		if err := pieces[i].Validate(); err != nil {
			return err
		}
	}
	return nil
}

// within prefixes the field and message of an error with the name of the enclosing value.
func within(what string, err error) error {
	if err == nil {
		return nil
	}
	e := *cairn.AsError(err)
	e.Field, e.Message = what+"."+e.Field, what+"."+e.Message
	return &e
}
