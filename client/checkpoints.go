package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
)

// Checkpoints lists the checkpoints of a session in order of writing, or newest first.
func (c *Client) Checkpoints(ctx context.Context, id string, newest bool, limit int, cursor string) (*Page[cairn.Checkpoint], error) {
	query := page(limit, cursor)
	query.Set("newest", strconv.FormatBool(newest))
	return out[Page[cairn.Checkpoint]](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/checkpoints", query, nil)
}

// Checkpoint makes a checkpoint of a session between turns. The error is ErrAlreadyRunning during one.
func (c *Client) Checkpoint(ctx context.Context, id string) (*cairn.Checkpoint, error) {
	return out[cairn.Checkpoint](c, ctx, "POST", "/sessions/"+url.PathEscape(id)+"/checkpoints", nil, nil)
}

// Branching is where a branch begins. The zero value is the end of the session.
type Branching struct {
	// SessionID is the id of the new session; empty generates one.
	SessionID string `json:"session_id,omitempty"`
	// CheckpointID or Messages, a number of messages, may be given, not both.
	CheckpointID string `json:"checkpoint_id,omitempty"`
	Messages     *int   `json:"messages,omitempty"`
}

// Branch makes a new session that begins with the history of another one. It returns the errors of engine.Branch.
func (c *Client) Branch(ctx context.Context, id string, at Branching) (*cairn.Session, error) {
	return out[cairn.Session](c, ctx, "POST", "/sessions/"+url.PathEscape(id)+"/branch", nil, at)
}

// Rewind sets a session back to one of its checkpoints. It returns the errors of engine.Rewind.
func (c *Client) Rewind(ctx context.Context, id, checkpointID string) (*cairn.Session, error) {
	in := struct {
		CheckpointID string `json:"checkpoint_id"`
	}{checkpointID}
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
	list, err := out[Page[QueuedTurn]](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/queue", nil, nil)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Dequeue removes a turn from the queue. The error is ErrNotFound if it is not in the queue.
func (c *Client) Dequeue(ctx context.Context, id, runID string) error {
	return c.do(ctx, "DELETE", "/sessions/"+url.PathEscape(id)+"/queue/"+url.PathEscape(runID), nil, nil, nil)
}
