// Package session holds the sessions that a process has in memory: what was last committed of each, the step under way,
// what finished steps left for the next commit, stop requests that have arrived, and the cache of idle sessions. It
// does no I/O and calls no user code.
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
	"github.com/cairn-agents/cairn/internal/turn/budget"
	"github.com/cairn-agents/cairn/internal/turn/clock"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store/driver"
)

// known is what a process knows of a session as committed, independent of any run's work. Copies share only what is
// never changed, see [Live.Fork].
type known struct {
	Row   *cairn.Session
	clock clock.Clock // relates this process's time to Row's
	Run   *cairn.Run  // the run under way, if there is one
	// The index of Messages[0] in the transcript. Messages that a summary stands for are not here.
	first    int
	Messages []cairn.Message     // committed
	bytes    int64               // approximate size of Messages
	index    transcript.Index    // of Messages and the messages in deferred
	damaged  bool                // the transcript has tool uses without a result
	doc      *ops.Doc            // the state, with the operations in deferred applied
	checked  bool                // the state is known to decode as the agent's type
	calls    []cairn.PendingCall // the rows of the suspended step's calls, as of Row
	results  Results
	// The budgets of the run accountsOf; their agents may be replaced, so a later run looks for them again.
	accounts   []budget.Account
	accountsOf string
}

// Live is a session in memory: what the store holds, and the step under way. While a run drives the session, only the
// run's effects use it. The mutex guards what parallel tools and stop requests share.
type Live struct {
	known
	// The fencing token under which the session is driven. Unlike Row, it is guarded by the cache's mutex.
	lease   int64
	held    int64 // the bytes that the cache counts for the session while it is idle
	spoiled bool  // what is here differs from what was committed

	agent        *cairn.Agent // the agent of the run, even if another version was registered since
	extra        []cairn.Tool // tools in addition to the agent's own
	offered      offered      // by the agent's toolsets
	fingerprints fingerprints
	callHooks    *cairn.Hooks // of the call that began the run
	hooks        user.Hooks   // the engine's, the agent's and the call's
	Emit         *journal.Emitter
	// Where facts are kept for a run whose effects are remote; nil if facts stay in this process.
	sink     Sink
	unopened bool // the hooks of the run's beginning have not run
	Step     *step.Step
	judged   *Outcome // the outcome of Step, if this process judged it
	// lost is the usage of model calls that were cut when the run was released. unkept is the reply that only this
	// process has; nil if another lease holder would find it in the store.
	lost     step.Bill
	unkept   *step.Reply
	deferred Deferred
	// lastCommit is when the run's last commit was worked out, by the session's clock.
	lastCommit time.Time

	mu      sync.Mutex
	driving string // the id of the run that a stop request must name
	stop    *cairn.Stop
	cancels []context.CancelCauseFunc // of effects under way; nil where an effect has ended
}

// Deferred is what finished steps left for the next commit.
type Deferred struct {
	Messages []cairn.Message
	Ops      []cairn.Op
	Usage    step.Bill
	Paid     step.Bill // of the steps' own model calls, which no store has
	About    *driver.ContextChange
	Steps    []int
}

// New returns a session in memory from a snapshot that this process just read with [driver.ToDrive].
func New(snap *driver.Contents, here time.Time) (*Live, error) {
	l := &Live{known: known{results: newResults(snap.Cache), calls: snap.Calls}}
	l.Sees(snap.Session, here)
	if err := l.Load(snap.State, snap.Messages); err != nil {
		return nil, err
	}
	return l, nil
}

// Load replaces state and messages by what was committed with the row. messages are the row's last ones.
func (l *Live) Load(state json.RawMessage, messages []cairn.Message) error {
	doc, err := ops.NewDoc(state)
	if err != nil {
		return cairn.Errorf(cairn.ErrCorrupt, "session %q: stored state: %w", l.Row.ID, err)
	}
	l.doc, l.Messages, l.checked = doc, messages, false
	l.first = l.Row.MessageCount - len(messages)
	l.bytes = sizeOf(messages)
	l.index = transcript.Index{}
	for i := range messages {
		l.index.Add(&messages[i])
	}
	l.damaged = !transcript.Balanced(messages)
	return nil
}

// Within reports whether a snapshot of the session has the messages of l. They are append only, so it has all if it has
// the last one, and a store that has lost writes lacks that one or has another in its place.
func (l *Live) Within(snap *driver.Contents) bool {
	row := snap.Session
	if row.MessageCount < l.End() {
		return false
	}
	i := l.End() - 1 - (row.MessageCount - len(snap.Messages))
	if len(l.Messages) == 0 || i < 0 { // covered by a summary
		return true
	}
	own, other := &l.Messages[len(l.Messages)-1], &snap.Messages[i]
	return own.ID == other.ID && own.RunID == other.RunID
}

// redone reports whether the store has another message than l in the place of l's last one, with the same id: the step
// that made it was lost and made again.
func (l *Live) redone(snap *driver.Contents) bool {
	i := l.End() - 1 - (snap.Session.MessageCount - len(snap.Messages))
	return len(l.Messages) > 0 && i >= 0 && !l.Messages[len(l.Messages)-1].CreatedAt.Equal(snap.Messages[i].CreatedAt)
}

// SameAs reports whether a row is of the session that l is, not rewound since.
func (l *Live) SameAs(row *cairn.Session) bool {
	return row.Secret == l.Row.Secret && row.CreatedAt.Equal(l.Row.CreatedAt) && row.Epoch == l.Row.Epoch
}

// GrewInto reports whether a snapshot that begins with the last message of l extends l: whatever it has in addition
// came after the messages of l.
func (l *Live) GrewInto(snap *driver.Contents) bool {
	return l.SameAs(snap.Session) && snap.Session.Summary.From < max(l.End(), 1) && l.Within(snap) && !l.redone(snap)
}

// End returns the index after the last committed message.
func (l *Live) End() int { return l.first + len(l.Messages) }

// Grow brings l up to date with a snapshot that l [Live.GrewInto].
func (l *Live) Grow(snap *driver.Contents, here time.Time) error {
	doc, err := ops.NewDoc(snap.State)
	if err != nil {
		return cairn.Errorf(cairn.ErrCorrupt, "session %q: stored state: %w", l.Row.ID, err)
	}
	l.Sees(snap.Session, here)
	l.doc, l.calls, l.results = doc, snap.Calls, newResults(snap.Cache)
	l.checked = false
	last, sound := max(l.End()-1, l.first), !l.damaged
	l.Append(snap.Messages[l.End()-(snap.Session.MessageCount-len(snap.Messages)):])
	if sound { // the last message may have tool uses without a result now
		l.damaged = !transcript.Balanced(l.Messages[max(last-l.first, 0):])
	}
	return nil
}

// Transcript returns the messages so far, from index First on. The caller may append to it, but not modify it.
func (l *Live) Transcript() []cairn.Message {
	n := len(l.Messages)
	return append(l.Messages[:n:n], l.deferred.Messages...)
}

// Sent implements user.Session. A summary that the step's request begins with is among the messages.
func (l *Live) Sent() []cairn.Message {
	list := l.Transcript()
	if l.Step != nil && l.Step.Reply != nil {
		list = append(list, l.Step.Reply.Context...)
	}
	return transcript.Recent(list, l.first)
}

// Fingerprint identifies a request; nil if it has the blocks of the one before. changed reports whether hooks were given
// its messages.
func (l *Live) Fingerprint(req *cairn.Request, changed bool) *cairn.Fingerprint {
	f := l.fingerprints.of(req, &l.index)
	if changed && f == nil {
		f = &cairn.Fingerprint{}
	}
	if f != nil {
		f.Changed = changed
	}
	return f
}

// Tainted implements user.Session. The messages that the step's request begins with count: the model has read them.
func (l *Live) Tainted() bool {
	tainted := l.index.Tainted()
	if l.Step != nil && l.Step.Reply != nil {
		for i := range l.Step.Reply.Context {
			if trust := l.Step.Reply.Context[i].Trust; trust != "" {
				tainted = trust == cairn.TrustTainted
			}
		}
	}
	return tainted
}

// Workspace implements user.Session.
func (l *Live) Workspace() string { return l.index.Workspace() }

// SwitchedOff implements user.Session.
func (l *Live) SwitchedOff() []string { return slices.Sorted(maps.Keys(l.index.Switched())) }

// Info implements user.Session.
func (l *Live) Info(step int) cairn.Step {
	row := l.Row
	used := row.RunUsage
	if l.Step != nil {
		used = used.Add(l.Spent().Usage)
	}
	return cairn.Step{Usage: used, SessionID: row.ID, RunID: l.Run.ID, Agent: row.Agent, UserID: row.UserID, Turn: l.Run.Turn, Number: step,
		Title: row.Title, Tags: slices.Clone(row.Tags), Metadata: row.Metadata.Clone(), ExpiresAt: row.ExpiresAt,
		TraceParent: row.TraceParent, ParentID: row.ParentID, RootID: row.RootID, Incarnation: row.Incarnation}
}

// Hooks implements user.Session.
func (l *Live) Hooks() user.Hooks { return l.hooks }

// HasTool implements user.Session.
func (l *Live) HasTool(name string) bool { return Named(name, l.agent.Tools, l.extra, l.Offered(nil)) }

// View implements user.Session. It leaves out writes that do not fit the state, as the commit does.
func (l *Live) View(on ...*step.Writes) (json.RawMessage, error) {
	l.mu.Lock()
	raw := l.doc.Raw()
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
	doc, err := ops.NewDoc(raw)
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrState, "state: %w", err)
	}
	for _, list := range lists {
		_, _ = doc.Apply(list) // Fold drops the same ones, and reports them
	}
	return doc.Raw(), nil
}

// Work returns a context that a stop request cancels, and a key to release it with.
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

// Release ends a context that Work returned.
func (l *Live) Release(key int) {
	l.mu.Lock()
	cancel := l.cancels[key]
	l.cancels[key] = nil
	l.mu.Unlock()
	cancel(nil)
}

// SetRun sets the run that stop requests may name; "" for none. It clears a stop request.
func (l *Live) SetRun(runID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.driving, l.stop = runID, nil
}

// RequestStop makes the run stop, if stop names it. An abort overrides an interrupt.
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

// StopRequest returns the stop requested of the run, or nil.
func (l *Live) StopRequest() *cairn.Stop {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stop
}

// Sees replaces the row by one that was read or written at here, a time of this process.
func (l *Live) Sees(row *cairn.Session, here time.Time) { l.Row, l.clock = row, clock.Of(row, here) }

// Now returns the store's time at here, a time of this process.
func (l *Live) Now(here time.Time) time.Time { return l.clock.At(here) }

// SetAgent sets the agent that drives the session from now on, the tools that it is given, the engine's hooks, and the
// hooks of the call that began the run.
func (l *Live) SetAgent(a *cairn.Agent, given []cairn.Tool, engine []*cairn.Hooks, call *cairn.Hooks) {
	l.agent, l.extra, l.callHooks, l.hooks = a, given, call, user.HooksOf(engine, a, call)
	l.offered = offered{}
}

// Stopped is the cause with which a stop request cancels a run's work.
type Stopped struct{ cairn.Stop }

// Error implements error.
func (s *Stopped) Error() string { return "stop requested: " + string(s.Kind) }

// Is makes Stopped match ErrStopped, which models and tools recognize.
func (s *Stopped) Is(target error) bool { return errors.Is(cairn.ErrStopped, target) }

// IsStopped reports whether work ended early because the run is to stop, whatever else has ended since. An effect never
// returns such an error: the step's commit handles the request.
func IsStopped(err error) bool {
	var s *Stopped
	return errors.As(err, &s)
}

// Wrote updates the rows of calls with what was committed.
func (l *Live) Wrote(list []driver.CallWrite) {
	l.calls = slices.Clone(l.calls)
	for _, w := range list {
		for i := range l.calls {
			if l.calls[i].ID == w.Call.ID {
				l.calls[i] = w.Call
				l.calls[i].Version = w.Seen + 1
			}
		}
	}
}

// Dated sets the time of messages without one to the time of the commit that wrote them; row is as of that commit.
func Dated(messages []cairn.Message, row *cairn.Session) {
	for i := range messages {
		if messages[i].CreatedAt.IsZero() {
			messages[i].CreatedAt = row.UpdatedAt
		}
	}
}

// Append adds messages that were committed.
func (l *Live) Append(messages []cairn.Message) {
	Dated(messages, l.Row)
	for i := range messages {
		l.index.Add(&messages[i])
	}
	l.Messages = append(l.Messages, messages...)
	l.bytes += sizeOf(messages)
	if l.damaged {
		l.damaged = !transcript.Balanced(l.Messages)
	}
	l.trim()
}

// trim drops the messages that a committed summary stands for.
func (l *Live) trim() {
	n := l.Row.Summary.From - l.first
	if l.Row.Summary.From == 0 || n <= 0 || n > len(l.Messages) {
		return
	}
	l.bytes -= sizeOf(l.Messages[:n])
	l.first, l.Messages = l.first+n, slices.Clone(l.Messages[n:])
	l.index = transcript.Index{}
	for _, list := range [][]cairn.Message{l.Messages, l.deferred.Messages} {
		for i := range list {
			l.index.Add(&list[i])
		}
	}
	l.damaged = l.damaged && !transcript.Balanced(l.Messages)
}

// Begun returns the reference to the run that drives the session, as hosts get it.
func (l *Live) Begun() turn.Begun {
	return turn.Begun{
		Position: turn.Position{SessionID: l.Row.ID, Agent: l.Row.Agent, AgentVersion: l.Run.AgentVersion, RunID: l.Run.ID, Token: l.Row.Lease.Token, Step: l.Row.Step},
		RootID:   l.Row.RootID, Incarnation: l.Row.Incarnation, Turn: l.Run.Turn, StartSequence: l.Run.StartSequence,
	}
}

// Fork returns a copy of the session as committed. It shares only what is never changed.
func (l *Live) Fork() (*Live, error) {
	l.mu.Lock()
	doc, err := ops.NewDoc(l.doc.Raw())
	l.mu.Unlock()
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "session %q: state: %w", l.Row.ID, err)
	}
	f := &Live{known: l.known}
	f.doc, f.Messages, f.calls = doc, slices.Clip(l.Messages), slices.Clone(l.calls)
	f.index, f.results = l.index.Clone(), l.results.clone()
	return f, nil
}

// Named reports whether the lists have a tool with the given name.
func Named(name string, lists ...[]cairn.Tool) bool {
	return slices.ContainsFunc(lists, func(list []cairn.Tool) bool {
		return slices.ContainsFunc(list, func(t cairn.Tool) bool { return t.Name() == name })
	})
}

// Spent returns the usage of the step in progress and of those deferred before it.
func (l *Live) Spent() step.Bill {
	sum := l.deferred.Usage.Add(l.Step.Spent)
	if l.Step.Reply != nil {
		sum = sum.Add(l.Step.Reply.Usage)
	}
	return sum
}
