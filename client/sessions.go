package client

import (
	"context"
	"encoding/json"
	"mime"
	"net/url"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
)

// Input is what a user says.
type Input struct {
	Text  string `json:"text,omitempty"`
	Files []File `json:"files,omitempty"`
}

// File is a file of a user's message.
type File struct {
	Name      string `json:"name,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	// URL is a "data:" URL, or the address that the model's provider fetches the file from.
	URL string `json:"url"`
}

// Context is what a session that is created is like.
type Context struct {
	Tags        []string          `json:"tags,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	ExpiresAt   time.Time         `json:"expires_at,omitzero"`
	TraceParent string            `json:"trace_parent,omitempty"`
}

// Turn is a turn to start.
type Turn struct {
	// SessionID is the session's; empty makes a new one.
	SessionID string `json:"session_id,omitempty"`
	// Agent is required for a new session; else the session's own is the default.
	Agent string `json:"agent,omitempty"`
	Input Input  `json:"input"`
	// RunID, which needs a SessionID, names the turn: a Start whose answer was lost may be made again with it, and starts
	// nothing twice. The run's id is made of it and the session's.
	RunID string `json:"run_id,omitempty"`
	Context
	// OnBusy is one of reject (the default), enqueue, interrupt, rollback, steer; OnWaiting one of refuse (the default),
	// withdraw, enqueue: see package engine.
	OnBusy    string `json:"on_busy,omitempty"`
	OnWaiting string `json:"on_waiting,omitempty"`
}

// Started names a run that has begun, or is queued.
type Started struct {
	SessionID string `json:"session_id"`
	RunID     string `json:"run_id"`
	// Turn is the run's number in its session; 0 for one that is queued.
	Turn int `json:"turn"`
}

// Status is how a session stands.
type Status struct {
	Session *cairn.Session `json:"session"`
	// Resumable says whether and how it can be continued.
	Resumable Resumability `json:"resumable"`
	// Calls are the pending calls of its tree that are open.
	Calls []cairn.PendingCall `json:"calls"`
}

// Resumability says how a session can be continued: with Resume, with Retry, or not at all, and why.
type Resumability struct {
	Resume bool   `json:"resume"`
	Retry  bool   `json:"retry"`
	Reason string `json:"reason"`
}

// Page is one page of a list.
type Page[T any] struct {
	Items []T `json:"items"`
	// Next is the cursor of the next page; empty after the last.
	Next string `json:"next,omitempty"`
}

// Snapshot is a transcript with the cursor of the events that follow it.
type Snapshot struct {
	Session  *cairn.Session  `json:"session"`
	Messages []cairn.Message `json:"messages"`
	State    json.RawMessage `json:"state"`
	Cursor   cairn.Cursor    `json:"cursor"`
}

// Create creates a session of an agent; an empty id makes one. The error is ErrExists if there is one of the id.
func (c *Client) Create(ctx context.Context, id, agent string, x Context) (*cairn.Session, error) {
	in := struct {
		SessionID string `json:"session_id,omitempty"`
		Agent     string `json:"agent"`
		Context
	}{id, agent, x}
	return out[cairn.Session](c, ctx, "POST", "/sessions", nil, in)
}

// Session returns a session. The error is ErrNotFound if there is none that the client may read.
func (c *Client) Session(ctx context.Context, id string) (*cairn.Session, error) {
	return out[cairn.Session](c, ctx, "GET", "/sessions/"+url.PathEscape(id), nil, nil)
}

// SessionQuery says which sessions are listed. The zero value means all that the client may read.
type SessionQuery struct {
	Agent    string
	Statuses []cairn.SessionStatus
	Tags     []string
	UserID   string // for administrators
	Limit    int    // of one page, at most 100; 0 means 100
	Cursor   string
}

// Sessions lists sessions, the newest first.
func (c *Client) Sessions(ctx context.Context, q SessionQuery) (*Page[cairn.Session], error) {
	query := page(q.Limit, q.Cursor)
	for _, s := range q.Statuses {
		query.Add("status", string(s))
	}
	for _, tag := range q.Tags {
		query.Add("tag", tag)
	}
	set(query, "assistant_id", q.Agent)
	set(query, "user_id", q.UserID)
	return out[Page[cairn.Session]](c, ctx, "GET", "/sessions", query, nil)
}

// Delete deletes a session with its tree.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.do(ctx, "DELETE", "/sessions/"+url.PathEscape(id), nil, nil, nil)
}

// File returns a file of a message: the n-th of those of the message at an index of the transcript, counted from 0, as an event
// lists them. The error is ErrNotFound if there is none, or if the message has another id than messageID, unless that is empty.
func (c *Client) File(ctx context.Context, session string, index int, messageID string, n int) (*cairn.File, error) {
	query := url.Values{}
	if messageID != "" {
		query.Set("message_id", messageID)
	}
	path := "/sessions/" + url.PathEscape(session) + "/messages/" + strconv.Itoa(index) + "/files/" + strconv.Itoa(n)
	req, err := c.request(ctx, "GET", path, query, nil)
	if err != nil {
		return nil, err
	}
	res, data, err := c.answer(req)
	if err != nil {
		return nil, err
	}
	_, named, _ := mime.ParseMediaType(res.Header.Get("Content-Disposition"))
	return &cairn.File{Name: named["filename"], MediaType: res.Header.Get("Content-Type"), Data: data}, nil
}

// Snapshot returns the transcript of a session and the place from where [Client.Events] continues it.
func (c *Client) Snapshot(ctx context.Context, id string) (*Snapshot, error) {
	return out[Snapshot](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/snapshot", nil, nil)
}

// Messages returns messages of a session as a chat shows them, from an index on; at most 100.
func (c *Client) Messages(ctx context.Context, id string, from int) ([]cairn.Message, error) {
	list, err := out[Page[cairn.Message]](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/messages", url.Values{"from": {strconv.Itoa(from)}, "limit": {"100"}}, nil)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Runs lists the runs of a session by turn, or the newest first.
func (c *Client) Runs(ctx context.Context, id string, newest bool, limit int, cursor string) (*Page[cairn.Run], error) {
	query := page(limit, cursor)
	query.Set("newest", strconv.FormatBool(newest))
	return out[Page[cairn.Run]](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/runs", query, nil)
}

// Start starts a turn, of a new session or an existing one, and returns once it has begun. The errors are those of
// engine.Execute.
func (c *Client) Start(ctx context.Context, t Turn) (*Started, error) {
	return out[Started](c, ctx, "POST", "/start", nil, t)
}

// Resume continues a session that was interrupted or is paused, or whose process died.
func (c *Client) Resume(ctx context.Context, id string) (*Started, error) {
	return out[Started](c, ctx, "POST", "/resume", nil, of{SessionID: id})
}

// Retry runs a failed turn again from its last committed step.
func (c *Client) Retry(ctx context.Context, id string) (*Started, error) {
	return out[Started](c, ctx, "POST", "/retry", nil, of{SessionID: id})
}

// Status says how a session stands.
func (c *Client) Status(ctx context.Context, id string) (*Status, error) {
	return out[Status](c, ctx, "GET", "/status", url.Values{"session_id": {id}}, nil)
}

// Interrupt stops a run and keeps what its user saw; Abort stops it as failed. An empty run id means the run that the
// session has now. The error is ErrNotRunning if there is nothing to stop.
func (c *Client) Interrupt(ctx context.Context, id, runID, reason string) error {
	return c.do(ctx, "POST", "/interrupt", nil, of{id, runID, reason}, nil)
}

// Abort stops a run as failed: see [Client.Interrupt].
func (c *Client) Abort(ctx context.Context, id, runID, reason string) error {
	return c.do(ctx, "POST", "/abort", nil, of{id, runID, reason}, nil)
}

// Submit answers a pending call of the tree with the given root. It may be made again: an answer is stored once.
func (c *Client) Submit(ctx context.Context, root string, s cairn.Submission) (*cairn.Receipt, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	in := struct {
		SessionID string `json:"session_id"`
		cairn.Submission
	}{root, s}
	return out[cairn.Receipt](c, ctx, "POST", "/submit-tool-result", nil, in)
}

// InboxQuery says which pending calls are listed. The zero value means all open ones that the client may decide.
type InboxQuery struct {
	RootID string
	Tool   string
	Kind   cairn.CallKind
	UserID string
	Limit  int // of one page, at most 100; 0 means 100
	Cursor string
}

// Inbox lists open calls, the oldest first. A page may have no items though it has a Next, behind which there are more.
func (c *Client) Inbox(ctx context.Context, q InboxQuery) (*Page[cairn.PendingCall], error) {
	query := page(q.Limit, q.Cursor)
	set(query, "session_id", q.RootID)
	set(query, "tool", q.Tool)
	set(query, "kind", string(q.Kind))
	set(query, "user_id", q.UserID)
	return out[Page[cairn.PendingCall]](c, ctx, "GET", "/inbox", query, nil)
}

// of names a session, and perhaps a run of it.
type of struct {
	SessionID string `json:"session_id"`
	RunID     string `json:"run_id,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// out makes a request whose answer is a T.
func out[T any](c *Client, ctx context.Context, method, path string, query url.Values, in any) (*T, error) {
	value := new(T)
	if err := c.do(ctx, method, path, query, in, value); err != nil {
		return nil, err
	}
	return value, nil
}

func page(limit int, cursor string) url.Values {
	query := url.Values{}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	set(query, "cursor", cursor)
	return query
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}
