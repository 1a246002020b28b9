package client

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/wire"
)

// Checkpoints lists the checkpoints of a session in order of writing, or newest first.
func (c *Client) Checkpoints(ctx context.Context, id string, newest bool, limit int, cursor string) (*cairn.Page[cairn.Checkpoint], error) {
	query := page(limit, cursor)
	query.Set("newest", strconv.FormatBool(newest))
	return out[cairn.Page[cairn.Checkpoint]](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/checkpoints", query, nil)
}

// Checkpoint makes a checkpoint of a session between turns. The error is ErrAlreadyRunning during one.
func (c *Client) Checkpoint(ctx context.Context, id string) (*cairn.Checkpoint, error) {
	return out[cairn.Checkpoint](c, ctx, "POST", "/sessions/"+url.PathEscape(id)+"/checkpoints", nil, nil)
}

// Branching is where a branch begins. The zero value is the end of the session.
type Branching struct {
	// SessionID is the id of the new session; if it is empty, one is generated.
	SessionID string `json:"session_id,omitempty"`
	// CheckpointID or Messages, a number of messages, is the point to branch from; without either, that is the end.
	CheckpointID string `json:"checkpoint_id,omitempty"`
	Messages     *int   `json:"messages,omitempty"`
}

// Branch makes a new session that begins with the history of another one. It returns the errors of engine.Branch.
func (c *Client) Branch(ctx context.Context, id string, at Branching) (*cairn.Session, error) {
	return out[cairn.Session](c, ctx, "POST", "/sessions/"+url.PathEscape(id)+"/branch", nil, at)
}

// Forking is where a fork begins, and the changes made there.
type Forking struct {
	Branching
	// Model is the model of the fork's turns, as in [Agent].Models; empty for the agent's own. Without it, the fork
	// continues with the model that the session used there.
	Model *string `json:"model,omitempty"`
	// Instructions are the fork's system prompt in place of the agent's. Only administrators may give them.
	Instructions *string `json:"instructions,omitempty"`
	// Answer is another answer to a call that the session waited for, and Result another result of a call. Each selects
	// the point itself; at most one may be set. Only administrators may give a result.
	Answer *cairn.Submission `json:"answer,omitempty"`
	Result *ForkResult       `json:"result,omitempty"`
}

// ForkResult is the result that a call has in a fork.
type ForkResult struct {
	// CallID is the tool call.
	CallID string `json:"call_id"`
	// Output is its result, or Error the text with which it fails. Set one of them.
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Fork makes a new session that continues another one from a point with something changed, and begins its run. The other
// session is not changed. Calls of effectful tools ask for approval first. It returns the errors of engine.Fork.
func (c *Client) Fork(ctx context.Context, id string, in Forking) (*cairn.Session, error) {
	return out[cairn.Session](c, ctx, "POST", "/sessions/"+url.PathEscape(id)+"/fork", nil, in)
}

// Rewind sets a session back to one of its checkpoints. It returns the errors of engine.Rewind.
func (c *Client) Rewind(ctx context.Context, id, checkpointID string) (*cairn.Session, error) {
	in := wire.Rewind{CheckpointID: checkpointID}
	return out[cairn.Session](c, ctx, "POST", "/sessions/"+url.PathEscape(id)+"/rewind", nil, in)
}

// QueuedTurn is a turn that begins once those before it have ended.
type QueuedTurn struct {
	// ID is the id of the run that the turn will have.
	ID string `json:"id"`
	// Messages are the messages that the turn begins with.
	Messages []cairn.Message `json:"messages"`
	// Steer reports whether the messages may join the run under way.
	Steer bool `json:"steer,omitempty"`
	// Context reports that the entry is not a turn, but holds messages to be added to the session.
	Context bool `json:"context,omitempty"`
	// At is the time at which the turn was queued, by the store's clock.
	At time.Time `json:"at,omitzero"`
	// Model is the model of the turn's run.
	Model string `json:"model,omitempty"`
}

// Queue lists the queued turns of a session, in order.
func (c *Client) Queue(ctx context.Context, id string) ([]QueuedTurn, error) {
	list, err := out[cairn.Page[QueuedTurn]](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/queue", nil, nil)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Dequeue removes a turn from the queue. The error is ErrNotFound if it is not in the queue.
func (c *Client) Dequeue(ctx context.Context, id, runID string) error {
	return c.do(ctx, "DELETE", "/sessions/"+url.PathEscape(id)+"/queue/"+url.PathEscape(runID), nil, nil, nil)
}
