package effects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/delegate"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/transcript"

	"github.com/cairn-agents/cairn/store/driver"
)

// companionArgs are the arguments of any of the companion tools.
type companionArgs struct {
	Agent, Name, Message string
}

// companionStatus is what the model is shown of a companion.
type companionStatus struct {
	Name    string `json:"name"`
	Session string `json:"session,omitempty"` // of a companion that was left working
	Agent   string `json:"agent,omitempty"`
	Status  string `json:"status"`
	Turn    int    `json:"turn,omitempty"`
	// Answer is the output of the last run, if it completed. Error is why it failed.
	Answer json.RawMessage `json:"answer,omitempty"`
	Error  string          `json:"error,omitempty"`
	// Waits is the number of its pending calls.
	Waits int `json:"waits_for,omitempty"`
}

// talk runs one of the companion tools and returns the call's result. It returns nil while a companion that the call
// waits for is to be driven or is suspended, or if the run was stopped.
func (v *visit) talk() (*cairn.ToolResult, error) {
	use := v.c.Use
	var args companionArgs
	if err := json.Unmarshal(use.Input, &args); err != nil {
		return failure(use, cairn.Errorf(cairn.ErrArguments, "decode arguments: %w", err)), nil
	}
	var row *cairn.Session
	var err error
	switch use.Tool {
	case cairn.CompanionList:
		return v.list()
	case cairn.CompanionSpawn:
		return v.spawn(args)
	}
	if row, err = v.fx.companion(v.ctx, v.l.Row, args.Name); err != nil {
		return nil, err
	}
	if row == nil {
		return transcript.Failed(use, cairn.ErrNotFound, fmt.Sprintf("companion %q not found", args.Name)), nil
	}
	v.child, v.agent = row.ID, row.Agent
	switch use.Tool {
	case cairn.CompanionSend:
		return v.send(row, args.Message)
	case cairn.CompanionTerminate:
		return v.terminate(row)
	case cairn.CompanionWait:
		return v.advance(nil)
	}
	status, err := v.status(row)
	return v.result(status, err)
}

// result returns a value as the call's result.
func (v *visit) result(value any, err error) (*cairn.ToolResult, error) {
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrInternal, "companion: %w", err)
	}
	return &cairn.ToolResult{CallID: v.c.Use.CallID, Tool: v.c.Use.Tool, Output: raw}, nil
}

// companion returns a companion's session by name: the one that has not failed, of which there is at most one, or else
// the latest; nil if there is none.
func (fx *Effects) companion(ctx context.Context, parent *cairn.Session, name string) (found *cairn.Session, err error) {
	err = fx.eachCompanion(ctx, parent, func(row *cairn.Session) bool {
		if row.Name == name && (found == nil || row.Status != cairn.SessionFailed) {
			found = row
		}
		return found == nil || found.Status == cairn.SessionFailed
	})
	return found, err
}

// eachCompanion calls fn for the companions of a session, newest first, until fn returns false.
func (fx *Effects) eachCompanion(ctx context.Context, parent *cairn.Session, fn func(*cairn.Session) bool) error {
	for row, err := range driver.All(func(cursor string) (driver.Page[cairn.Session], error) {
		return fx.Store.List(ctx, driver.SessionQuery{ParentID: parent.ID, Cursor: cursor})
	}) {
		if err != nil {
			return err
		}
		if row.Kind == cairn.ChildCompanion && !fn(row) {
			return nil
		}
	}
	return nil
}

// status returns the status of a companion.
func (v *visit) status(row *cairn.Session) (companionStatus, error) {
	s := companionStatus{Name: row.Name, Agent: row.Agent, Status: string(row.Status), Turn: row.Turn, Waits: row.OpenCalls}
	if row.Status == cairn.SessionActive {
		s.Status = "running"
	}
	run, err := driver.FindRun(v.ctx, v.fx.Store, row.ID, row.RunID)
	if err != nil {
		return s, err
	}
	switch run.Status {
	case cairn.RunCompleted:
		s.Answer = delegate.Result(v.c.Use, row.Agent, run).Output
	case cairn.RunFailed:
		s.Error = run.Error.Public().Message // the model and users see the result
	}
	return s, nil
}

func (v *visit) list() (*cairn.ToolResult, error) {
	var rows []*cairn.Session // the latest of each name, replaced by one that has not failed
	at := map[string]int{}
	err := v.fx.eachCompanion(v.ctx, v.l.Row, func(row *cairn.Session) bool {
		switch i, seen := at[row.Name]; {
		case !seen:
			at[row.Name] = len(rows)
			rows = append(rows, row)
		case row.Status != cairn.SessionFailed:
			rows[i] = row
		}
		return true
	})
	list := []companionStatus{}
	for _, row := range rows {
		s, failed := v.status(row)
		list, err = append(list, s), errors.Join(err, failed)
	}
	return v.result(list, err)
}

// company summarizes the companions of a session for spawn.
type company struct {
	count, alive map[string]int            // by agent: how many there were, and how many have not failed
	named        map[string]*cairn.Session // those that have not failed, by name
}

func (c *company) add(row *cairn.Session) {
	c.count[row.Agent]++
	if row.Status != cairn.SessionFailed {
		c.alive[row.Agent]++
		c.named[row.Name] = row
	}
}

// name returns the name that the model asks for, or else a free one.
func (c *company) name(args companionArgs) string {
	if name := strings.TrimSpace(args.Name); name != "" {
		return name
	}
	for n := c.count[args.Agent] + 1; ; n++ {
		if name := fmt.Sprintf("%s-%d", args.Agent, n); c.named[name] == nil {
			return name
		}
	}
}

// company returns the companions that exist for the call. Calls of one reply run concurrently: each call counts those
// before it as begun, and none of those after it. The session that an earlier attempt at the call began is returned
// separately.
func (v *visit) company() (all company, begun *cairn.Session, err error) {
	all = company{map[string]int{}, map[string]int{}, map[string]*cairn.Session{}}
	siblings := map[string]bool{}
	for _, c := range v.l.Step.Calls {
		siblings[childID(v.l.Row, c.Use.CallID)] = true
	}
	mine := childID(v.l.Row, v.c.Use.CallID)
	err = v.fx.eachCompanion(v.ctx, v.l.Row, func(row *cairn.Session) bool {
		switch {
		case row.ID == mine:
			begun = row
		case !siblings[row.ID]:
			all.add(row)
		}
		return true
	})
	for _, c := range v.l.Step.Calls {
		if c == v.c {
			break
		}
		var args companionArgs
		if c.Use.Tool != cairn.CompanionSpawn || c.Tool == nil || c.Tool.Check(c.Use.Input) != nil || json.Unmarshal(c.Use.Input, &args) != nil {
			continue
		}
		name := all.name(args)
		if kind, ok := define.Companion(v.a, args.Agent); ok && all.named[name] == nil && all.alive[args.Agent] < define.MaxCompanions(kind) {
			all.add(&cairn.Session{Name: name, Agent: args.Agent})
		}
	}
	return all, begun, err
}

// spawn begins a companion, or resumes the one with that name unless it failed.
func (v *visit) spawn(args companionArgs) (*cairn.ToolResult, error) {
	kind, ok := define.Companion(v.a, args.Agent)
	if !ok { // the schema admits existing ones only
		return transcript.Failed(v.c.Use, cairn.ErrNotFound, fmt.Sprintf("unknown companion agent %q", args.Agent)), nil
	}
	all, begun, err := v.company()
	if err != nil {
		return nil, err
	}
	name := all.name(args)
	there := cmp.Or(begun, all.named[name])
	switch {
	case there == nil:
	case there.Agent != args.Agent:
		return transcript.Failed(v.c.Use, cairn.ErrExists, fmt.Sprintf("companion %q is a %s, not a %s", name, there.Agent, args.Agent)), nil
	case there.ID == "":
		return transcript.Failed(v.c.Use, cairn.ErrExists, fmt.Sprintf("another call is starting companion %q; send it a message", name)), nil
	default:
		v.child = there.ID
		if there == begun || v.l.Step.Carried {
			return v.converse(kind, there.Name, nil)
		}
		return v.send(there, args.Message)
	}
	if problem := ids.Check(name); problem != "" {
		return transcript.Failed(v.c.Use, cairn.ErrArguments, "name: "+problem), nil
	}
	if n := all.alive[args.Agent]; n >= define.MaxCompanions(kind) {
		return transcript.Failed(v.c.Use, cairn.ErrTooLarge, fmt.Sprintf("already %d companions of agent %s, which is the maximum; terminate one first", n, args.Agent)), nil
	}
	v.child = childID(v.l.Row, v.c.Use.CallID)
	return v.converse(kind, name, func() (turn.Begun, error) {
		return v.create(kind.Agent, cairn.ChildCompanion, name, v.runID(), cairn.Text(args.Message), kind.Mode == cairn.NonBlocking)
	})
}

// runID returns the id of the run that the call begins, which is the same for each attempt. It includes the companion,
// because a repeated step may give another companion's call the same id.
func (v *visit) runID() string { return ids.Derive("run", v.l.Row.Secret, v.child, v.c.Use.CallID) }

// send gives a companion a message, and interrupts what it is doing.
func (v *visit) send(row *cairn.Session, message string) (*cairn.ToolResult, error) {
	kind, ok := define.Companion(v.a, row.Agent)
	if !ok {
		return transcript.Failed(v.c.Use, cairn.ErrNotFound, fmt.Sprintf("agent %q is no longer available as a companion", row.Agent)), nil
	}
	if row.Status == cairn.SessionFailed {
		return transcript.Failed(v.c.Use, cairn.ErrNotResumable, fmt.Sprintf("companion %q has failed or was terminated; spawn it again", row.Name)), nil
	}
	_, err := driver.FindRun(v.ctx, v.fx.Store, row.ID, v.runID())
	switch {
	case err == nil: // an earlier attempt at this call began it
		return v.converse(kind, row.Name, nil)
	case !errors.Is(err, cairn.ErrNotFound):
		return nil, err
	}
	if veto, err := v.begin(row.Agent); veto != nil || err != nil {
		return veto, err
	}
	if stopped, err := v.halt(row, cairn.StopInterrupt, "interrupted by another message"); !stopped || err != nil {
		return nil, err
	}
	return v.converse(kind, row.Name, func() (turn.Begun, error) {
		return v.fx.Execute(v.ctx, lifecycle.Turn{NewRun: lifecycle.NewRun{SessionID: row.ID, Child: true, Known: kind.Agent, RunID: v.runID(),
			Messages: cairn.Text(message).Messages, Hooks: v.l.CallHooks(), LogLast: v.l.Emit.Position(), Background: kind.Mode == cairn.NonBlocking}})
	})
}

// finished reports whether a run that was driven for a message to a companion is one that the message interrupted, see
// [visit.halt], and not the message's own.
func (v *visit) finished(driven string) bool {
	tool := v.c.Use.Tool
	return v.c.Tool.Companion && tool != cairn.CompanionWait && driven != v.runID()
}

// converse begins a companion's run, and waits for its answer or leaves it to run in the background.
func (v *visit) converse(kind *cairn.Companion, name string, begin func() (turn.Begun, error)) (*cairn.ToolResult, error) {
	if veto, err := v.begin(kind.Agent.Name); veto != nil || err != nil {
		return veto, err
	}
	background, err := v.background(kind, begin == nil)
	if err != nil {
		return nil, err
	}
	if !background {
		return v.advance(begin)
	}
	if begin != nil {
		b, err := begin()
		switch {
		case errors.Is(err, cairn.ErrExists): // an earlier attempt began it, and its lease holder drives it
		case session.IsStopped(err):
			return nil, nil
		case err != nil && (context.Cause(v.ctx) != nil || turn.Lost(err)):
			return nil, err
		case err != nil:
			return failure(v.c.Use, err), nil
		default:
			v.launch = &b
		}
	}
	_, session := ids.Split(v.child) // the model and users know no tenant
	result, err := v.result(companionStatus{Name: name, Session: session, Agent: kind.Agent.Name, Status: "running"}, nil)
	if err == nil {
		result.Background = v.child
	}
	return result, err
}

// background reports whether the call leaves the companion to run in the background. If an earlier attempt at the call,
// or the suspended run, began the companion's run, that decides: the companion may have changed its mode since.
func (v *visit) background(kind *cairn.Companion, begun bool) (bool, error) {
	if v.l.Step.Carried { // the call has waited
		return false, nil
	}
	if begun {
		row, err := driver.Load(v.ctx, v.fx.Store, v.child)
		if err == nil {
			var awaited bool
			awaited, err = v.fx.Awaited(v.ctx, row)
			return !awaited, err
		}
		if !errors.Is(err, cairn.ErrNotFound) {
			return false, err
		}
	}
	return kind.Mode == cairn.NonBlocking, nil
}

// longestHalt is the longest pause between two looks at a companion that is to stop.
const longestHalt = 250 * time.Millisecond

// halt stops a companion, and reports whether it has stopped. If its process has died and its last step has facts that
// last, it has not: it is asked to stop, and its run must first be driven, so that it keeps what its tools did.
func (v *visit) halt(row *cairn.Session, kind cairn.StopKind, why string) (stopped bool, err error) {
	wait := 2 * time.Millisecond
	for {
		stop := cairn.Stop{RunID: row.RunID, Kind: kind, Reason: why, At: row.AsOf}
		switch {
		case row.Status == cairn.SessionPaused && kind == cairn.StopAbort:
			if err = v.fx.CancelWait(v.ctx, row.ID, stop); errors.As(err, new(*lifecycle.EndingError)) {
				err = retry.Sleep(v.ctx, wait)
				wait = min(2*wait, longestHalt)
			}
		case row.Status != cairn.SessionActive:
			return true, nil
		case row.Crashed(row.AsOf):
			var b turn.Begun
			if b, err = v.fx.StopDead(v.ctx, row, stop, v.l.CallHooks()); b.RunID != "" {
				v.drive = &b
				return false, (&localChild{visit: v}).Drive(v.ctx, b)
			}
		default:
			if err = v.fx.Store.RequestStop(v.ctx, row.ID, stop); err == nil {
				v.fx.RequestStop(row.ID, stop)
				if err = v.fx.PassBelow(v.ctx, row, stop); err == nil {
					err = retry.Sleep(v.ctx, wait)
				}
				wait = min(2*wait, longestHalt)
			}
		}
		if err != nil && !errors.Is(err, cairn.ErrNotRunning) && !errors.Is(err, cairn.ErrStale) && !errors.Is(err, cairn.ErrAlreadyRunning) {
			return false, err
		}
		if row, err = driver.Load(v.ctx, v.fx.Store, row.ID); err != nil {
			return false, err
		}
	}
}

// terminate stops a companion for good. It counts as failed, and spawning its name again begins a new one.
func (v *visit) terminate(row *cairn.Session) (*cairn.ToolResult, error) {
	if stopped, err := v.halt(row, cairn.StopAbort, "terminated by its parent"); !stopped || err != nil {
		return nil, err
	}
	row, err := driver.Update(v.ctx, v.fx.Store, row.ID, func(row *cairn.Session) (*driver.Commit, error) {
		if row.Status == cairn.SessionFailed {
			return nil, nil
		}
		return &driver.Commit{Guard: driver.Guard{Idle: true}, Status: cairn.SessionFailed}, nil
	})
	if err != nil {
		return nil, err
	}
	v.fx.Evict(row.ID)
	return v.result(companionStatus{Name: row.Name, Agent: row.Agent, Status: "terminated", Turn: row.Turn}, nil)
}

// companionAnswers returns the outcomes of companions in the background as context for the model.
func (fx *Effects) companionAnswers(ctx context.Context, a *cairn.Agent, l *session.Live) ([]cairn.Message, error) {
	if len(a.Companions) == 0 {
		return nil, nil
	}
	var answers []cairn.Message
	for _, session := range slices.Sorted(maps.Keys(l.Index().Away())) {
		row, err := driver.Load(ctx, fx.Store, session)
		if errors.Is(err, cairn.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if row.Status == cairn.SessionActive || row.Status == cairn.SessionPaused {
			continue
		}
		run, err := driver.FindRun(ctx, fx.Store, session, row.RunID)
		if err != nil {
			return nil, err
		}
		m := cairn.Context(delegate.Report(row.Name, run))
		m.Origin, m.ChildID = cairn.OriginCompanion, session
		answers = append(answers, m)
	}
	return answers, nil
}
