// Package step holds the facts of a step and their fold.
//
// A step of a run is a list of facts: the model's reply, the calls that were handed over or are pending, their results,
// the decisions of user code. A [Step] is the fold of that list, and [Step.Add] is the only way to change it. The list
// is kept in memory where one process drives the run, and is staged in the store where another process may have to
// continue. A takeover reads the staged list. So a new field of a fact is defined here, written where the fact arises,
// and read where it matters.
//
// The package is pure: no I/O, no clock, no user code. It uses the types of package store, but calls no store.
package step

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/budget"
	"github.com/cairn-agents/cairn/store/driver"
)

// Fact is one thing that happened in a step. Facts are pointers to types of this package, and immutable once added or
// encoded.
type Fact interface {
	// place identifies what the fact is about. Of two facts of a step with the same place, the one staged first stands.
	place() string
}

// Writes are what user code wrote through its handle: operations on the state, context for the model, usage, statements
// for the store's database, the session's title, tags and metadata, its workspace, artifacts, and a request for a
// checkpoint.
type Writes struct {
	Ops        []cairn.Op         `json:"ops,omitempty"`
	Context    []cairn.Message    `json:"context,omitempty"`
	Usage      map[string]float64 `json:"usage,omitempty"`
	Statements []driver.Statement `json:"statements,omitempty"`
	Checkpoint bool               `json:"checkpoint,omitempty"`
	// About is what was written about the session: its title, tags and metadata; nil for nothing.
	About *driver.ContextChange `json:"about,omitempty"`
	// Emitted is what pages are to show, oldest first.
	Emitted []cairn.Data `json:"emitted,omitempty"`
	// Workspace is the reference of the session's workspace after the call; empty if it stays.
	Workspace string `json:"workspace,omitempty"`
	// Artifacts are the files that the call made for the user.
	Artifacts []cairn.Artifact `json:"artifacts,omitempty"`
}

// maxEmitted is how many bytes of emitted data are kept.
const maxEmitted = 64 << 10

// Emit adds data, in place of earlier data of the same name and id. The oldest data beyond maxEmitted is dropped.
func (w *Writes) Emit(d cairn.Data) {
	same := func(other cairn.Data) bool { return d.ID != "" && other.Name == d.Name && other.ID == d.ID }
	if i := slices.IndexFunc(w.Emitted, same); i >= 0 {
		w.Emitted = slices.Clone(w.Emitted) // others may hold the list
		w.Emitted[i] = d
	} else {
		w.Emitted = append(w.Emitted, d)
	}
	total := 0
	for i := len(w.Emitted) - 1; i >= 0; i-- {
		if total += w.Emitted[i].Size(); total > maxEmitted {
			w.Emitted = slices.Clone(w.Emitted[i+1:])
			return
		}
	}
}

// Empty reports whether nothing was written.
func (w *Writes) Empty() bool {
	return w == nil || len(w.Ops)+len(w.Context)+len(w.Usage)+len(w.Statements)+len(w.Emitted)+len(w.Workspace)+len(w.Artifacts) == 0 && !w.Checkpoint && w.About == nil
}

// Opening is what the hooks of the run's beginning wrote. It belongs to the run's first step.
type Opening struct {
	Writes Writes `json:"writes"`
}

// Reply is the outcome of the model call.
type Reply struct {
	// Message is the model's answer; nil if the call failed, or was stopped before anything was said.
	Message *cairn.Message `json:"message,omitempty"`
	// Context lists the messages that were added to the request for this step.
	Context []cairn.Message `json:"context,omitempty"`
	Usage   Bill            `json:"usage"`
	// Refused lists the ids of calls to tools that were off.
	Refused []string     `json:"refused,omitempty"`
	Failed  *cairn.Error `json:"failed,omitempty"`
	// Requested is the model that Message was requested from, if another one gave it.
	Requested string `json:"requested,omitempty"`
	// Said is the text that a failed call had shown.
	Said string `json:"said,omitempty"`
	// Passed lists the events of another server that the model passed on, see [cairn.ChunkEvent].
	Passed []cairn.Event `json:"passed,omitempty"`
	// Writes are those of the hooks around the model call.
	Writes Writes `json:"writes"`
	// Sequence is the log's last sequence once all of the reply was published; 0 if it is not known.
	Sequence int64 `json:"sequence,omitempty"`
	// Limit is the row of the call that asks to raise a budget, if no model was called because one is used up.
	Limit *cairn.PendingCall `json:"limit,omitempty"`
	// Before is what the budget of the session's agent had counted when the step began; nil without a budget.
	Before *budget.Amount `json:"before,omitempty"`
}

// Started is the start of a call that consults another agent's session.
type Started struct {
	CallID  string `json:"call_id"`
	Agent   string `json:"agent"`
	ChildID string `json:"child_id"`
	// Announced reports whether hooks were called for the consultation and the log has it. A call that only waits for a
	// companion has nothing to announce.
	Announced bool `json:"announced,omitempty"`
	// Run is a run of that agent's session that was handed over to be driven; nil if none was.
	Run *turn.Begun `json:"run,omitempty"`
	// Writes are those of the hooks before the call.
	Writes Writes `json:"writes"`
}

// Spent is what models were paid for work that is repeated, since the process that did it left the run before the
// work was stored: calls that were cut, and replies that only that process had.
type Spent struct {
	// By names the attempt that did the work.
	By    string `json:"by"`
	Usage Bill   `json:"usage"`
}

// Attempt is the start of an attempt at a call's tool. For a run whose facts stay in memory, only the attempts after
// the first are staged.
type Attempt struct {
	CallID string `json:"call_id"`
	// Number counts the attempts, from 1.
	Number int `json:"number"`
}

// Sent is the start of an attempt at the tool of an effectful call. It is staged before the tool's function is called, and
// the next lease holder uses it.
type Sent struct {
	CallID string `json:"call_id"`
	// Number counts the attempts of the step, from 1.
	Number int `json:"number"`
	// Row is the call's row in the ledger.
	Row *cairn.PendingCall `json:"row"`
}

// Wait is why a call has no result yet: it is pending until a person answers it, or the session that it consults is
// suspended itself.
type Wait struct {
	CallID string `json:"call_id"`
	// Pending is the row that the commit of the step writes; nil if the call waits for another session.
	Pending *cairn.PendingCall `json:"pending,omitempty"`
	// Waiting is what the session Child is suspended for.
	Waiting *cairn.Suspension `json:"waiting,omitempty"`
	Child   *cairn.ChildRef   `json:"child,omitempty"`
	Writes  Writes            `json:"writes"`
}

// Row is the row of a call that was pending when the run began, as in the store's table of calls. It is never staged.
type Row struct {
	Call *cairn.PendingCall
}

// Result is the outcome of a call.
type Result struct {
	Result *cairn.ToolResult `json:"result"`
	// Began reports whether the tool was called, so the log has the call's start.
	Began bool `json:"began,omitempty"`
	// Consulted is the agent that the call consulted; nil if it consulted none.
	Consulted *Consulted `json:"consulted,omitempty"`
	// Closed reports whether the call was closed before it was carried to its end: the turn had ended, or the run was
	// stopped.
	Closed bool `json:"closed,omitempty"`
	// Completion is how the turn ends with this call; nil if it does not. Failed is why the guard then failed the run.
	Completion *cairn.Completion `json:"completion,omitempty"`
	Failed     *cairn.Error      `json:"failed,omitempty"`
	// Feedback is what the guard sent back to the model for more work.
	Feedback string `json:"feedback,omitempty"`
	// Effect is the row of an effectful call whose tool was called, in its final state; otherwise nil.
	Effect *cairn.PendingCall `json:"effect,omitempty"`
	// Attempts is how often the tool was called; 0 for once.
	Attempts int `json:"attempts,omitempty"`
	// Took is how long the tool took, with all its attempts in the effect.
	Took time.Duration `json:"took,omitempty"`
	// Hit reports whether the result is from the tool's cache. Made is when a result to be cached was made.
	Hit    bool      `json:"hit,omitempty"`
	Made   time.Time `json:"made,omitzero"`
	Writes Writes    `json:"writes"`
}

// Consulted is how the consultation of another agent ended.
type Consulted struct {
	Agent   string `json:"agent"`
	ChildID string `json:"child_id"`
	// Status is that of the run that the session came to; empty if there was no run.
	Status cairn.RunStatus `json:"status,omitempty"`
}

// Judgement is what user code decided about the step's end.
type Judgement struct {
	// Writes are those of the hooks that were called with the step's messages.
	Writes Writes `json:"writes"`
	// Completion is how the turn ends; nil if it does not. Failed is why the run fails.
	Completion *cairn.Completion `json:"completion,omitempty"`
	Failed     *cairn.Error      `json:"failed,omitempty"`
	// Feedback is sent to the model, which continues to work.
	Feedback string `json:"feedback,omitempty"`
	// Owes reports whether the turn would end, except that the typed output is still missing.
	Owes bool `json:"owes,omitempty"`
}

// Ended is a step that has ended and is committed with a later one.
type Ended struct {
	Messages  []cairn.Message       `json:"messages"`
	Ops       []cairn.Op            `json:"ops,omitempty"`
	Usage     Bill                  `json:"usage"`
	About     *driver.ContextChange `json:"about,omitempty"`
	Cache     []driver.CacheEntry   `json:"cache,omitempty"`
	CacheDrop []string              `json:"cache_drop,omitempty"`
}

func (*Opening) place() string   { return "opening" }
func (*Reply) place() string     { return "reply" }
func (*Judgement) place() string { return "judgement" }
func (*Ended) place() string     { return "ended" }
func (f *Spent) place() string   { return spentPlace + f.By }
func (f *Result) place() string  { return "call:" + f.Result.CallID }
func (f *Wait) place() string    { return "call:" + f.CallID }
func (f *Row) place() string     { return "row:" + f.Call.ID }
func (f *Attempt) place() string { return "attempt:" + f.CallID + "/" + strconv.Itoa(f.Number) }
func (f *Sent) place() string    { return "sent:" + f.CallID + "/" + strconv.Itoa(f.Number) }
func (f *Started) place() string {
	if f.Run == nil {
		return "started:" + f.CallID
	}
	return "started:" + f.CallID + "/" + f.Run.RunID
}

// stored makes the facts that can be staged, by the name of their kind.
var stored = map[string]func() Fact{
	"opening":   func() Fact { return new(Opening) },
	"reply":     func() Fact { return new(Reply) },
	"started":   func() Fact { return new(Started) },
	"attempt":   func() Fact { return new(Attempt) },
	"sent":      func() Fact { return new(Sent) },
	"spent":     func() Fact { return new(Spent) },
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
	case *Sent:
		return "sent"
	case *Spent:
		return "spent"
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
	// By names the attempt that staged the fact.
	By   string          `json:"by,omitempty"`
	Fact json.RawMessage `json:"fact"`
}
