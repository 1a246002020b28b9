package client

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
)

// Chat is a page of a conversation as a chat client, such as the AI SDK's, shows it.
type Chat struct {
	// Messages are the messages of the page, oldest first. The first page has the newest ones.
	Messages []ChatMessage `json:"messages"`
	// Next is the cursor of the page before, with older messages; empty if there are none.
	Next string `json:"next,omitempty"`
	// Streaming reports that a turn is under way, which is not among the messages.
	Streaming bool `json:"streaming"`
	// Cursor is where [Client.Events] continues the conversation.
	Cursor string `json:"cursor"`
}

// ChatMessage is a message of a [Chat], in the form of the AI SDK's UIMessage.
type ChatMessage struct {
	ID       string            `json:"id"`
	Role     string            `json:"role"`
	Metadata json.RawMessage   `json:"metadata,omitempty"`
	Parts    []json.RawMessage `json:"parts"`
}

// Chat returns a page of a chat: at most limit messages, the newest for an empty cursor; 0 means 100, which is the
// maximum. id is the id of a thread or of a session. The error is ErrExpired for an expired chat, and ErrOutdated for a
// cursor at a message that was replaced since.
func (c *Client) Chat(ctx context.Context, id string, limit int, cursor string) (*Chat, error) {
	query := url.Values{}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	set(query, "cursor", cursor)
	return out[Chat](c, ctx, "GET", "/chat/"+url.PathEscape(id), query, nil)
}

// ChatBranch is an earlier version of a chat, which an edited or regenerated message has replaced. [Client.Chat]
// returns it by its id.
type ChatBranch struct {
	// ID is the id of the session that keeps it. GET /chat/{id} shows it, POST /sessions/{id}/branch continues it in a new
	// session.
	ID string `json:"id"`
	// MessageID is the id of the message that was edited, or answered again. The messages before it are common to both.
	MessageID string `json:"message_id"`
	// CreatedAt is when it was replaced.
	CreatedAt time.Time `json:"created_at"`
}

// Branches lists the earlier versions of a chat, newest first. Page sizes are as in [Client.Sessions].
func (c *Client) Branches(ctx context.Context, id string, limit int, cursor string) (*cairn.Page[ChatBranch], error) {
	return out[cairn.Page[ChatBranch]](c, ctx, "GET", "/chat/"+url.PathEscape(id)+"/branches", page(limit, cursor), nil)
}

// SetChat changes a chat: the latest session of its thread, see [Client.SetContext]. Change.Archived applies to the
// whole thread.
func (c *Client) SetChat(ctx context.Context, id string, change Change) (*cairn.Session, error) {
	return out[cairn.Session](c, ctx, "PATCH", "/chat/"+url.PathEscape(id), nil, change)
}

// DeleteChat deletes all sessions of a thread, see [Client.Delete].
func (c *Client) DeleteChat(ctx context.Context, id string) error {
	return c.do(ctx, "DELETE", "/chat/"+url.PathEscape(id), nil, nil, nil)
}
