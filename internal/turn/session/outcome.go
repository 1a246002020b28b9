package session

import (
	"bytes"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store/driver"
)

// Outcome is what a step results in: the messages it adds, the state it changes, and whether the run ends with it.
type Outcome struct {
	Logger     *slog.Logger
	At         time.Time // when it was worked out, by the session's clock
	Stop       *cairn.Stop
	Final      *step.Call // the call that ends the turn, if any
	Reply      *cairn.Message
	Results    *cairn.Message // of the calls
	Messages   []cairn.Message
	Ops        []cairn.Op
	Patch      []cairn.PatchOp
	Conflicts  []cairn.StateConflict // between calls that ran at the same time
	Usage      step.Bill
	Statements []driver.Statement
	About      *driver.ContextChange // of the session's title, tags and metadata; nil for none
	Checkpoint bool                  // a checkpoint was asked for
	Warnings   []cairn.Event         // of a budget
	Counts     bool                  // the step has something to keep
	Waits      bool                  // calls are pending
	End        *cairn.Run
	Opened     []cairn.PendingCall // by the commit

	folded      []*step.Call // calls whose operations were applied, in order
	resultBytes int          // of the calls' results
}

// Say adds a message to the outcome.
func (out *Outcome) Say(m cairn.Message) {
	out.Counts = true
	out.Messages = append(out.Messages, m)
}

// AddWrites adds the context messages that user code wrote for the model.
func (out *Outcome) AddWrites(w *step.Writes) {
	if w == nil {
		return
	}
	for _, m := range w.Context {
		out.Say(m)
	}
}

// Fold applies writes to the state. Operations that do not fit those of the step's other calls, and tags and metadata
// that are too large together with theirs, are an error of the call, and none of its writes are kept.
func (l *Live) Fold(out *Outcome, w *step.Writes) error {
	l.account(out, w)
	// A step with statements is never deferred.
	out.Checkpoint = out.Checkpoint || w.Checkpoint || len(w.Statements) > 0
	about := out.About.Then(w.About)
	if w.About != nil {
		if err := l.CheckAbout(l.deferred.About.Then(about)); err != nil {
			out.Logger.Warn("title, tags and metadata not set", "session", l.Row.ID, "error", err)
			return err
		}
	}
	if len(w.Ops) == 0 {
		out.About = about
		out.Statements = append(out.Statements, w.Statements...)
		return nil
	}
	var patch []cairn.PatchOp
	err := l.room(out, w.Ops)
	if err == nil {
		l.mu.Lock()
		patch, err = l.doc.Apply(w.Ops)
		l.mu.Unlock()
	}
	if err != nil {
		out.Logger.Warn("state writes dropped", "session", l.Row.ID, "error", err)
		return cairn.Errorf(cairn.ErrState, "the state could not be written: %w", err)
	}
	out.About = about
	out.Ops = append(out.Ops, w.Ops...)
	out.Patch = append(out.Patch, patch...)
	out.Statements = append(out.Statements, w.Statements...)
	return nil
}

// CheckAbout returns an error if the session's row would not be valid after a change of its title, tags and metadata.
func (l *Live) CheckAbout(about *driver.ContextChange) error {
	after := *l.Row
	about.Apply(&after)
	return after.ValidateContext()
}

// FoldCall is [Live.Fold] for what a call wrote. It adds a conflict to the outcome for each value that an earlier call
// of the same round wrote and that the call, which did not see it, replaces by another or deletes.
func (l *Live) FoldCall(out *Outcome, c *step.Call, w *step.Writes) error {
	if len(w.Ops) == 0 {
		return l.Fold(out, w)
	}
	at := contested(out.folded, c, w.Ops)
	before := l.values(at)
	if err := l.Fold(out, w); err != nil {
		return err
	}
	out.folded = append(out.folded, c)
	after := l.values(at)
	for _, path := range slices.Sorted(maps.Keys(at)) {
		if !ops.Equal(before[path], after[path]) {
			out.conflict(cairn.StateConflict{Path: path, Lost: at[path].Use.CallID, Won: c.Use.CallID})
		}
	}
	return nil
}

// conflict adds a conflict. Earlier ones at the path are lost to the same call.
func (out *Outcome) conflict(c cairn.StateConflict) {
	for i := range out.Conflicts {
		if other := &out.Conflicts[i]; other.Path == c.Path && other.Won == c.Lost {
			other.Won = c.Won
		}
	}
	out.Conflicts = append(out.Conflicts, c)
}

// values returns the values of the state at paths; nil where there is none.
func (l *Live) values(at map[string]*step.Call) map[string][]byte {
	if len(at) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	values := make(map[string][]byte, len(at))
	for path := range at {
		values[path] = bytes.Clone(l.doc.Value(path))
	}
	return values
}

// Summarises reports whether the messages have a summary. A step with one is not deferred, because the index of the
// messages it keeps must not move.
func (out *Outcome) Summarises() bool {
	return slices.ContainsFunc(out.Messages, func(m cairn.Message) bool { return m.Summary != nil })
}

// Unsummarised returns the messages with summaries that stand for nothing from index on: there are messages that their
// author did not know.
func Unsummarised(messages []cairn.Message, index int) []cairn.Message {
	list := slices.Clone(messages)
	for i := range list {
		if s := list[i].Summary; s != nil && s.From > index {
			own := *s
			own.From = index
			list[i].Summary = &own
		}
	}
	return list
}

// Answers reports whether the step is an answer without tool calls.
func (out *Outcome) Answers(st *step.Step) bool { return len(st.Calls) == 0 && !st.Carried }

// Count adds a call that has its result to the step's usage and to the cache of tool results.
func (out *Outcome) Count(l *Live, a *cairn.Agent, st *step.Step, c *step.Call) {
	e := step.CallEntry(c.Use.Tool, c.Result.Result)
	e.Usage.ToolCacheHits, e.Duration = l.Remember(a, c, out.At), cairn.Duration(c.Result.Took)
	if st.RanChild(c) {
		e = step.RanAgent(e, c.AgentConsulted())
	}
	out.Usage.Enter(e)
	for _, p := range c.Rows() {
		if a := p.Answer; a != nil && a.Kind != cairn.DecisionTimeout {
			waited := int64(max(0, a.At.Sub(p.CreatedAt)).Round(time.Second) / time.Second)
			out.Usage.Enter(cairn.UsageEntry{Kind: cairn.UsageWait, Name: c.Use.Tool, Usage: cairn.Usage{WaitSeconds: waited}})
		}
	}
}

// account adds the usage that a scope recorded. It drops an amount that would make a total of the session infinite or
// NaN.
func (l *Live) account(out *Outcome, w *step.Writes) {
	for name, n := range w.Usage {
		uncommitted := l.deferred.Usage.Custom[name] + out.Usage.Custom[name] + n
		problem := user.Unaccountable(n, out.Usage.Custom[name]+n, uncommitted, l.Row.Usage.Custom[name]+uncommitted, l.Row.RunUsage.Custom[name]+uncommitted)
		if problem != "" {
			out.Logger.Warn("usage not recorded: the name "+problem, "session", l.Row.ID, "name", name, "amount", n)
			continue
		}
		out.Usage.Enter(cairn.UsageEntry{Kind: cairn.UsageCustom, Name: name, Usage: cairn.Usage{Custom: map[string]float64{name: n}}})
	}
}

// Bound drops the model's counts from a step's usage if a total of the session would be too large with them.
func (l *Live) Bound(out *Outcome) {
	sum := l.deferred.Usage.Add(out.Usage).Usage
	for _, total := range [...]cairn.Usage{l.Row.Usage, l.Row.RunUsage} {
		total = total.Add(sum)
		if err := total.Validate(); err != nil {
			out.Logger.Warn("invalid usage of a model call ignored", "session", l.Row.ID, "error", err)
			out.Usage = out.Usage.Uncounted()
			return
		}
	}
}

// room returns an error if the operations would make the state too large. The sizes of the last keyframe and of the
// changes since are an upper bound of the state's size, so the check is cheap unless the state is large.
func (l *Live) room(out *Outcome, list []cairn.Op) error {
	at := l.Row.State
	most := at.KeyframeBytes + at.ChangeBytes
	for _, some := range [...][]cairn.Op{l.deferred.Ops, out.Ops, list} {
		for i := range some {
			most += int64(ops.Size(&some[i]))
		}
	}
	if most <= limits.Bytes {
		return nil
	}
	l.mu.Lock()
	raw, err := ops.Fold(l.doc.Raw(), list)
	l.mu.Unlock()
	if err != nil {
		return nil // the caller gets the same error
	}
	if problem := limits.Size(len(raw)); problem != "" {
		return cairn.Errorf(cairn.ErrTooLarge, "the state %s", problem)
	}
	return nil
}

// Include folds what a call with a result wrote, if the step's results message has room for the result.
func (l *Live) Include(out *Outcome, c *step.Call) error {
	f := c.Result
	size := out.resultBytes + len(f.Result.Output)
	if limits.Size(size) != "" {
		return cairn.Errorf(cairn.ErrTooLarge, "the results of this step's calls are too large together (max %d bytes)", limits.Bytes)
	}
	w := f.Writes
	if f.Result.IsError { // a call that the model reads as failed has no effect
		w.Statements = nil
	}
	err := l.FoldCall(out, c, &w)
	if err == nil {
		out.resultBytes = size
	}
	return err
}

// Remembered returns the result that the cache of a call's tool has at a time; nil if it has none.
func (l *Live) Remembered(c *step.Call, now time.Time) *cairn.ToolResult {
	if c.Tool.Cache == nil {
		return nil
	}
	key, ok := ResultKey(c)
	if !ok {
		return nil
	}
	e, ok := l.results.Get(key, now)
	if !ok {
		return nil
	}
	return &cairn.ToolResult{CallID: c.Use.CallID, Tool: c.Use.Tool, Output: e.Output}
}

// RoomFor reports whether the step's results message has room for data that a call emitted, and counts it if so.
func (out *Outcome) RoomFor(data []cairn.Data) bool {
	size := out.resultBytes
	for i := range data {
		size += data[i].Size()
	}
	if limits.Size(size) != "" {
		return false
	}
	out.resultBytes = size
	return true
}

// Remember updates the cache with a call of the step that ends, and returns the number of hits. The call may have
// become an error after the tool ran, if what a hook wrote for it did not fit.
func (l *Live) Remember(a *cairn.Agent, c *step.Call, now time.Time) int64 {
	f := c.Result
	if !f.Hit && f.Made.IsZero() || f.Result.IsError || c.Tool == nil || c.Tool.Cache == nil {
		return 0
	}
	key, _ := ResultKey(c)
	if f.Hit {
		l.results.use(key, now)
		return 1
	}
	most := max(define.CachedResults(a.Tools), define.CachedResults(l.Offered(l.Step.Reply.Context)))
	l.results.put(driver.CacheEntry{Key: key, Tool: c.Use.Tool, Output: f.Result.Output, ExpiresAt: f.Made.Add(define.Lifetime(c.Tool.Cache))}, most, now)
	return 0
}
