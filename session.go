package cairn

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/internal/ids"
)

// SessionStatus is the state of a session.
type SessionStatus string

const (
	// SessionIdle is a session that no run has used yet.
	SessionIdle SessionStatus = "idle"
	// SessionActive is a session held by a run.
	SessionActive SessionStatus = "active"
	// SessionPaused is a session that waits for people or children; nothing runs.
	SessionPaused SessionStatus = "paused"
	// SessionCompleted is a session whose last turn completed, also after a rewind to the end of a completed turn, and
	// as a branch that begins there. It takes the next message.
	SessionCompleted SessionStatus = "completed"
	// SessionFailed is a session whose last run failed; Engine.Retry repeats it from its last step.
	SessionFailed SessionStatus = "failed"
	// SessionInterrupted is a session whose last run was stopped, or that was rewound into a turn; Engine.Resume
	// continues it.
	SessionInterrupted SessionStatus = "interrupted"
)

// Session is the row of a session: its owner and its progress. Messages, state, runs and checkpoints are rows of
// their own under its id.
type Session struct {
	// ID is chosen by the application, or derived for a child. It is unique in the store. The id of a tenant's session
	// begins with the tenant, see [InTenant].
	ID string `json:"id"`
	// Tenant is the tenant of the session and its whole tree; empty for none. Stores derive it from ID.
	Tenant string `json:"tenant,omitempty"`
	// Agent is the name of the session's agent. It does not change.
	Agent string `json:"agent"`
	// Status is whether a run holds the session, or how the last run ended.
	Status SessionStatus `json:"status"`

	// UserID, Tags and Metadata are for the application: see engine.WithUser and Engine.SetContext. UserID has the
	// tenant of the session, see [Session.User].
	UserID   string   `json:"user_id,omitempty"`
	Tags     []string `json:"tags,omitempty"`
	Metadata Metadata `json:"metadata,omitempty"`
	// Title is the session's title in lists, at most [MaxTitleBytes]; empty for none.
	Title string `json:"title,omitempty"`
	// Opening is the beginning of the user's first message, at most [MaxOpeningBytes] of its text. OpeningAt is the
	// index of that message. The words of Title and Opening can be searched for.
	Opening   string `json:"opening,omitempty"`
	OpeningAt int    `json:"opening_at,omitempty"`
	// ExpiresAt is when the session expires in any case. TTL is how long it may be idle before it expires: see
	// Expiry. Zero means never. They are set on the root; the sessions of its sub-agents and companions expire with
	// it.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	TTL       Duration  `json:"ttl,omitempty"`
	// ArchivedAt is when the session was archived, by the store's clock; zero if it is not archived. An archived session
	// works, expires and is removed like any other, but lists for users leave it out. A new message of the user makes it
	// current again, and so does Engine.SetContext. Only roots are archived, with the other sessions of their thread.
	ArchivedAt time.Time `json:"archived_at,omitzero"`
	// TraceParent is the W3C trace context that the session belongs to.
	TraceParent string `json:"trace_parent,omitempty"`
	// ThreadID is the thread of a root: a conversation of any number of sessions. It is the root's own id unless
	// engine.WithThread names another, and empty for a session with a parent. It does not change.
	ThreadID string `json:"thread_id,omitempty"`
	// ParentID and RootID are the session's place in a tree. A root has no parent and is its own root.
	ParentID string `json:"parent_id,omitempty"`
	RootID   string `json:"root_id"`
	// Depth is the number of agents that the session is consulted through: 0 for a root that no agent began, and one
	// more than its parent's for a child. For a root that an agent of another server began, that server gives the
	// depth, see engine.WithDepth. Options.MaxDepth of the engine limits it. It does not change.
	Depth int `json:"depth,omitempty"`
	// Incarnation identifies the life of the root's id that the session belongs to. Together with the root's id, it
	// names the tree's event log. It is created with the root and shared by all sessions of the tree.
	Incarnation string `json:"incarnation,omitempty"`
	// Kind is the session's relation to its parent; empty for a root.
	Kind ChildKind `json:"kind,omitempty"`
	// Name is the parent's name for the session, if it is a companion; see also ChildReplaced.
	Name string `json:"name,omitempty"`
	// Branch is the origin of a branch, with the model and the instructions that replace its agent's; nil for any other
	// session. It does not change.
	Branch *BranchOrigin `json:"branch,omitempty"`
	// Secret is the secret from which ids of children and pending calls are derived. Only the store exposes it.
	Secret string `json:"-"`

	// Version names the last write to the session, and is the guard of the next one. It is 1 at first and grows with each
	// write, by a random step.
	Version int64 `json:"version"`
	// Epoch counts rewinds. Within one epoch, messages are only appended.
	Epoch int64 `json:"epoch,omitempty"`
	// MessageCount is the length of the transcript, hidden messages included.
	MessageCount int `json:"message_count"`
	// Summary is the position of the latest summary in the transcript; the zero value if there is none, or if a
	// rewind discarded an earlier one.
	Summary SummaryPlace `json:"summary,omitzero"`
	// Tainted reports whether the session is tainted, see [Step.Taint]. TrustAt are the indexes of the messages at which it
	// became tainted and was cleared, in turn.
	Tainted bool  `json:"tainted,omitempty"`
	TrustAt []int `json:"trust_at,omitempty"`

	// RunID and Turn identify the last run. Step is the number of steps that this run has committed.
	RunID string `json:"run_id,omitempty"`
	Turn  int    `json:"turn"`
	Step  int    `json:"step"`
	// Recoveries is how many times the current run was taken over since its last committed step.
	Recoveries int `json:"recoveries,omitempty"`
	// CheckpointID is the latest checkpoint; empty before the first.
	CheckpointID string `json:"checkpoint_id,omitempty"`
	// SuspendedStep is the step that is suspended or was resumed; empty for none. OpenCalls is the number of calls
	// that it waits for. NextDeadline is the earliest time at which one of them counts as failed.
	SuspendedStep string    `json:"suspended_step,omitempty"`
	OpenCalls     int       `json:"open_calls,omitempty"`
	NextDeadline  time.Time `json:"next_deadline,omitzero"`
	// Ending is the stop under which the session's wait is being ended: its sub-agents end first, and the session with
	// the last of them. It is set only while the session is paused. Until then the session takes no answer and is not
	// resumed; a new turn begins once the wait has ended.
	Ending *Stop `json:"ending,omitempty"`
	// Queued is the number of entries in the queue: the queued turns and, while a run is under way, the additions of
	// Engine.AddContext and Engine.SwitchTools that its next commit appends.
	Queued int `json:"queued,omitempty"`
	// LogSequence is the sequence of the last event of the session's commits, not counting verbs while a run is under
	// way. Content of later events of the session is not in its messages yet; events of the run's open step follow it.
	// If the log is kept in another place than the session, it may be lower.
	LogSequence int64 `json:"log_sequence"`
	// Outbox has the events of the last commit that made any, if they are not known to be on the event log. The log is
	// then kept in another place than the session.
	Outbox *Outbox `json:"outbox,omitempty"`
	// Lease is the lease of the process that drives the session, or drove it last. Its JSON omits the owner and the
	// fencing token, with which a process could write to the session: a store encodes them itself.
	Lease Lease `json:"lease,omitzero"`
	// State is the position of the session's state. Engine.State reads the state itself.
	State StatePosition `json:"state"`
	// Usage is the total of all runs, RunUsage the current run's.
	Usage    Usage `json:"usage"`
	RunUsage Usage `json:"run_usage"`

	// CreatedAt and UpdatedAt are the times of the first and the last commit, by the store's clock.
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// AsOf is the store's time when the row was read or written. It, not the clock of the process, decides whether
	// the lease is still valid and whether the deadline has passed. It is not stored.
	AsOf time.Time `json:"-"`

	// Removal is why the session was removed, "deleted" or "expired", and RemovedAt is when. Both are set only in
	// lists of removed sessions.
	Removal   string    `json:"removal,omitempty"`
	RemovedAt time.Time `json:"removed_at,omitzero"`
}

// Outbox has the events of a commit that are to be appended to a log in another place than the store.
type Outbox struct {
	// Version is the session's version with the commit.
	Version int64 `json:"version"`
	// Events are the commit's, in order, without the sequences that the log gives them.
	Events []Event `json:"events"`
}

// BranchOrigin is where a session was branched from, with the changes made there: see engine.Branch and engine.Fork.
type BranchOrigin struct {
	// From is the id of the other session. Messages is how many messages the two have in common.
	From     string `json:"from"`
	Messages int    `json:"messages"`
	// Model is the entry of [Agent].Models that the session's turns use unless they name another; empty for
	// [Agent].Model.
	Model string `json:"model,omitempty"`
	// Instructions are the session's system prompt in place of the agent's, at most [MaxInstructionsBytes]; empty for
	// the agent's. [Session.Public] omits them.
	Instructions string `json:"instructions,omitempty"`
	// CallID is the tool call whose answer or result was changed; empty for none.
	CallID string `json:"call_id,omitempty"`
}

// Validate returns an error for a value that cannot be stored: ErrInvalid, or ErrTooLarge for the instructions. It names
// the field.
func (b *BranchOrigin) Validate() error {
	if len(b.Instructions) > MaxInstructionsBytes {
		return &Error{Code: ErrTooLarge, Field: "instructions",
			Message: fmt.Sprintf("instructions: too large: %d bytes (max %d)", len(b.Instructions), MaxInstructionsBytes)}
	}
	if b.Messages < 0 {
		return Invalid("branch.messages", "%d is negative", b.Messages)
	}
	return cmp.Or(CheckText("branch.from", b.From), CheckText("model", b.Model), CheckText("instructions", b.Instructions), CheckText("call_id", b.CallID))
}

// Public returns the session as the user of its conversation may see it: without the lease, the secret, the trace
// context, the instructions of a branch, the name of who ends its wait, and events that are not on the log yet. Tags and
// metadata, which are for the application, are omitted too: add the tags and metadata that are meant for users.
func (s *Session) Public() Session {
	out := *s
	out.Lease, out.Secret, out.TraceParent, out.Outbox = Lease{}, "", "", nil
	out.Tags, out.Metadata = nil, nil
	if s.Ending != nil && s.Ending.By != "" {
		own := *s.Ending
		own.By = ""
		out.Ending = &own
	}
	if s.Branch != nil && s.Branch.Instructions != "" {
		own := *s.Branch
		own.Instructions = ""
		out.Branch = &own
	}
	return out
}

// Log returns the name of the event log that the session's tree writes to.
func (s *Session) Log() string { return ids.Log(s.RootID, s.Incarnation) }

// Lease is the right to drive a session until a time. Token is the fencing token: it increases with every holder,
// and a write with an older token is rejected. The first token of a session is the time of its creation in
// microseconds since 1970, so that no holder of an earlier session with the same id has a valid token.
type Lease struct {
	// Owner is the process that took the lease. If that process handed the run to a host that can continue it without
	// the process, the host's name follows after an @.
	Owner string `json:"-"`
	// Token is the fencing token: each lease of a session has a higher one.
	Token int64 `json:"-"`
	// Until is when the lease lapses without another heartbeat, by the store's clock.
	Until time.Time `json:"until,omitzero"`
	// TTL is for how long the lease was last taken or renewed; 0 if that is not known. See [Lease.Ahead].
	TTL Duration `json:"ttl,omitempty"`
}

// Ahead reports whether the lease ends later than any heartbeat up to now could have made it end: more than twice TTL
// after now, by the store's clock. The clock was ahead at the last heartbeat and was set back since. Such a lease has
// lapsed, or a session would be held for as long as the clock was ahead. The second TTL is the tolerance for a clock
// that was set back a little. A lease of an unknown TTL is never ahead.
func (l Lease) Ahead(now time.Time) bool {
	return l.TTL > 0 && l.Until.After(now.Add(2*time.Duration(l.TTL)))
}

// Held reports whether the lease is valid at now, by the store's clock: it has not lapsed and is not [Lease.Ahead].
func (l Lease) Held(now time.Time) bool {
	return now.Before(l.Until) && !l.Ahead(now)
}

// Host returns the name of the host that the run was handed to, if that host can continue it without the process
// that took the lease; else empty.
func (l Lease) Host() string {
	_, host, _ := strings.Cut(l.Owner, "@")
	return host
}

// StatePosition is the position of a session's state in its chain of keyframes and changes. The sizes determine
// when the next keyframe is due.
type StatePosition struct {
	// Position counts the changes of state so far.
	Position int64 `json:"position"`
	// KeyframeBytes is the size of the last keyframe; ChangeBytes is the size of the changes since then.
	KeyframeBytes int64 `json:"keyframe_bytes"`
	ChangeBytes   int64 `json:"change_bytes"`
}

// SummaryPlace is the position of a summary in a transcript: the message at index At replaces the messages before
// index From in requests, which contain that message first, then those from From on.
type SummaryPlace struct {
	// At is the index of the summary.
	At int `json:"at"`
	// From is the index of the first message that the summary does not replace.
	From int `json:"from"`
}

// Running reports whether a run holds the session under a valid lease at now, by the store's clock: usually AsOf.
func (s *Session) Running(now time.Time) bool {
	return s.Status == SessionActive && s.Lease.Held(now)
}

// Crashed reports whether a run holds the session but its lease has lapsed at now, by the store's clock: the
// process that drove it is gone.
func (s *Session) Crashed(now time.Time) bool {
	return s.Status == SessionActive && !s.Lease.Held(now)
}

// Ready reports whether the session is paused and everything that it waited for, from people or children, has
// arrived, so that it can be resumed. A session whose wait is being ended cannot, see Ending.
func (s *Session) Ready() bool {
	return s.Status == SessionPaused && s.SuspendedStep != "" && s.OpenCalls == 0 && s.Ending == nil
}

// Expiry returns when the session expires if nothing changes; zero for never. That is TTL after its last activity,
// which is any commit, or ExpiresAt if that is earlier. It is not before the lease of its run lapses, unless that is
// [Lease.Ahead] as of AsOf, nor before the deadline of a call that it waits for. others are the other sessions of a
// root's tree; their activity, leases and deadlines count as the root's own.
func (s *Session) Expiry(others ...*Session) time.Time {
	active, held := s.UpdatedAt, s.heldUntil()
	for _, o := range others {
		active, held = later(active, o.UpdatedAt), later(held, o.heldUntil())
	}
	expiry := s.ExpiresAt
	if s.TTL > 0 {
		if idle := active.Add(time.Duration(s.TTL)); expiry.IsZero() || idle.Before(expiry) {
			expiry = idle
		}
	}
	if expiry.IsZero() {
		return expiry
	}
	return later(expiry, held)
}

// heldUntil returns the time before which the session does not expire; zero for none.
func (s *Session) heldUntil() time.Time {
	switch s.Status {
	case SessionActive:
		if s.AsOf.IsZero() || !s.Lease.Ahead(s.AsOf) {
			return s.Lease.Until
		}
	case SessionPaused:
		return s.NextDeadline
	}
	return time.Time{}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// CheckSessionID returns an ErrInvalid error if a session id is empty, is longer than 200 bytes, is not valid
// UTF-8, has control characters, or begins or ends with white space. A session id is part of URLs, so it must also not
// be "." or "..", begin or end with a slash, or have two slashes, "." or ".." between slashes. The text "::" may only
// separate a tenant from a name that obeys these rules: see [InTenant].
func CheckSessionID(id string) error {
	if problem := ids.CheckSession(id); problem != "" {
		return Invalid("session", "id %s", problem)
	}
	return nil
}

// CheckTitle returns an error for an unusable session title: ErrTooLarge if it is longer than [MaxTitleBytes],
// ErrInvalid if it is not valid UTF-8 or has a NUL.
func CheckTitle(title string) error {
	if len(title) > MaxTitleBytes {
		return &Error{Code: ErrTooLarge, Field: "title", Message: fmt.Sprintf("title: too large: %d bytes (max %d)", len(title), MaxTitleBytes)}
	}
	return CheckText("title", title)
}

// ValidateContext validates the parts of a session that users set: user id, title, tags, metadata, trace context
// and expiry. The error is ErrInvalid or ErrTooLarge and names the field. The user of a session with an ID must be of its
// tenant.
func (s *Session) ValidateContext() error {
	total := len(s.UserID) + len(s.TraceParent)
	if problem := s.userProblem(); problem != "" {
		return Invalid("user_id", "%s", problem)
	}
	if err := cmp.Or(CheckTitle(s.Title), CheckText("user_id", s.UserID), CheckText("trace_parent", s.TraceParent), checkTime("expires_at", s.ExpiresAt)); err != nil {
		return err
	}
	for _, t := range s.Tags {
		if problem := ids.Check(t); problem != "" {
			return Invalid("tags", "a tag %s", problem)
		}
		total += len(t)
	}
	_, size, err := s.Metadata.canonical()
	if err != nil {
		return err
	}
	if total+size > MaxMetadataBytes {
		return &Error{Code: ErrTooLarge, Field: "metadata",
			Message: "metadata: user id, tags and metadata together are too large (max 16 KiB)"}
	}
	return nil
}

// userProblem returns what is wrong with the tenant of the user; "" if nothing is.
func (s *Session) userProblem() string {
	if problem := ids.CheckTenancy(s.UserID); problem != "" || s.ID == "" || s.UserID == "" {
		return problem
	}
	tenant, _ := ids.Split(s.ID)
	if of, _ := ids.Split(s.UserID); of != tenant {
		return "belongs to another tenant than the session"
	}
	return ""
}

// Checkpoint is the complete state of a session after a step. It refers to messages by count and to custom state by
// position, so it is very small.
type Checkpoint struct {
	// ID is unique in the store.
	ID string `json:"id"`
	// SessionID is the session; RunID is its last run when the checkpoint was made.
	SessionID string `json:"session_id"`
	RunID     string `json:"run_id"`
	// StepID is the step whose commit wrote the checkpoint.
	StepID string `json:"step_id"`
	// Turn and Step are the run's turn and step; Step counts from 1.
	Turn int `json:"turn"`
	Step int `json:"step"`
	// Number is the order of creation within the session, from 1. The latest checkpoint has the highest number.
	Number int64 `json:"number"`
	// ParentID is the session's previous checkpoint.
	ParentID string `json:"parent_id,omitempty"`
	// MessageCount is the length of the transcript at that time.
	MessageCount int `json:"message_count"`
	// StatePosition is the position of the state at that time: see [StatePosition].
	StatePosition int64 `json:"state_position"`
	// LogSequence is the session's LogSequence at that time.
	LogSequence int64 `json:"log_sequence"`
	// CreatedAt is when the checkpoint was written, by the store's clock.
	CreatedAt time.Time `json:"created_at"`
}

// StopKind is the way in which a run is stopped.
type StopKind string

const (
	// StopInterrupt keeps the partial reply; the session can be resumed.
	StopInterrupt StopKind = "interrupt"
	// StopAbort ends the run as failed.
	StopAbort StopKind = "abort"
)

// Stop is a durable request to stop one run.
type Stop struct {
	// RunID is the run to stop; later runs are not affected.
	RunID string `json:"run_id"`
	// Kind is the way in which to stop it.
	Kind StopKind `json:"kind"`
	// Reason is stored with the run, for people.
	Reason string `json:"reason,omitempty"`
	// By is the name of the person or program that requested the stop; empty for the application.
	By string `json:"by,omitempty"`
	// At is when the stop was requested, by the store's clock.
	At time.Time `json:"at"`
}
