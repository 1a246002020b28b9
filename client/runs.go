package client

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/pieces"
	"github.com/cairn-agents/cairn/internal/wire"
)

// Text is a piece of a run's text for the user: the next part of a reply, or the notice that a partial reply is void.
// It is engine.Text over HTTP.
type Text struct {
	// Delta is the next piece of the reply. It is empty if Discarded is set.
	Delta string
	// Step is the number of the step that produced it, from 1. The pieces of one step are one message.
	Step int
	// Discarded voids everything yielded of this step so far. The text that replaces it follows under the same number.
	// If the text of several steps is void, there is a Text for each of them, the last step first.
	Discarded bool
}

// String returns the piece as a terminal may show it: Delta, or a line that says that the reply is discarded.
func (t Text) String() string {
	if t.Discarded {
		return "\n[discarded]\n"
	}
	return t.Delta
}

// Text yields a run's text for the user, as the model produces it, from the beginning of the run to its end: the text
// of its own session, without reasoning, tools and sub-agents. The text that was yielded and not discarded is the text
// in the transcript. The loop ends without an error when the run ends, regardless of its outcome, and early only with
// one of the errors of [Client.Events]. For a queued run it waits until the run begins.
func (c *Client) Text(ctx context.Context, session, runID string) iter.Seq2[Text, error] {
	return func(yield func(Text, error) bool) {
		types := []cairn.EventType{cairn.EventTextDelta, cairn.EventStepCommitted, cairn.EventStepDiscarded}
		for p, err := range pieces.Of(session, c.runEvents(ctx, session, runID, types...)) {
			if !yield(Text(p), err) {
				return
			}
		}
	}
}

// Wait returns a run's outcome once it has ended or is suspended, also for a queued run. For a failed run it returns
// both the outcome and its error. Any other error is one of [Client.Events], and means that the outcome is unknown;
// ErrNotFound also means that the run was removed from the queue.
func (c *Client) Wait(ctx context.Context, session, runID string) (*cairn.Result, error) {
	for _, err := range c.runEvents(ctx, session, runID, cairn.EventRunEnd) {
		if err != nil {
			return nil, err
		}
	}
	run, err := c.run(ctx, session, runID)
	if err != nil {
		return nil, err
	}
	res := run.Result()
	if res.Status == cairn.RunFailed && res.Error != nil {
		return res, res.Error
	}
	return res, nil
}

// runEvents yields the events of a run of some types, once it begins if it is queued.
func (c *Client) runEvents(ctx context.Context, session, runID string, types ...cairn.EventType) iter.Seq2[cairn.Event, error] {
	return func(yield func(cairn.Event, error) bool) {
		var wait pauses
		absent := false // at the last look it was neither among the runs nor in the queue: it may have begun between the two
		for {
			again := false
			for ev, err := range c.Events(ctx, session, &EventsOptions{RunID: runID, Types: types}) {
				if errors.Is(err, cairn.ErrNotFound) {
					turns, failed := c.Queue(ctx, session)
					queued := failed == nil && slices.ContainsFunc(turns, func(t QueuedTurn) bool { return t.ID == runID })
					again = queued || failed == nil && !absent
					if absent = !queued; again {
						break
					}
				}
				if !yield(ev, err) {
					return
				}
			}
			if !again {
				return
			}
			if err := wait.sleep(ctx, nil); err != nil {
				yield(cairn.Event{}, err)
				return
			}
		}
	}
}

// run returns the record of a run.
func (c *Client) run(ctx context.Context, session, runID string) (*cairn.Run, error) {
	page := &cairn.Page[cairn.Run]{}
	for first := true; first || page.Next != ""; first = false {
		var err error
		if page, err = c.Runs(ctx, session, true, 100, page.Next); err != nil {
			return nil, err
		}
		for i := range page.Items {
			if page.Items[i].ID == runID {
				return &page.Items[i], nil
			}
		}
	}
	return nil, cairn.Errorf(cairn.ErrNotFound, "session %q has no run %q", session, runID)
}

// ContinueOption changes how a session is continued.
type ContinueOption func(*continuation)

type continuation struct {
	wire.Retry
	Continuation
}

// Continuation is the input of a session that is resumed.
type Continuation struct {
	// Input is an optional message to the model, which precedes the run.
	Input *UserMessage `json:"input,omitempty"`
	// CheckpointID is the checkpoint to rewind to first; empty means none.
	CheckpointID string `json:"checkpoint_id,omitempty"`
}

// WithModel selects one of the agent's models by its name; empty means the agent's own. Without it, the run uses the
// model of the one that it continues.
func WithModel(name string) ContinueOption { return func(x *continuation) { x.Model = &name } }

// WithInput adds a message of the user's before the run. It is for [Client.Resume].
func WithInput(in UserMessage) ContinueOption { return func(x *continuation) { x.Input = &in } }

// FromCheckpoint rewinds the session to a checkpoint first. It is for [Client.Resume].
func FromCheckpoint(id string) ContinueOption { return func(x *continuation) { x.CheckpointID = id } }

func continued(session string, opts []ContinueOption) continuation {
	x := continuation{Retry: wire.Retry{SessionID: session}}
	for _, o := range opts {
		o(&x)
	}
	return x
}

// Resume continues a session that was interrupted or is paused, or whose process died.
func (c *Client) Resume(ctx context.Context, id string, opts ...ContinueOption) (*Started, error) {
	return out[Started](c, ctx, "POST", "/resume", nil, continued(id, opts))
}

// Retry runs a failed turn again from its last committed step. The error is ErrInvalid for an option other than
// [WithModel].
func (c *Client) Retry(ctx context.Context, id string, opts ...ContinueOption) (*Started, error) {
	x := continued(id, opts)
	if x.Input != nil || x.CheckpointID != "" {
		return nil, cairn.Invalid("options", "Retry does not support WithInput and FromCheckpoint")
	}
	return out[Started](c, ctx, "POST", "/retry", nil, x)
}

// NewAttachment returns a file for a user's message: its bytes as a "data:" URL, or its address. The error is ErrInvalid if
// it has neither.
func NewAttachment(f *cairn.File) (Attachment, error) {
	if f == nil || len(f.Data) == 0 && f.URL == "" {
		return Attachment{}, cairn.Invalid("file", "must have data or an address")
	}
	return fileOf(f), nil
}
