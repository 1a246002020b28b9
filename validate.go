package cairn

import (
	"cmp"
	"fmt"

	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/limits"
)

// Validate reports why a message cannot be kept: text that is not valid UTF-8 or has a NUL, JSON that is malformed
// or nested too deep, or more than MaxMessageBytes. The error is ErrInvalid or ErrTooLarge and names the field.
func (m *Message) Validate() error {
	err := cmp.Or(CheckText("id", m.ID), CheckText("role", string(m.Role)), CheckText("origin", string(m.Origin)), CheckText("child_id", m.ChildID),
		CheckText("call_id", m.CallID), CheckText("run_id", m.RunID), checkTime("created_at", m.CreatedAt))
	if err != nil {
		return err
	}
	for name := range m.Tools {
		if err := CheckText("tools", name); err != nil {
			return err
		}
	}
	for name, raw := range m.Pinned {
		if err := cmp.Or(CheckText("pinned", name), CheckJSON("pinned", raw)); err != nil {
			return err
		}
	}
	if err := CheckJSON("metadata", m.Metadata); err != nil {
		return err
	}
	if m.Tokens < 0 {
		return Invalid("tokens", "%d is negative", m.Tokens)
	}
	if err := cmp.Or(checkWorkspaceRef("workspace", m.Workspace), m.Summary.validate(), m.LeftOut.validate(), m.Fingerprint.validate()); err != nil {
		return err
	}
	for i := range m.Parts {
		if err := m.Parts[i].validate(); err != nil {
			return err
		}
	}
	total := m.Size()
	if problem := limits.Size(total); problem != "" {
		return refused("parts", problem, total)
	}
	return nil
}

func (o *LeftOut) validate() error {
	if o == nil {
		return nil
	}
	for _, f := range o.Files {
		if f.Message < 0 || f.Part < 0 {
			return Invalid("left_out.files", "message %d, part %d: must not be negative", f.Message, f.Part)
		}
	}
	return cmp.Or(CheckText("left_out.model", o.Model), CheckText("left_out.reason", o.Reason))
}

func (s *Summary) validate() error {
	if s == nil {
		return nil
	}
	for _, id := range s.Background {
		if err := CheckText("summary.background", id); err != nil {
			return err
		}
	}
	for _, hash := range s.Blocks {
		if err := CheckText("summary.blocks", hash); err != nil {
			return err
		}
	}
	for _, name := range s.Found {
		if err := CheckText("summary.found", name); err != nil {
			return err
		}
	}
	if s.From <= 0 {
		return Invalid("summary.from", "must be positive, not %d", s.From)
	}
	return checkWorkspaceRef("summary.workspace", s.Workspace)
}

func (p *Part) validate() error {
	err := cmp.Or(CheckText("type", string(p.Type)), CheckText("text", p.Text), CheckJSON("provider", p.Provider), CheckText("model", p.Model))
	for _, s := range p.Sources {
		err = cmp.Or(err, CheckText("sources.url", s.URL), CheckText("sources.title", s.Title), CheckText("sources.quote", s.Quote))
	}
	if err != nil {
		return err
	}
	if use := p.ToolUse; use != nil {
		if err := cmp.Or(CheckText("tool_use.call_id", use.CallID), CheckText("tool_use.tool", use.Tool), CheckJSON("tool_use.input", use.Input)); err != nil {
			return err
		}
		if err := use.Awaits.validate(); err != nil {
			return err
		}
	}
	if r := p.Result; r != nil {
		err := cmp.Or(CheckText("tool_result.call_id", r.CallID), CheckText("tool_result.tool", r.Tool),
			CheckText("tool_result.code", string(r.Code)), CheckText("tool_result.background", r.Background), CheckJSON("tool_result.output", r.Output), CheckJSON("tool_result.edited", r.Edited),
			checkWorkspaceRef("tool_result.workspace", r.Workspace))
		if end := r.Child; err == nil {
			err = cmp.Or(CheckText("tool_result.child", end.SessionID), CheckText("tool_result.child", end.Agent), CheckText("tool_result.child", string(end.Status)))
		}
		for i := range r.Data {
			err = cmp.Or(err, r.Data[i].validate("tool_result.data"))
		}
		for i := range r.Artifacts {
			err = cmp.Or(err, r.Artifacts[i].validate())
		}
		if err != nil {
			return err
		}
	}
	if p.Data != nil {
		if err := p.Data.validate("data"); err != nil {
			return err
		}
	}
	if p.File != nil {
		return p.File.validate()
	}
	return nil
}

func (d *Data) validate(at string) error {
	return cmp.Or(CheckText(at+".name", d.Name), CheckText(at+".id", d.ID), CheckJSON(at+".value", d.Value))
}

func (a *Awaits) validate() error {
	if a == nil {
		return nil
	}
	return cmp.Or(CheckText("tool_use.awaits.kind", string(a.Kind)), CheckText("tool_use.awaits.prompt", a.Prompt),
		CheckJSON("tool_use.awaits.payload", a.Payload), CheckJSON("tool_use.awaits.schema", a.Schema))
}

func (f *File) validate() error {
	if problem := limits.Size(len(f.Data)); problem != "" {
		return refused("file.data", problem, len(f.Data))
	}
	return cmp.Or(CheckText("file.name", f.Name), CheckText("file.media_type", f.MediaType), CheckText("file.url", f.URL))
}

// Validate reports why usage cannot be kept: a count that is negative or beyond 2^53-1, an amount that is not finite,
// or a name that is not valid text. The error is ErrInvalid and names the field.
func (u *Usage) Validate() error {
	for _, c := range [...]struct {
		field string
		n     int64
	}{
		{"input_tokens", u.InputTokens}, {"output_tokens", u.OutputTokens}, {"reasoning_tokens", u.ReasoningTokens},
		{"cached_tokens", u.CachedTokens}, {"cache_write_tokens", u.CacheWriteTokens}, {"cache_write_hour_tokens", u.CacheWriteHourTokens},
		{"web_searches", u.WebSearches}, {"file_searches", u.FileSearches},
		{"model_calls", u.ModelCalls}, {"discarded_calls", u.DiscardedCalls},
		{"tool_calls", u.ToolCalls}, {"tool_errors", u.ToolErrors}, {"tool_cache_hits", u.ToolCacheHits}, {"sub_agent_runs", u.SubAgentRuns}, {"wait_seconds", u.WaitSeconds},
		{"cost_nanos", u.CostNanos}, {"priced_calls", u.PricedCalls},
	} {
		if c.n < 0 || c.n > limits.Count {
			return Invalid("usage."+c.field, "%d is not between 0 and %d", c.n, int64(limits.Count))
		}
	}
	for name, n := range u.Custom {
		if err := CheckText("usage.custom", name); err != nil {
			return err
		}
		if problem := limits.Number(n); problem != "" {
			return Invalid("usage.custom", "%q %s", name, problem)
		}
	}
	return nil
}

// Validate reports why an error cannot be kept. The error is ErrInvalid or ErrTooLarge and names the field.
func (e *Error) Validate() error {
	err := cmp.Or(CheckText("error.code", string(e.Code)), CheckText("error.message", e.Message), CheckText("error.field", e.Field))
	for _, detail := range e.Details {
		err = cmp.Or(err, CheckText("error.details", detail))
	}
	return err
}

// Validate reports why the record of a run cannot be kept. The error is ErrInvalid or ErrTooLarge and names the field.
func (r *Run) Validate() error {
	err := cmp.Or(CheckText("id", r.ID), CheckText("agent", r.Agent), CheckText("agent_version", r.AgentVersion), CheckText("kind", string(r.Kind)), CheckText("status", string(r.Status)),
		CheckText("reason", string(r.Reason)), CheckText("model", r.Model), CheckText("previous_run_id", r.PreviousRunID), CheckText("text", r.Text),
		CheckText("stopped_by", r.StoppedBy),
		CheckJSON("output", r.Output), checkTime("started_at", r.StartedAt), checkTime("ended_at", r.EndedAt), r.Usage.Validate())
	if err == nil && r.Error != nil {
		err = r.Error.Validate()
	}
	if err == nil && r.Suspended != nil {
		err = r.Suspended.validate()
	}
	return err
}

func (s *Suspension) validate() error {
	err := CheckText("suspended.step_id", s.StepID)
	for i := range s.Calls {
		err = cmp.Or(err, s.Calls[i].validate())
	}
	for _, c := range s.Children {
		err = cmp.Or(err, CheckText("suspended.children", c.CallID), CheckText("suspended.children", c.SessionID),
			CheckText("suspended.children", c.Agent), CheckText("suspended.children", string(c.Kind)))
	}
	return err
}

func (c *CallRef) validate() error {
	err := cmp.Or(CheckText("call.id", c.ID), CheckText("call.root_id", c.RootID), CheckText("call.session_id", c.SessionID),
		CheckText("call.kind", string(c.Kind)), CheckText("call.tool", c.Tool), CheckText("call.approval_id", c.ApprovalID),
		CheckText("call.tool_call_id", c.ToolCallID), CheckJSON("call.input", c.Input), CheckText("call.prompt", c.Prompt),
		CheckJSON("call.payload", c.Payload), CheckText("call.quorum", string(c.Quorum)), checkTime("call.deadline", c.Deadline))
	for _, name := range c.Reviewers {
		err = cmp.Or(err, CheckText("call.reviewers", name))
	}
	return err
}

// Validate reports why the row of a pending call cannot be kept. The error is ErrInvalid or ErrTooLarge and names the
// field.
func (c *PendingCall) Validate() error {
	err := cmp.Or(c.CallRef.validate(), CheckText("call.user_id", c.UserID), CheckText("call.agent", c.Agent), CheckText("call.run_id", c.RunID),
		CheckText("call.step_id", c.StepID), CheckJSON("call.schema", c.Schema), CheckText("call.status", string(c.Status)),
		CheckText("call.claimed_by", c.ClaimedBy), checkTime("call.claimed_until", c.ClaimedUntil), c.Effect.validate())
	for _, raw := range c.Kept {
		err = cmp.Or(err, CheckJSON("call.kept", raw))
	}
	if a := c.Answer; a != nil {
		err = cmp.Or(err, CheckText("call.answer.verdict", string(a.Kind)), CheckJSON("call.answer.value", a.Value), CheckText("call.answer.text", a.Text),
			CheckText("call.answer.reviewer", a.Reviewer), checkTime("call.answer.at", a.At))
	}
	for i := range c.Trail {
		d := &c.Trail[i]
		err = cmp.Or(err, CheckText("call.trail", d.ID), CheckText("call.trail", d.Step), CheckText("call.trail", string(d.Kind)),
			CheckText("call.trail", d.Reviewer), CheckText("call.trail", d.Notes), CheckJSON("call.trail", d.Value), checkTime("call.trail", d.At))
	}
	return err
}

// Validate reports why a request to stop cannot be kept. The error is ErrInvalid or ErrTooLarge and names the field.
func (s *Stop) Validate() error {
	for _, f := range []struct{ name, text string }{{"reason", s.Reason}, {"by", s.By}} {
		if n := len(f.text); n > MaxMetadataBytes {
			return &Error{Code: ErrTooLarge, Field: f.name, Message: fmt.Sprintf("%s: too large: %d bytes (max %d)", f.name, n, MaxMetadataBytes)}
		}
	}
	return cmp.Or(CheckText("reason", s.Reason), CheckText("by", s.By), CheckText("run_id", s.RunID), CheckText("kind", string(s.Kind)), checkTime("at", s.At))
}

// Validate reports why an event cannot be kept, regardless of its size: text that is not valid UTF-8 or has a NUL,
// or JSON that is malformed or nested too deep. The error is ErrInvalid and names the field.
func (e *Event) Validate() error {
	err := cmp.Or(CheckText("event.type", string(e.Type)), CheckText("event.session_id", e.SessionID), CheckText("event.run_id", e.RunID),
		CheckText("event.agent", e.Agent), CheckText("event.text", e.Text), CheckText("event.call_id", e.CallID), CheckText("event.tool", e.Tool),
		CheckText("event.name", e.Name), CheckText("event.data_id", e.DataID), CheckText("event.code", string(e.Code)), CheckJSON("event.data", e.Data), CheckText("event.child_id", e.ChildID), checkTime("event.time", e.Time),
		checkTime("event.deadline", e.Deadline), CheckJSON("event.edited", e.Edited), CheckText("event.tool_call_id", e.ToolCallID),
		CheckText("event.prompt", e.Prompt), CheckJSON("event.payload", e.Payload), CheckText("event.message_id", e.MessageID), CheckText("event.origin", e.Origin))
	for i := range e.Files {
		f := &e.Files[i]
		err = cmp.Or(err, CheckText("event.files.name", f.Name), CheckText("event.files.media_type", f.MediaType), CheckText("event.files.url", f.URL))
	}
	for _, s := range e.Sources {
		err = cmp.Or(err, CheckText("event.sources.url", s.URL), CheckText("event.sources.title", s.Title), CheckText("event.sources.quote", s.Quote))
	}
	if err == nil && e.Error != nil {
		err = e.Error.Validate()
	}
	if err == nil && e.Usage != nil {
		err = e.Usage.Validate()
	}
	for i := range e.Patch {
		err = cmp.Or(err, CheckText("event.patch.path", e.Patch[i].Path), CheckJSON("event.patch.value", e.Patch[i].Value))
	}
	for _, c := range e.Conflicts {
		err = cmp.Or(err, CheckText("event.conflicts.path", c.Path), CheckText("event.conflicts.lost", c.Lost), CheckText("event.conflicts.won", c.Won))
	}
	return err
}

// Validate returns an error for an invalid input: no messages, a role other than user, an empty part, a part with
// fields of another type, anything that [Message.Validate] rejects, or more than MaxInputBytes.
func (in Input) Validate() error {
	if len(in.Messages) == 0 {
		return Invalid("input", "has no messages")
	}
	total := 0
	for i := range in.Messages {
		m := &in.Messages[i]
		at := "input"
		if len(in.Messages) > 1 {
			at = fmt.Sprintf("input.messages[%d]", i)
		}
		if len(m.Tools) > 0 {
			return Invalid(at+".tools", "must not be set on input messages; use Engine.SwitchTools")
		}
		if len(m.Pinned) > 0 {
			return Invalid(at+".pinned", "must not be set on input messages")
		}
		if m.Model != "" {
			return Invalid(at+".model", "may only be set on replies")
		}
		if m.Summary != nil {
			return Invalid(at+".summary", "must not be set on input messages; use Engine.Compact")
		}
		if m.LeftOut != nil {
			return Invalid(at+".left_out", "must not be set on input messages")
		}
		if m.Workspace != "" {
			return Invalid(at+".workspace", "must not be set on input messages; use Engine.RestoreWorkspace")
		}
		if m.Cut != "" {
			return Invalid(at+".cut", "may only be set on replies")
		}
		if m.Tokens != 0 {
			return Invalid(at+".tokens", "must not be set on input messages")
		}
		if m.Fingerprint != nil {
			return Invalid(at+".fingerprint", "must not be set on input messages")
		}
		if m.EndsTurn {
			return Invalid(at+".ends_turn", "must not be set on input messages")
		}
		if m.Origin != "" || m.ChildID != "" {
			return Invalid(at+".origin", "must not be set on input messages")
		}
		if m.CallID != "" {
			return Invalid(at+".call_id", "must not be set on input messages")
		}
		if m.Role != RoleUser {
			return Invalid(at+".role", "must be user on input messages, not %q", m.Role)
		}
		if m.ID != "" {
			if problem := ids.Check(m.ID); problem != "" {
				return Invalid(at+".id", "%s", problem)
			}
		}
		if len(m.Parts) == 0 {
			return Invalid(at, "message has no parts")
		}
		if n := len(m.Metadata); n > MaxMetadataBytes {
			return &Error{Code: ErrTooLarge, Field: at + ".metadata",
				Message: fmt.Sprintf("%s.metadata: too large: %d bytes (max %d)", at, n, MaxMetadataBytes)}
		}
		if err := CheckJSON(at+".metadata", m.Metadata); err != nil {
			return err
		}
		if err := cmp.Or(CheckText(at+".run_id", m.RunID), checkTime(at+".created_at", m.CreatedAt)); err != nil {
			return err
		}
		for j := range m.Parts {
			if err := m.Parts[j].validateInput(at); err != nil {
				return err
			}
		}
		total += m.Size()
	}
	if total > MaxInputBytes {
		return &Error{Code: ErrTooLarge, Field: "input",
			Message: fmt.Sprintf("input: too large: %d bytes (max %d)", total, MaxInputBytes)}
	}
	return nil
}

func (p *Part) validateInput(at string) error {
	only := Part{Type: p.Type}
	switch p.Type {
	case PartText:
		if p.Text == "" {
			return Invalid(at, "text is empty")
		}
		if err := CheckText(at, p.Text); err != nil {
			return err
		}
		only.Text = p.Text
	case PartFile:
		f := p.File
		switch {
		case f == nil:
			return Invalid(at+".file", "is required")
		case f.MediaType == "":
			return Invalid(at+".file.media_type", "is required")
		case (len(f.Data) == 0) == (f.URL == ""):
			return Invalid(at+".file", "must have either data or a url")
		}
		err := cmp.Or(CheckText(at+".file.media_type", f.MediaType), CheckText(at+".file.name", f.Name), CheckText(at+".file.url", f.URL))
		if err != nil {
			return err
		}
		only.File = f
	case PartData:
		d := p.Data
		switch {
		case d == nil:
			return Invalid(at+".data", "is required")
		case d.Name == "":
			return Invalid(at+".data.name", "is required")
		case len(d.Value) == 0:
			return Invalid(at+".data.value", "is required")
		}
		if err := d.validate(at + ".data"); err != nil {
			return err
		}
		only.Data = d
	default:
		return Invalid(at, "part type %q is not allowed in input", p.Type)
	}
	if p.Text != only.Text || p.File != only.File || p.Data != only.Data || p.Provider != nil || p.Model != "" || p.Sources != nil || p.ToolUse != nil || p.Result != nil {
		return Invalid(at, "a %q part must not set other fields", p.Type)
	}
	return nil
}

// validate reports why a row's part of the ledger cannot be kept.
func (e *Effect) validate() error {
	if e == nil {
		return nil
	}
	return cmp.Or(CheckText("call.effect.state", string(e.State)), CheckText("call.effect.idempotency_key", e.Key), checkTime("call.effect.sent_at", e.SentAt))
}

// MaxWorkspaceRef is the maximum size of a reference to a state of a workspace, in bytes.
const MaxWorkspaceRef = 256

// checkWorkspaceRef returns an error for a reference that a transcript cannot keep. It may be empty.
func checkWorkspaceRef(field, ref string) error {
	if len(ref) > MaxWorkspaceRef {
		return Invalid(field, "is too large: %d bytes (max %d)", len(ref), MaxWorkspaceRef)
	}
	return CheckText(field, ref)
}
