package user

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/driver"
)

// Session is what handles need to know of the session that user code is called for.
type Session interface {
	// Info describes the session and its run to code that is called in a step.
	Info(step int) cairn.Step
	// View returns the session's state with uncommitted writes applied on top.
	View(on ...*step.Writes) (json.RawMessage, error)
	// HasTool reports whether the session's agent has or is given a tool.
	HasTool(name string) bool
	// Hooks returns the hooks of the session's run, in calling order.
	Hooks() Hooks
	// Sent returns the messages of the session that the step's request to the model contains.
	Sent() []cairn.Message
	// SwitchedOff returns the names of the tools that are off.
	SwitchedOff() []string
	// Tainted reports whether the session is tainted.
	Tainted() bool
	// Workspace returns the reference of the session's workspace; "" for none.
	Workspace() string
}

// Scope collects what one tool call, or the hooks of one phase, write through their handle until the step is committed.
// It implements define.Env.
type Scope struct {
	by      *Caller
	session Session
	emit    *journal.Emitter
	number  int
	// The writes that precede the scope's own, on top of the session's state.
	below []*step.Writes
	// frozen is why writes are refused; empty while they are allowed.
	frozen string
	info   *cairn.Step // set by Hold; nil without it

	mu sync.Mutex
	w  step.Writes
	// The state with w's operations applied; nil if it must be computed.
	view    json.RawMessage
	emitted int     // number of events
	asking  *asking // of a tool's function; nil for code that cannot ask
	ended   bool
}

// Init sets up the scope for a step of a session, with the emitter for its events. below are the writes that precede
// its own.
func (s *Scope) Init(by *Caller, session Session, emit *journal.Emitter, number int, below []*step.Writes) {
	s.by, s.session, s.emit, s.number, s.below = by, session, emit, number, below
}

// Hold makes code that is called from now on see the session and run as they are now. It is for hooks that other user
// code calls: once abandoned, that code may call them when the session has another run.
func (s *Scope) Hold() *Scope {
	s.info = new(s.session.Info(s.number))
	return s
}

// about describes the session and its run to code that is called.
func (s *Scope) about() cairn.Step {
	if s.info == nil {
		return s.session.Info(s.number)
	}
	info := *s.info
	info.Tags, info.Metadata = slices.Clone(info.Tags), info.Metadata.Clone()
	return info
}

// Freeze makes the scope refuse writes, with a reason. It is for functions that only read.
func (s *Scope) Freeze(why string) *Scope {
	s.frozen = why
	return s
}

// errEnded is the handle's error for a function that keeps running after it was abandoned or its call returned.
var errEnded = cairn.Errorf(cairn.ErrNotExecuted, "the call has ended; its handle can no longer be used")

// State implements define.Env.
func (s *Scope) State() (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, errEnded
	}
	if s.view != nil {
		return s.view, nil
	}
	raw, err := s.session.View(s.below...)
	if err == nil && len(s.w.Ops) > 0 {
		if raw, err = ops.Fold(raw, s.w.Ops); err != nil {
			err = cairn.Errorf(cairn.ErrState, "state: %w", err)
		}
	}
	if err != nil {
		return nil, err
	}
	s.view = raw
	return raw, nil
}

// Update implements define.Env.
func (s *Scope) Update(op cairn.Op) error { return s.update(op) }

// Change implements define.Env.
func (s *Scope) Change(before, after json.RawMessage) error {
	list, err := ops.Diff(before, after)
	if err != nil {
		return cairn.Errorf(cairn.ErrState, "state: %w", err)
	}
	if len(list) == 0 {
		return nil
	}
	return s.update(list...)
}

// writable returns why nothing can be written now, with a code and with what is refused. The caller holds the lock.
func (s *Scope) writable(code cairn.Code, refused string) error {
	switch {
	case s.frozen != "":
		return cairn.Errorf(code, "%s %s", refused, s.frozen)
	case s.ended:
		return errEnded
	}
	return nil
}

// update records operations. If one cannot be applied to any state, it returns an ErrState error and records none.
func (s *Scope) update(list ...cairn.Op) error {
	for i := range list {
		clean(&list[i])
		if err := ops.Validate(&list[i]); err != nil {
			return cairn.Errorf(cairn.ErrState, "state: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(cairn.ErrState, "state cannot be written"); err != nil {
		return err
	}
	s.w.Ops = append(s.w.Ops, list...)
	s.view = nil
	return nil
}

// clean replaces characters of an operation that a session cannot keep.
func clean(op *cairn.Op) {
	op.Path = limits.Clean(op.Path)
	if op.Value != nil {
		op.Value, _ = limits.CleanJSON(op.Value)
	}
	if len(op.Items) > 0 {
		op.Items = slices.Clone(op.Items)
	}
	for i := range op.Items {
		op.Items[i], _ = limits.CleanJSON(op.Items[i])
	}
}

// Emit implements define.Env.
func (s *Scope) Emit(name, id string, data json.RawMessage) error {
	return s.publish(cairn.Event{Type: cairn.EventCustom, Step: s.number, Name: name, DataID: id, Data: data},
		func() { s.w.Emit(cairn.Data{Name: name, ID: id, Value: data}) })
}

// Publish implements define.Env.
func (s *Scope) Publish(typ, name, text, callID string) error {
	ev := cairn.Event{Type: cairn.EventType(typ), Step: s.number, Name: name, Text: text, CallID: callID}
	journal.Shorten(&ev)
	return s.publish(ev, func() {})
}

// Sent implements define.Env.
func (s *Scope) Sent() []cairn.Message { return s.session.Sent() }

// SwitchedOff implements define.Env.
func (s *Scope) SwitchedOff() []string { return s.session.SwitchedOff() }

// publish publishes an event and records it with keep.
func (s *Scope) publish(ev cairn.Event, keep func()) error {
	if err := s.emit.Check(ev); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return errEnded
	}
	keep()
	if s.asking.replays() { // the pass that asked has published it
		return nil
	}
	s.emit.Event(ev)
	s.emitted++
	return nil
}

// Tainted implements define.Env.
func (s *Scope) Tainted() bool { return s.session.Tainted() }

// Workspace implements define.Env.
func (s *Scope) Workspace() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w.Workspace != "" {
		return s.w.Workspace
	}
	for _, w := range slices.Backward(s.below) {
		if w.Workspace != "" {
			return w.Workspace
		}
	}
	return s.session.Workspace()
}

// SetWorkspace implements define.Env.
func (s *Scope) SetWorkspace(ref string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(cairn.ErrInvalid, "the workspace cannot be set"); err != nil {
		return err
	}
	s.w.Workspace = ref
	return nil
}

// StoreBlob implements define.Env.
func (s *Scope) StoreBlob(ctx context.Context, part []byte) (string, error) {
	info := s.about()
	return s.by.StoreBlob(ctx, driver.BlobOwner{Root: info.RootID, Incarnation: info.Incarnation}, part)
}

// Publishes implements define.Env.
func (s *Scope) Publishes(name, mediaType string, size int64, blobs []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(cairn.ErrInvalid, "artifacts cannot be published"); err != nil {
		return err
	}
	if len(s.w.Artifacts) == cairn.MaxArtifacts {
		return &cairn.Error{Code: cairn.ErrTooLarge, Field: "artifacts", Message: fmt.Sprintf("artifacts: too many of one call (max %d)", cairn.MaxArtifacts)}
	}
	s.w.Artifacts = append(slices.Clip(s.w.Artifacts), cairn.Artifact{Name: name, MediaType: mediaType, Size: size, Blobs: blobs})
	return nil
}

// AddContext implements define.Env.
func (s *Scope) AddContext(m cairn.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.w.Context = append(s.w.Context, m)
	}
}

// RecordUsage implements define.Env.
func (s *Scope) RecordUsage(name string, amount float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	problem := ids.Check(name)
	if problem == "" {
		problem = Unaccountable(amount, s.w.Usage[name]+amount)
	}
	if problem != "" {
		s.by.Logger.Warn("usage not recorded: the name "+problem, "session", s.about().SessionID, "amount", amount)
		return
	}
	if s.w.Usage == nil {
		s.w.Usage = map[string]float64{}
	}
	s.w.Usage[name] += amount
}

// Unaccountable returns what is wrong with amounts and their sums; "" if they are finite.
func Unaccountable(amounts ...float64) string {
	for _, n := range amounts {
		if limits.Number(n) != "" {
			return "has an amount or a sum that is not a finite number"
		}
	}
	return ""
}

// Describe implements define.Env.
func (s *Scope) Describe(title *string, tags []string, metadata map[string]any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(cairn.ErrState, "title, tags and metadata cannot be set"); err != nil {
		return err
	}
	about := s.w.About.Then(&driver.ContextChange{Title: title, AddTags: tags, Metadata: metadata})
	info := s.about()
	after := cairn.Session{UserID: info.UserID, Title: info.Title, Tags: info.Tags, Metadata: info.Metadata, TraceParent: info.TraceParent}
	about.Apply(&after)
	if err := after.ValidateContext(); err != nil {
		return err
	}
	s.w.About = about
	return nil
}

// SwitchTools implements define.Env. It returns ErrInvalid for a name that is not one of the agent's tools.
func (s *Scope) SwitchTools(tools map[string]bool) error {
	m, err := define.ToolSwitch(tools)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		if !s.session.HasTool(name) {
			return cairn.Invalid("tools", "agent %q has no tool %q", s.about().Agent, name)
		}
	}
	s.AddContext(m)
	return nil
}

// Exec implements define.Env. It returns ErrInvalid if the store does not execute statements of the dialect, and
// ErrTooLarge if the call has recorded driver.MaxStatements already.
func (s *Scope) Exec(dialect, tool, sql string, args []any) error {
	if err := s.by.Executes(dialect); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(cairn.ErrInvalid, "statements cannot be recorded"); err != nil {
		return err
	}
	switch {
	case len(s.w.Statements) == driver.MaxStatements:
		return &cairn.Error{Code: cairn.ErrTooLarge, Field: "sql", Message: fmt.Sprintf("sql: too many statements in one call (max %d)", driver.MaxStatements)}
	}
	s.w.Statements = append(s.w.Statements, driver.Statement{Dialect: dialect, Tool: tool, SQL: sql, Args: args})
	return nil
}

// Checkpoint implements define.Env.
func (s *Scope) Checkpoint() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w.Checkpoint = true
}

// End closes the scope and returns what was written. Later writes of abandoned user code have no effect.
func (s *Scope) End() step.Writes {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return s.w
}

// Writes returns what was written so far.
func (s *Scope) Writes() step.Writes {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.w
	w.Usage, w.Emitted = maps.Clone(w.Usage), slices.Clone(w.Emitted)
	return w
}

// Resume makes the scope start with earlier writes.
func (s *Scope) Resume(w step.Writes) *Scope {
	s.w = step.Writes{Ops: slices.Clip(w.Ops), Context: slices.Clip(w.Context), Usage: maps.Clone(w.Usage),
		Statements: slices.Clip(w.Statements), Checkpoint: w.Checkpoint, About: w.About, Emitted: slices.Clone(w.Emitted),
		Workspace: w.Workspace, Artifacts: slices.Clip(w.Artifacts)}
	return s
}

// Retry undoes what was written since w to the state, for the model, for the store's database and about the session and
// its workspace, and artifacts, before another attempt at the scope's function. Usage and what was emitted stay.
func (s *Scope) Retry(w step.Writes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w.Ops, s.w.Context, s.w.Checkpoint = slices.Clip(w.Ops), slices.Clip(w.Context), w.Checkpoint
	s.w.Statements, s.w.About = slices.Clip(w.Statements), w.About
	s.w.Workspace, s.w.Artifacts = w.Workspace, slices.Clip(w.Artifacts)
	s.view = nil
}

// Effects counts what the scope's function did that a cached result would not repeat.
func (s *Scope) Effects() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.w.Ops) + len(s.w.Context) + len(s.w.Statements) + len(s.w.Artifacts) + s.emitted
	if s.w.About != nil {
		n++
	}
	if s.w.Workspace != "" {
		n++
	}
	return n
}
