// Package step holds the facts of a step and what they come to.
//
// A step of a run is a list of facts: the model's reply, the calls that were handed over or wait, their results, what user code
// decided. A [Step] is the fold of that list, and [Step.Add] is the only way in which it changes. The same list stands in
// memory where one process drives the run, is staged in the store where another one may have to carry on, and is what a
// takeover finds there. So a new field of a fact is defined here, written where the fact arises, and read where it counts.
//
// The package is pure: no I/O, no clock, no user code. It knows the types of package store, but calls no store.
package step

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/store"
)

// Fact is one thing that happened in a step. Facts are pointers to the types of this package, and immutable once they are
// added or encoded.
type Fact interface {
	// place names what the fact is about. Of two facts of a step for one place, the one that was staged first stands.
	place() string
}

// Writes are what user code wrote through its handle: operations on the state, context for the model, usage, statements for
// the store's database, the session's title, and the wish for a checkpoint.
type Writes struct {
	Ops        []cairn.Op         `json:"ops,omitempty"`
	Context    []cairn.Message    `json:"context,omitempty"`
	Usage      map[string]float64 `json:"usage,omitempty"`
	Statements []store.Statement  `json:"statements,omitempty"`
	Checkpoint bool               `json:"checkpoint,omitempty"`
	// Title is that of the session, if it was set.
	Title *string `json:"title,omitempty"`
}

// Empty reports whether nothing was written.
func (w *Writes) Empty() bool {
	return w == nil || len(w.Ops)+len(w.Context)+len(w.Usage)+len(w.Statements) == 0 && !w.Checkpoint && w.Title == nil
}

// Opening is what the hooks wrote that ran when the run began. It belongs to the run's first step.
type Opening struct {
	Writes Writes `json:"writes"`
}

// Reply is what the model call came to.
type Reply struct {
	// Message is the model's answer; nil if the call failed, or was stopped before anything was said.
	Message *cairn.Message `json:"message,omitempty"`
	// Context are the messages that were put before the model for this step.
	Context []cairn.Message `json:"context,omitempty"`
	Usage   cairn.Usage     `json:"usage"`
	// Refused are the calls of tools that were off.
	Refused []string     `json:"refused,omitempty"`
	Failed  *cairn.Error `json:"failed,omitempty"`
	// Passed are events of another server that the model has passed on, see [cairn.ChunkEvent].
	Passed []cairn.Event `json:"passed,omitempty"`
	// Writes are those of the hooks around the call.
	Writes Writes `json:"writes"`
	// Sequence is the log's last one when all of the reply was there; 0 if it is not known.
	Sequence int64 `json:"sequence,omitempty"`
}

// Started is a call that has begun with the session of another agent.
type Started struct {
	CallID  string `json:"call_id"`
	Agent   string `json:"agent"`
	ChildID string `json:"child_id"`
	// Announced says that hooks and the log know that the agent is consulted. A call that only waits for a companion has
	// nothing to announce.
	Announced bool `json:"announced,omitempty"`
	// Run is a run of that agent's session that was handed over to be driven, if one was.
	Run *turn.Begun `json:"run,omitempty"`
	// Writes are those of the hooks before the call.
	Writes Writes `json:"writes"`
}

// Attempt is an attempt at a call's tool that begins. Of a run whose facts stay in memory only those after the first are
// staged.
type Attempt struct {
	CallID string `json:"call_id"`
	// Number counts the attempts, from 1.
	Number int `json:"number"`
}

// Wait is a call that has no result yet: people must answer it, or the session that it consults waits itself.
type Wait struct {
	CallID string `json:"call_id"`
	// Pending is the row that the commit of the step writes; nil where another session waits.
	Pending *cairn.PendingCall `json:"pending,omitempty"`
	// Waiting is what the session Child waits for.
	Waiting *cairn.Suspension `json:"waiting,omitempty"`
	Child   *cairn.ChildRef   `json:"child,omitempty"`
	Writes  Writes            `json:"writes"`
}

// Row is the row of a call that waited when the run began, as the store's table of calls has it. It is never staged.
type Row struct {
	Call *cairn.PendingCall
}

// Result is what a call came to.
type Result struct {
	Result *cairn.ToolResult `json:"result"`
	// Began says that the tool was called: the log has the call's start.
	Began bool `json:"began,omitempty"`
	// Consulted is the agent that the call consulted, if it did.
	Consulted *Consulted `json:"consulted,omitempty"`
	// Closed says that the call has not come to its end: the turn had ended, or the run was stopped.
	Closed bool `json:"closed,omitempty"`
	// Completion is how the turn ends with this call; nil if it does not. Failed says that the guard failed the run then.
	Completion *cairn.Completion `json:"completion,omitempty"`
	Failed     *cairn.Error      `json:"failed,omitempty"`
	// Feedback is the guard's, which sent the model back to work.
	Feedback string `json:"feedback,omitempty"`
	// Attempts is how often the tool was called, if more than once.
	Attempts int `json:"attempts,omitempty"`
	// Hit says that the result is from the tool's cache, Made when one that is to be kept there was made.
	Hit    bool      `json:"hit,omitempty"`
	Made   time.Time `json:"made,omitzero"`
	Writes Writes    `json:"writes"`
}

// Consulted says how the consultation of another agent ended.
type Consulted struct {
	Agent   string `json:"agent"`
	ChildID string `json:"child_id"`
	// Status is that of the run that the session came to; empty if there was none.
	Status cairn.RunStatus `json:"status,omitempty"`
}

// Judgement is what user code made of the step's end.
type Judgement struct {
	// Writes are those of the hooks that saw the step's messages.
	Writes Writes `json:"writes"`
	// Completion is how the turn ends; nil if nobody ends it. Failed is why the run fails.
	Completion *cairn.Completion `json:"completion,omitempty"`
	Failed     *cairn.Error      `json:"failed,omitempty"`
	// Feedback sends the model back to work.
	Feedback string `json:"feedback,omitempty"`
	// Owes says that the turn would end, but for the typed output that is still owed.
	Owes bool `json:"owes,omitempty"`
}

// Ended is a step that has ended, but is committed with a later one.
type Ended struct {
	Messages  []cairn.Message    `json:"messages"`
	Ops       []cairn.Op         `json:"ops,omitempty"`
	Usage     cairn.Usage        `json:"usage"`
	Title     *string            `json:"title,omitempty"`
	Cache     []store.CacheEntry `json:"cache,omitempty"`
	CacheDrop []string           `json:"cache_drop,omitempty"`
}

func (*Opening) place() string   { return "opening" }
func (*Reply) place() string     { return "reply" }
func (*Judgement) place() string { return "judgement" }
func (*Ended) place() string     { return "ended" }
func (f *Result) place() string  { return "call:" + f.Result.CallID }
func (f *Wait) place() string    { return "call:" + f.CallID }
func (f *Row) place() string     { return "row:" + f.Call.ID }
func (f *Attempt) place() string { return "attempt:" + f.CallID + "/" + strconv.Itoa(f.Number) }
func (f *Started) place() string {
	if f.Run == nil {
		return "started:" + f.CallID
	}
	return "started:" + f.CallID + "/" + f.Run.RunID
}

// stored are the facts that can be staged, by the name of their kind.
var stored = map[string]func() Fact{
	"opening":   func() Fact { return new(Opening) },
	"reply":     func() Fact { return new(Reply) },
	"started":   func() Fact { return new(Started) },
	"attempt":   func() Fact { return new(Attempt) },
	"wait":      func() Fact { return new(Wait) },
	"result":    func() Fact { return new(Result) },
	"judgement": func() Fact { return new(Judgement) },
	"ended":     func() Fact { return new(Ended) },
}

// kind returns the name of a fact's kind; empty for one that is never staged.
func kind(f Fact) string {
	switch f.(type) {
	case *Opening:
		return "opening"
	case *Reply:
		return "reply"
	case *Started:
		return "started"
	case *Attempt:
		return "attempt"
	case *Wait:
		return "wait"
	case *Result:
		return "result"
	case *Judgement:
		return "judgement"
	case *Ended:
		return "ended"
	}
	return ""
}

// envelope is the stored form of a fact.
type envelope struct {
	Kind string `json:"kind"`
	// By names the attempt that brought the fact.
	By   string          `json:"by,omitempty"`
	Fact json.RawMessage `json:"fact"`
}
