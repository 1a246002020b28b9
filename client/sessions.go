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
	"github.com/cairn-agents/cairn/internal/wire"
)

// The types of this package that have JSON names are the bodies of requests and responses: package server reads and
// writes them. It reads fields with a "query" tag from the query as well, and uses the "schema" tags for its OpenAPI
// document.

// UserMessage is a message of the user.
type UserMessage struct {
	// Text is the text of the message.
	Text string `json:"text,omitempty"`
	// Files are attached to the message.
	Files []Attachment `json:"files,omitempty"`
}

// Attachment is a file of a user's message.
type Attachment struct {
	// Name is the name of the file.
	Name string `json:"name,omitempty"`
	// MediaType is the type of the file, such as "image/png".
	MediaType string `json:"media_type,omitempty"`
	// URL is a "data:" URL, or an address from which the model's provider fetches the file.
	URL string `json:"url"`
}

// Context holds the attributes of a new session.
type Context struct {
	// Tags are words by which sessions are found.
	Tags []string `json:"tags,omitempty"`
	// Metadata is a JSON object of the client's, of at most 16 KiB.
	Metadata cairn.Metadata `json:"metadata,omitempty"`
	// ExpiresAt is when the session expires; without it the lifetime set by the agent applies.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// TraceParent is the W3C trace context that the session's spans belong to.
	TraceParent string `json:"trace_parent,omitempty"`
	// Depth is for a caller that is itself an agent's session: the depth of that session, for which the new one works.
	// It counts against the engine's limit, see engine.WithDepth.
	Depth int `json:"depth,omitempty" schema:"min=0,max=1000"`
}

// Unready determines how a turn is handled if its session cannot take it at once.
type Unready struct {
	// OnBusy is one of reject, enqueue, interrupt, rollback, steer: see engine.OnBusy. Empty means the value that the
	// server's Options.Unready returns, else reject; for a chat client's message, else enqueue.
	OnBusy string `json:"on_busy,omitempty" schema:"enum=reject|enqueue|interrupt|rollback|steer"`
	// OnWaiting is one of refuse, withdraw, enqueue: see engine.OnWaiting. Empty means the value that the server's
	// Options.Unready returns, else refuse.
	OnWaiting string `json:"on_waiting,omitempty" schema:"enum=refuse|withdraw|enqueue"`
}

// Turn is a turn to start.
type Turn struct {
	// SessionID is the id of the session; empty creates a new one.
	SessionID string `json:"session_id,omitempty" query:"session_id"`
	// Agent is the agent's name. It defaults to the session's agent or, for a new session, to the engine's only
	// agent.
	Agent string `json:"agent,omitempty"`
	// Input is the message of the user.
	Input UserMessage `json:"input"`
	// RunID, which requires a SessionID, makes the request idempotent: if the session already has this run, no run begins
	// and the response names the existing one. Any valid id serves: the run's id is derived from it and the session's id.
	RunID string `json:"run_id,omitempty"`
	// FromMessage is the index of a message with which a turn of the session began. The new turn takes its place, in one
	// write, and everything from there on is gone from the session: see engine.FromMessage.
	FromMessage *int `json:"from_message,omitempty"`
	// KeepReplaced keeps the messages that FromMessage removes, as a session below: see engine.KeepReplaced.
	KeepReplaced bool `json:"keep_replaced,omitempty"`
	Context
	Unready
	// Model is the name of one of the agent's models; empty means the agent's own: see engine.WithModel.
	Model string `json:"model,omitempty"`
}

// Started identifies a run that has begun or is queued.
type Started struct {
	// SessionID is the session's id.
	SessionID string `json:"session_id"`
	// RunID is the id of the run that has begun, or is queued.
	RunID string `json:"run_id"`
	// Turn is the run's number in its session; 0 for one that is queued.
	Turn int `json:"turn"`
}

// Status describes a session, whether it can be resumed, and its open calls.
type Status struct {
	// Session is the session as it is now.
	Session *cairn.Session `json:"session"`
	// Resumable says whether and how it can be resumed.
	Resumable Resumability `json:"resumable"`
	// Calls are the open pending calls of the session and of the sessions below it. A reviewer who may not read the
	// session sees the calls that it may decide.
	Calls []cairn.PendingCall `json:"calls"`
	// Error is why the last run failed, if the session has failed: its code, with words that are meant for users. An
	// operator gets the whole error.
	Error *cairn.Error `json:"error,omitempty"`
	// Situation is why the session waits, its current activity, or the outcome of its last run.
	Situation *cairn.Situation `json:"situation"`
}

// Resumability describes how a session can be continued.
type Resumability struct {
	// Resume and Retry say which verb continues it; at most one is true.
	Resume bool `json:"resume"`
	Retry  bool `json:"retry"`
	// Reason is the reason as text.
	Reason string `json:"reason"`
}

// SessionSnapshot is a transcript with the cursor of the events that follow it.
type SessionSnapshot struct {
	// Session is the session as of the cursor.
	Session *cairn.Session `json:"session"`
	// Messages are its transcript, from the message with the index Offset on.
	Messages []cairn.Message `json:"messages"`
	// Offset is 0 unless the request names a number of last messages.
	Offset int `json:"offset,omitempty"`
	// State is its state.
	State json.RawMessage `json:"state"`
	// Cursor is the log position that all of this belongs to: later events are behind it.
	Cursor cairn.Cursor `json:"cursor"`
}

// Create creates a session of an agent; an empty id generates one. The error is ErrExists if the id is taken.
func (c *Client) Create(ctx context.Context, id, agent string, x Context) (*cairn.Session, error) {
	in := struct {
		wire.Create
		Context
	}{wire.Create{SessionID: id, Agent: agent}, x}
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

// Change is a change of a session. Fields that are nil, or absent from a request, keep their values.
type Change struct {
	// Title replaces the title.
	Title *string `json:"title,omitempty"`
	// Tags replaces all tags.
	Tags *[]string `json:"tags,omitempty"`
	// Metadata sets single entries; null or an empty string removes an entry.
	Metadata cairn.Metadata `json:"metadata,omitempty"`
	// ExpiresAt is when the session expires.
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	// UserID may be set by administrators only.
	UserID *string `json:"user_id,omitempty"`
	// Archived archives the session with the other sessions of its thread, or makes them current. Lists leave archived
	// sessions out; nothing else changes, and the next message of the user makes the session current.
	Archived *bool `json:"archived,omitempty"`
}

// SetContext changes a session. It returns the errors of engine.SetContext.
func (c *Client) SetContext(ctx context.Context, id string, change Change) (*cairn.Session, error) {
	return out[cairn.Session](c, ctx, "PATCH", "/sessions/"+url.PathEscape(id), nil, change)
}

// Sessions lists sessions, the newest first.
func (c *Client) Sessions(ctx context.Context, q SessionQuery) (*cairn.Page[cairn.Session], error) {
	query, err := q.values()
	if err != nil {
		return nil, err
	}
	return out[cairn.Page[cairn.Session]](c, ctx, "GET", "/sessions", query, nil)
}

// values returns the query of a request.
func (q *SessionQuery) values() (url.Values, error) {
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
	return query, nil
}

// ListedSession is a session with its situation.
type ListedSession struct {
	*cairn.Session
	// Situation is why the session waits, its current activity, or the outcome of its last run, if it was
	// requested. Lists do not have the activity of running sessions.
	Situation *cairn.Situation `json:"situation,omitempty"`
}

// Situations lists sessions as [Client.Sessions] does, each with its situation.
func (c *Client) Situations(ctx context.Context, q SessionQuery) (*cairn.Page[ListedSession], error) {
	query, err := q.values()
	if err != nil {
		return nil, err
	}
	query.Set("include", "situation")
	return out[cairn.Page[ListedSession]](c, ctx, "GET", "/sessions", query, nil)
}

// StatusCount is the number of sessions with a status.
type StatusCount struct {
	// Status is the status.
	Status cairn.SessionStatus `json:"status"`
	// Count is the number of sessions. There are more of them if More is set.
	Count int  `json:"count"`
	More  bool `json:"more,omitempty"`
}

// CountSessions counts the sessions that a query selects, by status; q.Latest is ignored. It counts at most limit sessions
// of each status: at most 1000, and 100 for 0.
func (c *Client) CountSessions(ctx context.Context, q SessionQuery, limit int) ([]StatusCount, error) {
	q.Limit, q.Cursor, q.Latest = limit, "", false
	query, err := q.values()
	if err != nil {
		return nil, err
	}
	counts, err := out[SessionCounts](c, ctx, "GET", "/session-counts", query, nil)
	if err != nil {
		return nil, err
	}
	return counts.Statuses, nil
}

// SessionCounts are the numbers of sessions by status.
type SessionCounts struct {
	// Statuses has each status that was counted, also those without a session.
	Statuses []StatusCount `json:"statuses"`
}

// Agent is an agent as the users of its sessions may know it.
type Agent struct {
	// Name is the agent's name, by which requests for a new session select it.
	Name string `json:"name"`
	// Description is its purpose.
	Description string `json:"description,omitempty"`
	// Version is the version that new sessions get; empty if the agent has none.
	Version string `json:"version,omitempty"`
	// Models are the names of the models that a turn may select, in addition to the agent's own.
	Models []string `json:"models,omitempty"`
	// Startable reports whether the client may create sessions of the agent. Only operators also see other agents.
	Startable bool `json:"startable"`
	// Memory is the kind of owner of the agent's memories: user, session or group. It is empty for an agent without memories
	// that can be read.
	Memory cairn.MemoryScopeKind `json:"memory,omitempty"`
}

// Agents lists the first 100 agents that the client may create sessions of, by name. An operator gets all agents.
func (c *Client) Agents(ctx context.Context) ([]Agent, error) {
	list, err := out[cairn.Page[Agent]](c, ctx, "GET", "/agents", url.Values{"limit": {"100"}}, nil)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Decisions lists the decisions about the pending calls of a session, by call. A page has the decisions about at most
// limit calls.
func (c *Client) Decisions(ctx context.Context, id string, limit int, cursor string) (*cairn.Page[cairn.CallDecision], error) {
	return out[cairn.Page[cairn.CallDecision]](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/decisions", page(limit, cursor), nil)
}

// Request returns the request that a reply of a session answered, see Engine.Request. index is the reply's place in the
// transcript. Only operators and administrators may call it.
func (c *Client) Request(ctx context.Context, id string, index int) (*cairn.SentRequest, error) {
	return out[cairn.SentRequest](c, ctx, "GET", fmt.Sprintf("/sessions/%s/messages/%d/request", url.PathEscape(id), index), nil, nil)
}

// CheckpointView is a checkpoint with the state of its session at that point.
type CheckpointView struct {
	cairn.Checkpoint
	// State is the session's state as of the checkpoint.
	State json.RawMessage `json:"state"`
}

// FindCheckpoint returns a checkpoint of a session. The error is ErrNotFound if the session does not have it.
func (c *Client) FindCheckpoint(ctx context.Context, id, checkpointID string) (*CheckpointView, error) {
	return out[CheckpointView](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/checkpoints/"+url.PathEscape(checkpointID), nil, nil)
}

// Stream is the extent of a session's event stream.
type Stream struct {
	// First is the sequence of the first event that is left, Last the sequence of the last event. First is Last+1 if no
	// event is left.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	// Cursor is the place of the last event: the events after it are new.
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
	in := wire.Emit{Name: name}
	if data != nil {
		var err error
		if in.Data, err = encode(data); err != nil {
			return err
		}
	}
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
	return c.file(ctx, "/sessions/"+url.PathEscape(session)+"/messages/"+strconv.Itoa(index)+"/files/"+strconv.Itoa(n), query)
}

// Export returns an export of a session with those below it: "jsonl" for a line of JSON, or "html" for a page. whole adds
// hidden messages, instructions, tools and private errors; the error is ErrInvalid unless the principal is an operator or an administrator.
// It is ErrTooLarge for an export beyond Options.MaxBody.
func (c *Client) Export(ctx context.Context, session, format string, whole bool) (*cairn.File, error) {
	query := url.Values{}
	set(query, "format", format)
	setBool(query, "whole", whole)
	return c.file(ctx, "/sessions/"+url.PathEscape(session)+"/export", query)
}

// file returns the file at a path.
func (c *Client) file(ctx context.Context, path string, query url.Values) (*cairn.File, error) {
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
func (c *Client) Snapshot(ctx context.Context, id string) (*SessionSnapshot, error) {
	return out[SessionSnapshot](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/snapshot", nil, nil)
}

// SetState sets the state of a session between turns, also while it is paused: a value of its agent's state type, or
// its JSON as a json.RawMessage. If version is not 0, it must be the session's version. The error is ErrStale if it is
// not, ErrAlreadyRunning while a run holds the session, and ErrState, ErrInvalid or ErrTooLarge for a state that does
// not fit.
func (c *Client) SetState(ctx context.Context, id string, state any, version int64) (*cairn.Session, error) {
	raw, err := encode(state)
	if err != nil {
		return nil, err
	}
	in := wire.SetState{State: raw, Version: version}
	return out[cairn.Session](c, ctx, "PUT", "/sessions/"+url.PathEscape(id)+"/state", nil, in)
}

// Messages returns up to 100 messages of a session, as a chat shows them, starting at an index.
func (c *Client) Messages(ctx context.Context, id string, from int) ([]cairn.Message, error) {
	list, err := out[cairn.Page[cairn.Message]](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/messages", url.Values{"from": {strconv.Itoa(from)}, "limit": {"100"}}, nil)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Runs lists the runs of a session by turn, or newest first.
func (c *Client) Runs(ctx context.Context, id string, newest bool, limit int, cursor string) (*cairn.Page[cairn.Run], error) {
	query := page(limit, cursor)
	query.Set("newest", strconv.FormatBool(newest))
	return out[cairn.Page[cairn.Run]](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/runs", query, nil)
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
	return c.do(ctx, "POST", "/interrupt", nil, wire.Stop{SessionID: id, RunID: runID, Reason: reason}, nil)
}

// Abort stops a run as failed: see [Client.Interrupt].
func (c *Client) Abort(ctx context.Context, id, runID, reason string) error {
	return c.do(ctx, "POST", "/abort", nil, wire.Stop{SessionID: id, RunID: runID, Reason: reason}, nil)
}

// Submit answers a pending call of the tree with the given root. It may be repeated: an answer is stored once.
func (c *Client) Submit(ctx context.Context, root string, s cairn.Submission) (*cairn.Receipt, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	s = s.Storable()
	in := wire.Submit{SessionID: root, Submission: s}
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
	in := wire.Claim{Seconds: int((d + time.Second - 1) / time.Second), Reviewer: reviewer}
	return out[cairn.PendingCall](c, ctx, "POST", callPath(root, call)+"/claim", nil, in)
}

// Release ends a claim: see [Client.Claim].
func (c *Client) Release(ctx context.Context, root, call, reviewer string) (*cairn.PendingCall, error) {
	return out[cairn.PendingCall](c, ctx, "POST", callPath(root, call)+"/release", nil, wire.Release{Reviewer: reviewer})
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
func (c *Client) Inbox(ctx context.Context, q InboxQuery) (*cairn.Page[cairn.PendingCall], error) {
	query := page(q.Limit, q.Cursor)
	set(query, "session_id", q.RootID)
	set(query, "tool", q.Tool)
	set(query, "kind", string(q.Kind))
	set(query, "agent", q.Agent)
	set(query, "user_id", q.UserID)
	for _, s := range q.Statuses {
		query.Add("status", string(s))
	}
	return out[cairn.Page[cairn.PendingCall]](c, ctx, "GET", "/inbox", query, nil)
}

// ClearTaint ends the taint of a session, see [cairn.Step.Taint], for administrators. The model reads the notes.
func (c *Client) ClearTaint(ctx context.Context, id, notes string) error {
	return c.do(ctx, "POST", "/sessions/"+url.PathEscape(id)+"/clear-taint", nil, wire.ClearTaint{Notes: notes}, nil)
}

// out sends a request whose response is a T.
func out[T any](c *Client, ctx context.Context, method, path string, query url.Values, in any) (*T, error) {
	value := new(T)
	if err := c.do(ctx, method, path, query, in, value); err != nil {
		return nil, err
	}
	return value, nil
}

func page(limit int, cursor string) url.Values { return paged(url.Values{}, limit, cursor) }

// paged adds to a query which page of a list is wanted.
func paged(query url.Values, limit int, cursor string) url.Values {
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	set(query, "cursor", cursor)
	return query
}

func setBool(query url.Values, name string, value bool) {
	if value {
		query.Set(name, "true")
	}
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}
