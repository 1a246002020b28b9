package effects

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn/clock"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store"
)

// known is what a process knows of a session as it was committed, whatever becomes of it. Copies share only what nobody
// changes, see [live.fork].
type known struct {
	row      *cairn.Session
	clock    clock.Clock      // as of row
	run      *cairn.Run       // the one under way, if there is one
	messages []cairn.Message  // committed
	bytes    int64            // about what they hold
	index    transcript.Index // of messages, with everything in deferred
	damaged  bool             // the transcript has tool uses without a result
	doc      *ops.Doc         // the state with everything in deferred applied
	checked  bool             // the state decodes as the agent's type
	// calls are the rows of the step that waits, as of row.
	calls   []cairn.PendingCall
	results results
	logLast int64 // the log's last sequence when the session was parked
}

// live is a session in memory: what the store holds, and the step under way. While a run drives the session only its
// effects use it; the mutex guards what parallel tools and stop requests share.
type live struct {
	known
	lease   int64 // the fencing token under which the session is driven; the cache's mutex guards it, unlike row
	held    int64 // what the cache counts for the session while it is idle
	spoiled bool  // what is here is not what was committed
	untold  bool  // the last run's process may have died before it told the log of its end

	agent    *cairn.Agent // whose run drives the session, whatever is registered since
	given    []cairn.Tool // what the agent has beside its own
	hooks    *cairn.Hooks // of the call that began the run
	all      user.Hooks   // the engine's, the agent's and the call's
	emit     *journal.Emitter
	sink     sink
	unopened bool // the hooks for the run's beginning have not run
	step     *step.Step
	judged   *outcome // what step came to when it was judged, if this process did
	deferred deferred
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

// newLive returns a session in memory as a snapshot that was just read has it.
func (fx *Effects) newLive(snap *store.Contents) (*live, error) {
	l := &live{known: known{results: newResults(snap.Cache), calls: snap.Calls}}
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
func (l *live) grow(fx *Effects, snap *store.Contents) error {
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

// Info implements user.Session.
func (l *live) Info(step int) cairn.StepInfo {
	return cairn.StepInfo{SessionID: l.row.ID, RunID: l.run.ID, Agent: l.row.Agent, UserID: l.row.UserID, Turn: l.run.Turn, Number: step}
}

// Hooks implements user.Session.
func (l *live) Hooks() user.Hooks { return l.all }

// HasTool implements user.Session.
func (l *live) HasTool(name string) bool { return named(name, l.agent.Tools, l.given) }

// View implements user.Session.
func (l *live) View(on ...*step.Writes) (json.RawMessage, error) {
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
	raw, err := ops.Fold(raw, lists...)
	if err != nil {
		return nil, cairn.Errorf(cairn.CodeState, "state: %w", err)
	}
	return raw, nil
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

// sees takes over a row that was just read or written.
func (l *live) sees(fx *Effects, row *cairn.Session) { l.row, l.clock = row, clock.Of(row, fx.Now()) }

// now returns the time at the store, as far as this process can tell.
func (fx *Effects) now(l *live) time.Time { return l.clock.At(fx.Now()) }
