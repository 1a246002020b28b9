package cairntest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine/settings"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// Call is the handle of a call made without an engine, and records the writes through it. It embeds Call.Call, the
// handle for a tool's function, and Call.Step, the handle for hooks, guards and stop conditions. [cairn.State] of it
// returns the state as the function left it.
type Call struct {
	*cairn.Call

	scope   *user.Scope
	log     *journal.Log
	answers []*cairn.PendingCall

	mu    sync.Mutex
	blobs map[string][]byte // parts of artifacts, by key
}

const sessionID = "session"

// NewCall returns a handle over a state, which must encode to a JSON object; nil is an empty one. The call's
// fields, such as ID and UserID, may be set before it is used. NewCall panics if the state cannot be encoded
// as a JSON object.
func NewCall(state any) *Call {
	raw := json.RawMessage("{}")
	if state != nil {
		var err error
		if raw, err = json.Marshal(state); err != nil {
			panic(fmt.Sprintf("cairntest.NewCall: state: %v", err))
		}
	}
	if !bytes.HasPrefix(raw, []byte("{")) {
		panic(fmt.Sprintf("cairntest.NewCall: %T must encode as a JSON object", state))
	}
	row := &cairn.Session{ID: sessionID, RootID: sessionID, Agent: "agent"}
	opts := &settings.Options{Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
	log := journal.NewLog(memstore.New(nil).EventLog(), false, opts)
	c := &Call{scope: &user.Scope{}, log: log}
	r := room{raw, cairn.Step{SessionID: row.ID, RunID: "run", Agent: row.Agent, Turn: 1, Number: 1}}
	caller := &user.Caller{Options: opts, Executes: func(string) error { return nil }, StoreBlob: c.storeBlob}
	c.scope.Init(caller, r, log.Emitter(context.Background(), row, r.info.RunID, 0), 1, nil)
	c.Call = &cairn.Call{Step: define.NewStep(r.info, c.scope), ID: "call", Tool: "tool", Input: json.RawMessage("{}")}
	c.pass()
	return c
}

// pass allows the next call of the function to ask, starting with the first question.
func (c *Call) pass() {
	c.scope.LetAsk(&step.Call{Use: &cairn.ToolUse{CallID: c.ID, Tool: c.Tool}, Asked: c.answers})
}

// Answer answers the question that [Call.Asked] returned, or the first one, with a value that is encoded as JSON. After
// that, call the function again, from its start: its [cairn.Call.Ask] returns the answers in their order. As in a
// session, the function's writes in the pass that asked are discarded. Answer panics if the value cannot be encoded as
// JSON.
func (c *Call) Answer(value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("cairntest: answer: %v", err))
	}
	var kept []json.RawMessage
	if q := c.scope.Asked(); q != nil {
		kept = q.Kept
	}
	c.scope.Discard()
	c.answers = append(c.answers, &cairn.PendingCall{CallRef: cairn.CallRef{Kind: cairn.CallQuestion}, Number: len(c.answers) + 1, Kept: kept,
		Status: cairn.CallAnswered, Answer: &cairn.CallAnswer{Kind: cairn.DecisionResult, Value: raw}})
	c.pass()
}

// Asked returns the open question of the function, with its prompt, payload and reviewers; nil if there is none.
func (c *Call) Asked() *cairn.CallRef {
	q := c.scope.Asked()
	if q == nil {
		return nil
	}
	return &cairn.CallRef{Kind: cmp.Or(cairn.CallKind(q.Kind), cairn.CallQuestion), Tool: c.Tool, ToolCallID: c.ID, Input: c.Input, Prompt: q.Prompt, Payload: q.Payload,
		Reviewers: q.Reviewers, Quorum: cairn.Quorum(q.Quorum), WaitAtMost: cairn.Duration(q.AtMost)}
}

// room is the session behind the handle.
type room struct {
	state json.RawMessage
	info  cairn.Step
}

func (r room) Info(int) cairn.Step   { return r.info }
func (r room) Hooks() user.Hooks     { return nil }
func (r room) HasTool(string) bool   { return true }
func (r room) Sent() []cairn.Message { return nil }
func (r room) SwitchedOff() []string { return nil }

func (r room) Tainted() bool { return false }

func (r room) Workspace() string { return "" }

func (r room) View(on ...*step.Writes) (json.RawMessage, error) {
	var lists [][]cairn.Op
	for _, w := range on {
		lists = append(lists, w.Ops)
	}
	return ops.Fold(r.state, lists...)
}

// Run calls a tool as the engine does, with the call's handle. If input, encoded as JSON, violates the tool's
// schema, Run returns an ErrArguments error and does not call the function. Use it for tools whose function has no
// name; approvals, caches and timeouts are not applied.
func (c *Call) Run(ctx context.Context, tool cairn.Tool, input any) (json.RawMessage, error) {
	t := define.Of(&tool)
	raw, err := json.Marshal(input)
	switch {
	case err != nil:
		return nil, cairn.Invalid("input", "%v", err)
	case t.Err != nil:
		return nil, t.Err
	case t.Func == nil:
		return nil, cairn.Invalid("tool", "tool %q has no function", t.Name)
	}
	if err := t.Check(raw); err != nil {
		return nil, err
	}
	c.Tool, c.Input = t.Name, raw
	return t.Run(ctx, c.Call, raw)
}

// Ops returns the writes to the state, in order.
func (c *Call) Ops() []cairn.Op { return c.scope.Writes().Ops }

// Context returns the texts that were added with [cairn.Step.AddContext], and the messages of
// [cairn.Step.SwitchTools] to the model, in order.
func (c *Call) Context() []string {
	var texts []string
	for _, m := range c.scope.Writes().Context {
		if m.CallID == "" {
			texts = append(texts, m.Text())
		}
	}
	return texts
}

// Files returns the files that were added with [cairn.Call.Attach], in order.
func (c *Call) Files() []cairn.File {
	var files []cairn.File
	for _, m := range c.scope.Writes().Context {
		for _, p := range m.Parts {
			if m.CallID != "" && p.File != nil {
				files = append(files, *p.File)
			}
		}
	}
	return files
}

// Artifacts returns the artifacts that were published with [cairn.Call.Publish], in order, by name. A later one replaces
// an earlier one of its name.
func (c *Call) Artifacts() map[string][]byte {
	found := map[string][]byte{}
	for _, a := range c.scope.Writes().Artifacts {
		found[a.Name] = []byte{}
		for _, key := range a.Blobs {
			c.mu.Lock()
			found[a.Name] = append(found[a.Name], c.blobs[key]...)
			c.mu.Unlock()
		}
	}
	return found
}

// storeBlob keeps a part of an artifact.
func (c *Call) storeBlob(_ context.Context, _ driver.BlobOwner, part []byte) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blobs == nil {
		c.blobs = map[string][]byte{}
	}
	key := driver.BlobKey(part)
	c.blobs[key] = bytes.Clone(part)
	return key, nil
}

// Usage returns the amounts that were recorded with [cairn.Step.RecordUsage], summed by name.
func (c *Call) Usage() map[string]float64 { return c.scope.Writes().Usage }

// Statements returns the statements that were recorded with the Exec function of a store's package, such as
// pgstore.Exec, in order. They are not executed.
func (c *Call) Statements() []driver.Statement { return c.scope.Writes().Statements }

// Checkpointed reports whether [cairn.Step.Checkpoint] was called.
func (c *Call) Checkpointed() bool { return c.scope.Writes().Checkpoint }

// Events returns the events that were published with [cairn.Step.Emit], in order.
func (c *Call) Events() []cairn.Event {
	var list []cairn.Event
	_, err := c.log.EachSince(context.Background(), sessionID, 0, func(ev *cairn.Event) { list = append(list, *ev) })
	if err != nil {
		panic(fmt.Sprintf("cairntest: events: %v", err)) // a log in memory does not fail
	}
	return list
}
