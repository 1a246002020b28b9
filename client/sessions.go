package client

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
)

// Input is the user's input of a turn.
type Input struct {
	Text  string `json:"text,omitempty"`
	Files []File `json:"files,omitempty"`
}

// File is a file of a user's message.
type File struct {
	Name      string `json:"name,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	// URL is a "data:" URL, or an address from which the model's provider fetches the file.
	URL string `json:"url"`
}

// Context holds the attributes of a new session.
type Context struct {
	Tags        []string       `json:"tags,omitempty"`
	Metadata    cairn.Metadata `json:"metadata,omitempty"`
	ExpiresAt   time.Time      `json:"expires_at,omitzero"`
	TraceParent string         `json:"trace_parent,omitempty"`
	// Depth is for a caller that is itself an agent's session: the depth of that session, see engine.WithDepth.
	Depth int `json:"depth,omitempty"`
}

// Turn is a turn to start.
type Turn struct {
	// SessionID is the session; empty creates a new one.
	SessionID string `json:"session_id,omitempty"`
	// Agent is required for a new session; for an existing one, the default is its own agent.
	Agent string `json:"agent,omitempty"`
	Input Input  `json:"input"`
	// RunID, which requires a SessionID, is an idempotency key: a Start whose response was lost may be repeated
	// with it, and starts nothing twice. The run's id is derived from it and the session's id.
	RunID string `json:"run_id,omitempty"`
	// FromMessage is the index of a message with which a turn of the session began. This turn takes its place, in one
	// write: see engine.FromMessage. With KeepReplaced, the removed messages are kept as a session below.
	FromMessage  *int `json:"from_message,omitempty"`
	KeepReplaced bool `json:"keep_replaced,omitempty"`
	Context
	// Model is the name of one of the agent's models; empty means the agent's own.
	Model string `json:"model,omitempty"`
	// OnBusy is reject (the default), enqueue, interrupt, rollback or steer. OnWaiting is refuse (the default),
	// withdraw or enqueue. See package engine.
	OnBusy    string `json:"on_busy,omitempty"`
	OnWaiting string `json:"on_waiting,omitempty"`
}

// Started identifies a run that has begun or is queued.
type Started struct {
	SessionID string `json:"session_id"`
	RunID     string `json:"run_id"`
	// Turn is the run's number in its session; 0 for a queued run.
	Turn int `json:"turn"`
}

// Status is the current status of a session.
type Status struct {
	Session *cairn.Session `json:"session"`
	// Resumable is whether and how the session can be continued.
	Resumable Resumability `json:"resumable"`
	// Calls are the open calls of the session's tree.
	Calls []cairn.PendingCall `json:"calls"`
}

// Resumability is how a session can be continued: with Resume, with Retry, or not at all, and why.
type Resumability struct {
	Resume bool   `json:"resume"`
	Retry  bool   `json:"retry"`
	Reason string `json:"reason"`
}

// Page is one page of a list.
type Page[T any] struct {
	Items []T `json:"items"`
	// Next is the cursor of the next page; empty after the last. HasMore reports whether there is a next page.
	Next    string `json:"next,omitempty"`
	HasMore bool   `json:"has_more"`
}

// Snapshot is a transcript with the cursor of the events that follow it.
type Snapshot struct {
	Session  *cairn.Session  `json:"session"`
	Messages []cairn.Message `json:"messages"`
	State    json.RawMessage `json:"state"`
	Cursor   cairn.Cursor    `json:"cursor"`
}

// Create creates a session of an agent; an empty id generates one. The error is ErrExists if the id is taken.
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

// SessionQuery selects the sessions to list. The zero value means all sessions that the client may read and that
// are not archived.
type SessionQuery struct {
	Agent string
	// Statuses selects sessions by status. [StatusExpired] and [StatusDeleted] list removed sessions that can be
	// restored, and cannot be combined with other statuses.
	Statuses []cairn.SessionStatus
	Tags     []string
	// Metadata selects the sessions with each of these values at the same path of their metadata, see
	// store.SessionQuery.
	Metadata cairn.Metadata
	UserID   string // for administrators
	ThreadID string
	// Latest selects only the latest session of each thread.
	Latest bool
	// Archived is [ArchivedFalse], [ArchivedTrue] or [ArchivedAll]. Empty means ArchivedAll with ThreadID, ParentID, and
	// removed sessions, and ArchivedFalse otherwise.
	Archived Archived
	// ParentID lists the sessions of that session's sub-agents and companions, instead of sessions without a parent.
	ParentID string
	// Search selects the sessions with all of these words, or beginnings of them, in their title or first message.
	Search        string
	CreatedAfter  time.Time // inclusive
	CreatedBefore time.Time // exclusive
	UpdatedAfter  time.Time // inclusive
	UpdatedBefore time.Time // exclusive
	Limit         int       // page size, at most 100; 0 means 20
	Cursor        string
}

// Statuses by which removed sessions are listed, see [SessionQuery].
const (
	StatusExpired cairn.SessionStatus = "expired"
	StatusDeleted cairn.SessionStatus = "deleted"
)

// Archived selects sessions by whether they are archived, see [SessionQuery].
type Archived string

const (
	ArchivedFalse Archived = "false" // those that are not archived
	ArchivedTrue  Archived = "true"  // those that are archived
	ArchivedAll   Archived = "all"   // both
)

// Change is a change of a session. Nil fields keep their values.
type Change struct {
	Title *string   `json:"title,omitempty"`
	Tags  *[]string `json:"tags,omitempty"`
	// Metadata sets single entries; an empty string or nil removes one.
	Metadata  cairn.Metadata `json:"metadata,omitempty"`
	ExpiresAt *time.Time     `json:"expires_at,omitempty"`
	UserID    *string        `json:"user_id,omitempty"` // for administrators
	// Archived archives the session with the other sessions of its thread, or makes them current.
	Archived *bool `json:"archived,omitempty"`
}

// SetContext changes a session. It returns the errors of engine.SetContext.
func (c *Client) SetContext(ctx context.Context, id string, change Change) (*cairn.Session, error) {
	return out[cairn.Session](c, ctx, "PATCH", "/sessions/"+url.PathEscape(id), nil, change)
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
	set(query, "agent", q.Agent)
	set(query, "user_id", q.UserID)
	set(query, "thread_id", q.ThreadID)
	if q.Latest {
		query.Set("latest", "true")
	}
	set(query, "archived", string(q.Archived))
	set(query, "parent_id", q.ParentID)
	set(query, "search", q.Search)
	if len(q.Metadata) > 0 {
		raw, err := json.Marshal(q.Metadata)
		if err != nil {
			return nil, cairn.Invalid("metadata", "cannot be encoded as JSON: %v", err)
		}
		set(query, "metadata", string(raw))
	}
	for name, at := range map[string]time.Time{"created_after": q.CreatedAfter, "created_before": q.CreatedBefore,
		"updated_after": q.UpdatedAfter, "updated_before": q.UpdatedBefore} {
		if !at.IsZero() {
			set(query, name, at.Format(time.RFC3339Nano))
		}
	}
	return out[Page[cairn.Session]](c, ctx, "GET", "/sessions", query, nil)
}

// Agent is an agent of the server.
type Agent struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Version     string   `json:"version,omitempty"`
	Models      []string `json:"models,omitempty"` // that a turn may select, in addition to the agent's own
}

// Agents lists the first 100 agents that the client may create sessions of, by name.
func (c *Client) Agents(ctx context.Context) ([]Agent, error) {
	list, err := out[Page[Agent]](c, ctx, "GET", "/agents", url.Values{"limit": {"100"}}, nil)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Decisions lists the decisions about the pending calls of a session, by call. A page has the decisions about at most
// limit calls.
func (c *Client) Decisions(ctx context.Context, id string, limit int, cursor string) (*Page[cairn.CallDecision], error) {
	return out[Page[cairn.CallDecision]](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/decisions", page(limit, cursor), nil)
}

// Request returns the request that a reply of a session answered, see Engine.Request. index is the reply's place in the
// transcript. Only operators and administrators may call it.
func (c *Client) Request(ctx context.Context, id string, index int) (*cairn.SentRequest, error) {
	return out[cairn.SentRequest](c, ctx, "GET", fmt.Sprintf("/sessions/%s/messages/%d/request", url.PathEscape(id), index), nil, nil)
}

// Checkpoint is a checkpoint with the state of its session at that point.
type Checkpoint struct {
	cairn.Checkpoint
	State json.RawMessage `json:"state"`
}

// FindCheckpoint returns a checkpoint of a session. The error is ErrNotFound if the session does not have it.
func (c *Client) FindCheckpoint(ctx context.Context, id, checkpointID string) (*Checkpoint, error) {
	return out[Checkpoint](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/checkpoints/"+url.PathEscape(checkpointID), nil, nil)
}

// Stream is the extent of a session's event stream.
type Stream struct {
	// First and Last are the sequences of the first and the last event on the stream; First is Last+1 if it is empty.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	// Cursor is the place of the last event.
	Cursor cairn.Cursor `json:"cursor"`
	// Ended reports whether no run is under way or about to begin, see engine.Stream.
	Ended bool `json:"ended"`
}

// Stream returns the extent of a session's event stream.
func (c *Client) Stream(ctx context.Context, id string) (*Stream, error) {
	return out[Stream](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/stream", nil, nil)
}

// Emit publishes a custom event on a session's stream, with data that encodes to JSON. It is for administrators.
func (c *Client) Emit(ctx context.Context, id, name string, data any) error {
	in := struct {
		Name string `json:"name"`
		Data any    `json:"data,omitempty"`
	}{name, data}
	return c.do(ctx, "POST", "/sessions/"+url.PathEscape(id)+"/events", nil, in, nil)
}

// Delete deletes a session together with its tree and its queue. A run that is under way is stopped first, which takes
// up to the lease time of the server's engine if its process has died. The error is ErrInvalid for the session of a
// sub-agent.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.do(ctx, "DELETE", "/sessions/"+url.PathEscape(id), nil, nil, nil)
}

// Restore restores a session that was deleted or has expired. The error is ErrExists if it exists, and ErrNotFound if
// there is none that the client may restore.
func (c *Client) Restore(ctx context.Context, id string) (*cairn.Session, error) {
	return out[cairn.Session](c, ctx, "POST", "/sessions/"+url.PathEscape(id)+"/restore", nil, nil)
}

// File returns the n-th file of the message at an index of the transcript, both counted from 0, in the order in
// which an event lists them. The error is ErrNotFound if there is none, or if messageID is not empty and the
// message has another id.
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

// Snapshot returns the transcript of a session and the cursor from which [Client.Events] continues it.
func (c *Client) Snapshot(ctx context.Context, id string) (*Snapshot, error) {
	return out[Snapshot](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/snapshot", nil, nil)
}

// SetState sets the state of a session between turns, also while it is paused: a value of its agent's state type, or
// its JSON as a json.RawMessage. If version is not 0, it must be the session's version. The error is ErrStale if it is
// not, ErrAlreadyRunning while a run holds the session, and ErrState, ErrInvalid or ErrTooLarge for a state that does
// not fit.
func (c *Client) SetState(ctx context.Context, id string, state any, version int64) (*cairn.Session, error) {
	in := struct {
		State   any   `json:"state"`
		Version int64 `json:"version,omitempty"`
	}{state, version}
	return out[cairn.Session](c, ctx, "PUT", "/sessions/"+url.PathEscape(id)+"/state", nil, in)
}

// Messages returns up to 100 messages of a session, as a chat shows them, starting at an index.
func (c *Client) Messages(ctx context.Context, id string, from int) ([]cairn.Message, error) {
	list, err := out[Page[cairn.Message]](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/messages", url.Values{"from": {strconv.Itoa(from)}, "limit": {"100"}}, nil)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Runs lists the runs of a session by turn, or newest first.
func (c *Client) Runs(ctx context.Context, id string, newest bool, limit int, cursor string) (*Page[cairn.Run], error) {
	query := page(limit, cursor)
	query.Set("newest", strconv.FormatBool(newest))
	return out[Page[cairn.Run]](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/runs", query, nil)
}

// Start starts a turn of a new or existing session, and returns once it has begun. It returns the errors of
// engine.Execute.
func (c *Client) Start(ctx context.Context, t Turn) (*Started, error) {
	return out[Started](c, ctx, "POST", "/start", nil, t)
}

// Status returns the current status of a session.
func (c *Client) Status(ctx context.Context, id string) (*Status, error) {
	return out[Status](c, ctx, "GET", "/status", url.Values{"session_id": {id}}, nil)
}

// Interrupt stops a run and keeps the part that its user saw; Abort stops it as failed. An empty run id means the
// session's current run. The error is ErrNotRunning if there is nothing to stop.
func (c *Client) Interrupt(ctx context.Context, id, runID, reason string) error {
	return c.do(ctx, "POST", "/interrupt", nil, of{id, runID, reason}, nil)
}

// Abort stops a run as failed: see [Client.Interrupt].
func (c *Client) Abort(ctx context.Context, id, runID, reason string) error {
	return c.do(ctx, "POST", "/abort", nil, of{id, runID, reason}, nil)
}

// Submit answers a pending call of the tree with the given root. It may be repeated: an answer is stored once.
func (c *Client) Submit(ctx context.Context, root string, s cairn.Submission) (*cairn.Receipt, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	s = s.Storable()
	in := struct {
		SessionID string `json:"session_id"`
		cairn.Submission
	}{root, s}
	return out[cairn.Receipt](c, ctx, "POST", "/submit-tool-result", nil, in)
}

// Call returns a pending call of the tree with the given root, with its decisions.
func (c *Client) Call(ctx context.Context, root, call string) (*cairn.PendingCall, error) {
	return out[cairn.PendingCall](c, ctx, "GET", callPath(root, call), nil, nil)
}

// Claim reserves a pending call for the client's user, or for a reviewer on a server without authentication. The time
// counts in whole seconds; 0 means the server's default of 15 minutes. The error is ErrClaimed if another reviewer has
// claimed the call.
func (c *Client) Claim(ctx context.Context, root, call, reviewer string, d time.Duration) (*cairn.PendingCall, error) {
	in := struct {
		Seconds  int    `json:"seconds,omitempty"`
		Reviewer string `json:"reviewer,omitempty"`
	}{int((d + time.Second - 1) / time.Second), reviewer}
	return out[cairn.PendingCall](c, ctx, "POST", callPath(root, call)+"/claim", nil, in)
}

// Release ends a claim: see [Client.Claim].
func (c *Client) Release(ctx context.Context, root, call, reviewer string) (*cairn.PendingCall, error) {
	in := struct {
		Reviewer string `json:"reviewer,omitempty"`
	}{reviewer}
	return out[cairn.PendingCall](c, ctx, "POST", callPath(root, call)+"/release", nil, in)
}

func callPath(root, call string) string {
	return "/inbox/" + url.PathEscape(root) + "/" + url.PathEscape(call)
}

// InboxQuery selects the pending calls to list. The zero value means all open calls that the client may decide.
type InboxQuery struct {
	RootID string
	Tool   string
	Kind   cairn.CallKind
	UserID string
	Agent  string
	// Statuses selects calls by status; nil means open calls.
	Statuses []cairn.CallStatus
	Limit    int // page size, at most 100; 0 means 20
	Cursor   string
}

// Inbox lists pending calls, oldest first. A page may have no items although it has a Next: then more follow after it.
func (c *Client) Inbox(ctx context.Context, q InboxQuery) (*Page[cairn.PendingCall], error) {
	query := page(q.Limit, q.Cursor)
	set(query, "session_id", q.RootID)
	set(query, "tool", q.Tool)
	set(query, "kind", string(q.Kind))
	set(query, "agent", q.Agent)
	set(query, "user_id", q.UserID)
	for _, s := range q.Statuses {
		query.Add("status", string(s))
	}
	return out[Page[cairn.PendingCall]](c, ctx, "GET", "/inbox", query, nil)
}

// of identifies a session and, optionally, a run of it.
type of struct {
	SessionID string `json:"session_id"`
	RunID     string `json:"run_id,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// out sends a request whose response is a T.
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
