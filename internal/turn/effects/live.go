package effects

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store"
)

// live is a session in memory: what the store holds, and the step under way. While a run drives the session only its
// effects use it; the mutex guards what parallel tools and stop requests share.
type live struct {
	row      *cairn.Session
	lease    int64            // the fencing token under which the session is driven; the cache's mutex guards it, unlike row
	messages []cairn.Message  // committed
	bytes    int64            // about what they hold
	held     int64            // what the cache counts for the session while it is idle
	doc      *ops.Doc         // the state with everything in deferred applied
	index    transcript.Index // of messages, with everything in deferred
	damaged  bool             // the transcript has tool uses without a result
	checked  bool             // the state decodes as the agent's type
	spoiled  bool             // what is here is not what was committed
	untold   bool             // the last run's process may have died before it told the log of its end
	// calls are the rows of the step that waits, as of row.
	calls   []cairn.PendingCall
	results results

	run      *cairn.Run
	hooks    *cairn.Hooks // of the call that began the run
	emit     *emitter
	logLast  int64  // the log's last sequence when the session was parked
	replied  int64  // that when the step's reply was complete; 0 if it was committed before
	opening  *scope // of the hooks that ran when the run began, nil without any; part of its first step
	unopened bool   // those hooks have not run
	step     *step
	deferred deferred
	clock    clock // as of row
	// lastCommit is when what the run last wrote was worked out, by the clock.
	lastCommit time.Time

	mu      sync.Mutex
	driving string // the run a stop request must name
	stop    *cairn.Stop
	cancels []context.CancelCauseFunc // of effects under way; nil where one has ended
}

// deferred is what finished steps have left for the next commit.
type deferred struct {
	messages []cairn.Message
	ops      []cairn.Op
	usage    cairn.Usage
	steps    []int
}

// step is the step under way: what was staged of it, in memory.
type step struct {
	number  int
	id      string
	context []cairn.Message // rows ahead of the reply
	reply   *cairn.Message  // nil until the model has answered
	stop    cairn.StopReason
	usage   cairn.Usage
	failed  *cairn.Error
	calls   []*call
	scope   *scope // of the hooks around the model call
	// planned is set once the reply, if any, is complete.
	planned bool
	// told says that the reply was committed before: the step waited and goes on.
	told bool
	// judged is what user code made of the step's end; nil if it has no say in it, or was not asked yet. out is what the step
	// came to then, in the process that judged it.
	judged *judgement
	out    *outcome
}

// call is one tool call of a step.
type call struct {
	use    *cairn.ToolUse
	tool   *cairn.Tool // nil for an unknown tool, one that is off, and for __finish__
	scope  *scope
	result *cairn.ToolResult
	// done is set when the turn ends with this call; completion is how.
	done       bool
	completion cairn.Completion
	failed     *cairn.Error // the guard refused
	feedback   string       // the guard sent the model back
	// off says that the tool was switched off when the model was asked.
	off bool
	// hit says that the result came from the cache; made is when one that is to be kept there was.
	hit  bool
	made time.Time
	// most is how many results are kept there, of all tools.
	most int
	// pending is the row of a call that waits for an answer or has one; its Version is 0 until it is committed.
	pending *cairn.PendingCall
	// waiting is what the session of another agent waits for; child is the session's id, and visited tells of its end. begun
	// says that the hooks and the log know that it is consulted.
	waiting *cairn.Suspension
	child   string
	agent   string
	begun   bool
	visited *cairn.Event
	// left says that the run was stopped before the session of the other agent came to its end.
	left bool
	// begins are the runs of that session that were handed over to be driven, by id, if effects run apart.
	begins map[string]turn.Begun
	// moved says that the session it waits for does not wait any more, since another call of the step has gone on with it.
	moved bool
}

// atMost returns how long the call is waited for from the commit on that opens it; 0 means for ever.
func (c *call) atMost() time.Duration {
	if c.tool == nil {
		return 0
	}
	return c.tool.AtMost()
}

// waits reports whether the call has no result because somebody outside must give one.
func (c *call) waits() bool {
	return c.result == nil && (c.waiting != nil && !c.moved || c.pending != nil && c.pending.Status == cairn.CallOpen)
}

// ready reports whether the call has no result yet although what it waited for is there, because that came after its effect.
func (c *call) ready() bool {
	return c.result == nil && (c.moved || c.pending != nil && c.pending.Status == cairn.CallAnswered)
}

// input is what the call's tool runs with: the model's arguments, unless whoever approved the call changed them.
func (c *call) input() json.RawMessage {
	if c.pending != nil && c.pending.Answer != nil && c.pending.Answer.Verdict == cairn.VerdictApproved && len(c.pending.Answer.Value) > 0 {
		return c.pending.Answer.Value
	}
	return c.use.Input
}

func (s *step) call(id string) *call {
	for _, c := range s.calls {
		if c.use.CallID == id {
			return c
		}
	}
	return nil
}

// newLive returns a session in memory as a snapshot that was just read has it.
func (fx *Effects) newLive(snap *store.Snapshot) (*live, error) {
	l := &live{results: newResults(snap.Cache), calls: snap.Calls}
	l.sees(fx, snap.Session)
	if err := l.load(snap.State, snap.Messages); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *live) load(state json.RawMessage, messages []cairn.Message) error {
	doc, err := ops.NewDoc(state)
	if err != nil {
		return cairn.Errorf(cairn.CodeCorrupt, "session %q: stored state: %w", l.row.ID, err)
	}
	l.doc, l.messages, l.checked = doc, messages, false
	l.bytes = sizeOf(messages)
	l.index = transcript.Index{}
	for i := range messages {
		l.index.Add(&messages[i])
	}
	l.damaged = !transcript.Balanced(messages)
	return nil
}

// grewInto reports whether all that row has beside the messages of l came after them.
func (l *live) grewInto(row *cairn.Session) bool {
	return row.Secret == l.row.Secret && row.CreatedAt.Equal(l.row.CreatedAt) && row.Epoch == l.row.Epoch && row.MessageCount >= len(l.messages)
}

// grow brings l up to a snapshot that has the messages since.
func (l *live) grow(fx *Effects, snap *store.Snapshot) error {
	doc, err := ops.NewDoc(snap.State)
	if err != nil {
		return cairn.Errorf(cairn.CodeCorrupt, "session %q: stored state: %w", l.row.ID, err)
	}
	l.sees(fx, snap.Session)
	l.doc, l.calls, l.results = doc, snap.Calls, newResults(snap.Cache)
	l.checked, l.logLast = false, 0
	last, sound := max(len(l.messages)-1, 0), !l.damaged
	l.append(snap.Messages)
	if sound { // the last one may have tool uses without a result now
		l.damaged = !transcript.Balanced(l.messages[last:])
	}
	return nil
}

// transcript is everything the model has seen so far. It may be appended to, but not modified.
func (l *live) transcript() []cairn.Message {
	n := len(l.messages)
	return append(l.messages[:n:n], l.deferred.messages...)
}

// work returns a context for something a stop request ends, and a key to release it by.
func (l *live) work(ctx context.Context) (context.Context, int) {
	ctx, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		cancel(&stopped{*l.stop})
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

// release ends a context that work returned.
func (l *live) release(key int) {
	l.mu.Lock()
	cancel := l.cancels[key]
	l.cancels[key] = nil
	l.mu.Unlock()
	cancel(nil)
}

// drives names the run that stop requests may be aimed at; empty for none.
func (l *live) drives(runID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.driving, l.stop = runID, nil
}

// requestStop makes the run stop, if it is the one the request is aimed at. An abort overrides an interrupt.
func (l *live) requestStop(stop cairn.Stop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.driving != stop.RunID || l.stop != nil && (l.stop.Kind == cairn.StopAbort || stop.Kind != cairn.StopAbort) {
		return
	}
	l.stop = &stop
	for _, cancel := range l.cancels {
		if cancel != nil {
			cancel(&stopped{stop})
		}
	}
}

func (l *live) stopRequest() *cairn.Stop {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stop
}
