// Package session has the sessions that a process has in memory: what it knows of each as it was committed, the step
// under way, what steps have left for the next commit, stop requests that have arrived, and the cache of those that
// nothing drives. It writes nothing, reads nothing, and calls no user code.
package session

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/clock"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store"
)

// known is what a process knows of a session as it was committed, whatever becomes of it. Copies share only what nothing
// changes, see [Live.Fork].
type known struct {
	Row      *cairn.Session
	clock    clock.Clock      // as of Row
	Run      *cairn.Run       // the one under way, if there is one
	First    int              // the index of the first of Messages: of those that a summary stands for none is here
	Messages []cairn.Message  // committed
	bytes    int64            // about what they hold
	Index    transcript.Index // of Messages, with everything in Deferred
	Damaged  bool             // the transcript has tool uses without a result
	Doc      *ops.Doc         // the state with everything in Deferred applied
	Checked  bool             // the state decodes as the agent's type
	// Calls are the rows of the suspended step, as of Row.
	Calls   []cairn.PendingCall
	Results Results
	LogLast int64 // the log's last sequence when the session was parked
}

// Live is a session in memory: what the store holds, and the step under way. While a run drives the session only its
// effects use it; the mutex guards what parallel tools and stop requests share.
type Live struct {
	known
	lease         int64 // the fencing token under which the session is driven; the cache's mutex guards it, unlike Row
	held          int64 // what the cache counts for the session while it is idle
	Spoiled       bool  // what is here is not what was committed
	LogIncomplete bool  // the last run's process may have died before it published the run's end

	Agent     *cairn.Agent // whose run drives the session, whatever is registered since
	Given     []cairn.Tool // what the agent has beside its own tools
	offered   offered      // by its toolsets
	CallHooks *cairn.Hooks // of the call that began the run
	hooks     user.Hooks   // the engine's, the agent's and the call's
	Emit      *journal.Emitter
	Sink      Sink // of a run whose effects are remote; nil for that of the process
	Unopened  bool // the hooks for the run's beginning have not run
	Step      *step.Step
	Judged    *Outcome // what Step came to when it was judged, if this process did
	Deferred  Deferred
	// LastCommit is when what the run last wrote was worked out, by the clock.
	LastCommit time.Time

	mu      sync.Mutex
	driving string // the run that a stop request must name
	stop    *cairn.Stop
	cancels []context.CancelCauseFunc // of effects under way; nil where one has ended
}

// Deferred is what finished steps have left for the next commit.
type Deferred struct {
	Messages []cairn.Message
	Ops      []cairn.Op
	Usage    cairn.Usage
	Title    *string
	Steps    []int
}

// New returns a session in memory as a snapshot that was just read here with [store.ToDrive] has it.
func New(snap *store.Contents, here time.Time) (*Live, error) {
	l := &Live{known: known{Results: newResults(snap.Cache), Calls: snap.Calls}}
	l.Sees(snap.Session, here)
	if err := l.Load(snap.State, snap.Messages); err != nil {
		return nil, err
	}
	return l, nil
}

// Load takes over a state and messages that were committed: the last ones of the row.
func (l *Live) Load(state json.RawMessage, messages []cairn.Message) error {
	doc, err := ops.NewDoc(state)
	if err != nil {
		return cairn.Errorf(cairn.CodeCorrupt, "session %q: stored state: %w", l.Row.ID, err)
	}
	l.Doc, l.Messages, l.Checked = doc, messages, false
	l.First = l.Row.MessageCount - len(messages)
	l.bytes = sizeOf(messages)
	l.Index = transcript.Index{}
	for i := range messages {
		l.Index.Add(&messages[i])
	}
	l.Damaged = !transcript.Balanced(messages)
	return nil
}

// GrewInto reports whether all that row has beside the messages of l came after them.
func (l *Live) GrewInto(row *cairn.Session) bool {
	return row.Secret == l.Row.Secret && row.CreatedAt.Equal(l.Row.CreatedAt) && row.Epoch == l.Row.Epoch && row.MessageCount >= l.End() && row.Summary.From <= l.End()
}

// End returns the index behind the committed messages.
func (l *Live) End() int { return l.First + len(l.Messages) }

// Grow brings l up to a snapshot that has the messages since.
func (l *Live) Grow(snap *store.Contents, here time.Time) error {
	doc, err := ops.NewDoc(snap.State)
	if err != nil {
		return cairn.Errorf(cairn.CodeCorrupt, "session %q: stored state: %w", l.Row.ID, err)
	}
	l.Sees(snap.Session, here)
	l.Doc, l.Calls, l.Results = doc, snap.Calls, newResults(snap.Cache)
	l.Checked, l.LogLast = false, 0
	last, sound := max(l.End()-1, l.First), !l.Damaged
	l.Append(snap.Messages)
	if sound { // the last one may have tool uses without a result now
		l.Damaged = !transcript.Balanced(l.Messages[max(last-l.First, 0):])
	}
	return nil
}

// Transcript is what has happened so far, from index First on. It may be appended to, but not modified.
func (l *Live) Transcript() []cairn.Message {
	n := len(l.Messages)
	return append(l.Messages[:n:n], l.Deferred.Messages...)
}

// Info implements user.Session.
func (l *Live) Info(step int) cairn.Step {
	row := l.Row
	return cairn.Step{SessionID: row.ID, RunID: l.Run.ID, Agent: row.Agent, UserID: row.UserID, Turn: l.Run.Turn, Number: step,
		Title: row.Title, Tags: slices.Clone(row.Tags), Metadata: maps.Clone(row.Metadata), ExpiresAt: row.ExpiresAt,
		TraceParent: row.TraceParent, ParentID: row.ParentID, RootID: row.RootID}
}

// Hooks implements user.Session.
func (l *Live) Hooks() user.Hooks { return l.hooks }

// HasTool implements user.Session.
func (l *Live) HasTool(name string) bool { return Named(name, l.Agent.Tools, l.Given, l.Offered(nil)) }

// View implements user.Session.
func (l *Live) View(on ...*step.Writes) (json.RawMessage, error) {
	l.mu.Lock()
	raw := l.Doc.Raw()
	l.mu.Unlock()
	var lists [][]cairn.Op
	for _, w := range on {
		if len(w.Ops) > 0 {
			lists = append(lists, w.Ops)
		}
	}
	if len(lists) == 0 {
		return raw, nil
	}
	raw, err := ops.Fold(raw, lists...)
	if err != nil {
		return nil, cairn.Errorf(cairn.CodeState, "state: %w", err)
	}
	return raw, nil
}

// Work returns a context for something a stop request ends, and a key to release it by.
func (l *Live) Work(ctx context.Context) (context.Context, int) {
	ctx, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		cancel(&Stopped{*l.stop})
	}
	for key := range l.cancels {
		if l.cancels[key] == nil {
			l.cancels[key] = cancel
			return ctx, key
		}
	}
	l.cancels = append(l.cancels, cancel)
	return ctx, len(l.cancels) - 1
}

// Release ends a context that work returned.
func (l *Live) Release(key int) {
	l.mu.Lock()
	cancel := l.cancels[key]
	l.cancels[key] = nil
	l.mu.Unlock()
	cancel(nil)
}

// Drives names the run that stop requests may be aimed at; empty for none.
func (l *Live) Drives(runID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.driving, l.stop = runID, nil
}

// RequestStop makes the run stop, if it is the one the request is aimed at. An abort overrides an interrupt.
func (l *Live) RequestStop(stop cairn.Stop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.driving != stop.RunID || l.stop != nil && (l.stop.Kind == cairn.StopAbort || stop.Kind != cairn.StopAbort) {
		return
	}
	l.stop = &stop
	for _, cancel := range l.cancels {
		if cancel != nil {
			cancel(&Stopped{stop})
		}
	}
}

// StopRequest returns what the run is asked to stop with; nil if it is not.
func (l *Live) StopRequest() *cairn.Stop {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stop
}

// Sees takes over a row that was read or written at a time of this process.
func (l *Live) Sees(row *cairn.Session, here time.Time) { l.Row, l.clock = row, clock.Of(row, here) }

// Now returns the time at the store at a time of this process.
func (l *Live) Now(here time.Time) time.Time { return l.clock.At(here) }

// Runs says which agent drives the session from now on, with the tools that it is given, the engine's hooks, and those of the
// call that began the run.
func (l *Live) Runs(a *cairn.Agent, given []cairn.Tool, engine []*cairn.Hooks, call *cairn.Hooks) {
	l.Agent, l.Given, l.CallHooks, l.hooks = a, given, call, user.HooksOf(engine, a, call)
	l.offered = offered{}
}

// Stopped is the cause with which a run's work is cancelled on request.
type Stopped struct{ cairn.Stop }

// Error implements error.
func (s *Stopped) Error() string { return "stop requested: " + string(s.Kind) }

// Is makes the cause one that models and tools recognize: an error of CodeStopped.
func (s *Stopped) Is(target error) bool {
	t, ok := target.(*cairn.Error)
	return ok && t.Code == cairn.CodeStopped
}

// IsStopped reports whether work was left because the run is to stop, whatever else has ended since. It is never the error
// of an effect: the step's commit deals with the request.
func IsStopped(err error) bool {
	var s *Stopped
	return errors.As(err, &s)
}

// Wrote takes over rows of calls that were committed.
func (l *Live) Wrote(list []store.CallWrite) {
	l.Calls = slices.Clone(l.Calls)
	for _, w := range list {
		for i := range l.Calls {
			if l.Calls[i].ID == w.Call.ID {
				l.Calls[i] = w.Call
				l.Calls[i].Version = w.Seen + 1
			}
		}
	}
}

// Dated gives messages the time of the commit that wrote them, which has left the row behind.
func Dated(messages []cairn.Message, row *cairn.Session) {
	for i := range messages {
		if messages[i].CreatedAt.IsZero() {
			messages[i].CreatedAt = row.UpdatedAt
		}
	}
}

// Append takes over messages that were committed.
func (l *Live) Append(messages []cairn.Message) {
	Dated(messages, l.Row)
	for i := range messages {
		l.Index.Add(&messages[i])
	}
	l.Messages = append(l.Messages, messages...)
	l.bytes += sizeOf(messages)
	if l.Damaged {
		l.Damaged = !transcript.Balanced(l.Messages)
	}
	l.trim()
}

// trim forgets the messages that a committed summary stands for.
func (l *Live) trim() {
	n := l.Row.Summary.From - l.First
	if l.Row.Summary.From == 0 || n <= 0 || n > len(l.Messages) {
		return
	}
	l.bytes -= sizeOf(l.Messages[:n])
	l.First, l.Messages = l.First+n, slices.Clone(l.Messages[n:])
	l.Index = transcript.Index{}
	for _, list := range [][]cairn.Message{l.Messages, l.Deferred.Messages} {
		for i := range list {
			l.Index.Add(&list[i])
		}
	}
	l.Damaged = l.Damaged && !transcript.Balanced(l.Messages)
}

// Begun names the run that drives the session, as hosts are given it.
func (l *Live) Begun() turn.Begun {
	return turn.Begun{
		Position: turn.Position{SessionID: l.Row.ID, Agent: l.Row.Agent, AgentVersion: l.Run.AgentVersion, RunID: l.Run.ID, Token: l.Row.Lease.Token, Step: l.Row.Step},
		RootID:   l.Row.RootID, Incarnation: l.Row.Incarnation, Turn: l.Run.Turn, StartSequence: l.Run.StartSequence,
	}
}

// Fork returns a copy of a session as it was committed, which shares only what nobody changes.
func (l *Live) Fork() (*Live, error) {
	l.mu.Lock()
	doc, err := ops.NewDoc(l.Doc.Raw())
	l.mu.Unlock()
	if err != nil {
		return nil, cairn.Errorf(cairn.CodeCorrupt, "session %q: state: %w", l.Row.ID, err)
	}
	f := &Live{known: l.known}
	f.Doc, f.Messages, f.Calls = doc, slices.Clip(l.Messages), slices.Clone(l.Calls)
	f.Index, f.Results = l.Index.Clone(), l.Results.clone()
	return f, nil
}

// Named reports whether there is a tool of some name.
func Named(name string, lists ...[]cairn.Tool) bool {
	return slices.ContainsFunc(lists, func(list []cairn.Tool) bool {
		return slices.ContainsFunc(list, func(t cairn.Tool) bool { return t.Name() == name })
	})
}
