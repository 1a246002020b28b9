package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// lease is the length of sessions' leases. It only has to exceed a measurement.
const lease = time.Hour

// cairnSystem commits steps to a store as the engine does: messages, state, checkpoint, usage and lease in one
// commit.
type cairnSystem struct {
	conversation *conversation
	store        driver.Store
	bytes        func(context.Context) (int64, error)
}

type cairnSession struct {
	system *cairnSystem
	row    *cairn.Session
	state  state
	next   int // number of the next step
}

func (c *cairnSystem) open(ctx context.Context, id string, n int) (session, error) {
	return c.begin(ctx, id, n)
}

func (c *cairnSystem) begin(ctx context.Context, id string, n int) (*cairnSession, error) {
	s := &cairnSession{system: c, state: newState(c.conversation), next: firstStep(n)}
	history := c.conversation.history(n)
	commit := &driver.Commit{
		Create:   &cairn.Session{ID: id, Agent: "support", UserID: "user"},
		StartRun: &cairn.Run{ID: "run", Agent: "support", Kind: cairn.RunExecute, Status: cairn.RunRunning},
		Status:   cairn.SessionActive,
		Lease:    driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: lease},
	}
	for i := range history {
		commit.Messages = append(commit.Messages, history[i].cairn(fmt.Sprintf("message-%06d", i)))
	}
	// The history's changes of the state are in its fields.
	for step := range s.next {
		s.state.fields[field(step)] = c.conversation.exchange(step).Value
	}
	commit.InitialState = encode(s.state.fields)
	var err error
	s.row, err = c.store.Commit(ctx, id, commit)
	return s, err
}

func (c *cairnSystem) stored(ctx context.Context) (int64, error) { return c.bytes(ctx) }

func (c *cairnSystem) close() error { return c.store.Close() }

func (s *cairnSession) step(ctx context.Context) error {
	n := s.next
	name := fmt.Sprintf("step-%06d", n)
	list, keyframe := s.state.change(n, s.row.State)
	row, err := s.system.store.Commit(ctx, s.row.ID, &driver.Commit{
		Guard:       driver.Guard{Version: s.row.Version, Token: s.row.Lease.Token},
		Messages:    s.system.conversation.cairn(n),
		State:       &driver.StateChange{Ops: list, Keyframe: keyframe},
		Step:        n + 1,
		Checkpoint:  &cairn.Checkpoint{ID: "checkpoint-" + name, StepID: name, RunID: "run", Step: n + 1, LogSequence: int64(10 * n)},
		LogSequence: int64(10 * n),
		Usage:       cairn.Usage{InputTokens: 900, OutputTokens: 80, ModelCalls: 1, ToolCalls: 1},
		DropStaged:  true,
		Lease:       driver.LeaseChange{Action: driver.LeaseRenew, TTL: lease},
	})
	if err != nil {
		return err
	}
	s.row = row
	s.next++
	return nil
}

func (s *cairnSession) read(ctx context.Context) (out transcript, err error) {
	snapshot, err := s.system.store.Read(ctx, s.row.ID, driver.ToDrive(0))
	if err != nil {
		return out, err
	}
	for _, m := range snapshot.Messages {
		found, err := fromCairn(m)
		if err != nil {
			return out, err
		}
		out.Messages = append(out.Messages, found)
	}
	return out, json.Unmarshal(snapshot.State, &out.State)
}

// cairn converts a message to Cairn's form.
func (m message) cairn(id string) cairn.Message {
	out := cairn.Message{ID: id, Role: m.Role, RunID: "run"}
	if m.Text != "" {
		out.Parts = append(out.Parts, cairn.TextPart(m.Text))
	}
	switch {
	case m.Result != "":
		out.Parts = append(out.Parts, cairn.Part{Type: cairn.PartToolResult,
			Result: &cairn.ToolResult{CallID: m.Call, Tool: toolName, Output: encode(m.Result)}})
	case m.Call != "":
		out.Parts = append(out.Parts, cairn.Part{Type: cairn.PartToolUse,
			ToolUse: &cairn.ToolUse{CallID: m.Call, Tool: toolName, Input: encode(m.Input)}})
	}
	return out
}

func fromCairn(m cairn.Message) (out message, err error) {
	out.Role = m.Role
	for _, part := range m.Parts {
		switch part.Type {
		case cairn.PartText:
			out.Text = part.Text
		case cairn.PartToolUse:
			out.Call = part.ToolUse.CallID
			err = json.Unmarshal(part.ToolUse.Input, &out.Input)
		case cairn.PartToolResult:
			out.Call = part.Result.CallID
			err = json.Unmarshal(part.Result.Output, &out.Result)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// cairn returns the messages of a step in Cairn's form.
func (c *conversation) cairn(step int) []cairn.Message {
	var out []cairn.Message
	for i, m := range c.messages(step) {
		out = append(out, m.cairn(fmt.Sprintf("message-%06d", 2*step+2+i)))
	}
	return out
}

// state is a session's state in the memory of the process that drives it.
type state struct {
	conversation *conversation
	fields       map[string]string
}

func newState(c *conversation) state {
	s := state{conversation: c, fields: map[string]string{}}
	for name, value := range c.State {
		s.fields[name] = value
	}
	return s
}

// change applies a step's change. It returns the operations and, if a keyframe is due, the whole state.
func (s *state) change(step int, at cairn.StatePosition) (list []cairn.Op, keyframe json.RawMessage) {
	name, value := field(step), s.conversation.exchange(step).Value
	s.fields[name] = value
	list = []cairn.Op{{Kind: cairn.OpReplace, Path: "/" + name, Value: encode(value)}}
	if driver.KeyframeDue(at, len(encode(list))) {
		keyframe = encode(s.fields)
	}
	return list, keyframe
}
