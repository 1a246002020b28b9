package cairn

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/limits"
)

// SessionStatus is what a session is doing.
type SessionStatus string

const (
	// SessionIdle is a session that no run has used yet.
	SessionIdle SessionStatus = "idle"
	// SessionActive is a session held by a run.
	SessionActive SessionStatus = "active"
	// SessionPaused waits for people or children; nothing runs.
	SessionPaused      SessionStatus = "paused"
	SessionCompleted   SessionStatus = "completed"   // its last run came to an end of its own
	SessionFailed      SessionStatus = "failed"      // its last run failed; Engine.Retry repeats it from its last step
	SessionInterrupted SessionStatus = "interrupted" // its last run was stopped; Engine.Resume continues it
)

// Session is the row of a session: who it belongs to and how far it is. Messages, state, runs and checkpoints are
// rows of their own under its id.
type Session struct {
	// ID is chosen by the application, or made for a child. No two sessions of a store have the same.
	ID string `json:"id"`
	// Agent is the name of the agent that the session belongs to. It does not change.
	Agent string `json:"agent"`
	// Status is whether a run holds the session, or how the last one left it.
	Status SessionStatus `json:"status"`

	// UserID, Tags and Metadata are the application's: see engine.WithUser and Engine.SetContext.
	UserID   string            `json:"user_id,omitempty"`
	Tags     []string          `json:"tags,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	// Title is what the session is called in lists, at most [MaxTitleBytes]; empty for none.
	Title string `json:"title,omitempty"`
	// Opening is the beginning of the first message that the user said, at most [MaxOpeningBytes] of its text, and OpeningAt
	// that message's index. Sessions are found by the words of Title and Opening.
	Opening   string `json:"opening,omitempty"`
	OpeningAt int    `json:"opening_at,omitempty"`
	// ExpiresAt is when the session expires whatever happens, TTL how long it may be idle before it does: see Expiry.
	// Zero means never. They are the root's; the sessions of its sub-agents and companions go with it.
	ExpiresAt time.Time     `json:"expires_at,omitzero"`
	TTL       time.Duration `json:"ttl,omitempty"`
	// TraceParent is the W3C trace context the session belongs to.
	TraceParent string `json:"trace_parent,omitempty"`
	// ParentID and RootID place the session in a tree; a root has neither parent nor another root than itself.
	ParentID string `json:"parent_id,omitempty"`
	RootID   string `json:"root_id"`
	// Incarnation is the life of the root's id that the session belongs to: together with the root's id it names the
	// tree's event log. It is made with the root, and all sessions of the tree have it.
	Incarnation string `json:"incarnation,omitempty"`
	// Kind says what the session is to its parent; empty for a root.
	Kind ChildKind `json:"kind,omitempty"`
	// Name is what the parent calls the session, if it is a companion.
	Name string `json:"name,omitempty"`
	// Secret is what ids of children and pending calls are derived from. It is given out by nothing but the store.
	Secret string `json:"-"`

	// Version counts the commits of the session. It is the guard of every write.
	Version int64 `json:"version"`
	// Epoch counts rewinds: within one epoch messages are only ever appended.
	Epoch int64 `json:"epoch,omitempty"`
	// MessageCount is the length of the transcript, hidden messages included.
	MessageCount int `json:"message_count"`
	// Summary is the place of the latest summary among the messages; the zero value if there is none, or if what is known of
	// an earlier one went with a rewind.
	Summary SummaryPlace `json:"summary,omitzero"`

	// RunID and Turn are the last run's; Step is the number of steps that run has committed.
	RunID string `json:"run_id,omitempty"`
	Turn  int    `json:"turn"`
	Step  int    `json:"step"`
	// Recoveries counts how often the current run was taken over since its last committed step.
	Recoveries int `json:"recoveries,omitempty"`
	// CheckpointID is the latest checkpoint; empty before the first.
	CheckpointID string `json:"checkpoint_id,omitempty"`
	// SuspendedStep is the step that is suspended or was resumed; empty for none. OpenCalls
	// counts what it waits for, and NextDeadline is the first time at which one of them counts as failed.
	SuspendedStep string    `json:"suspended_step,omitempty"`
	OpenCalls     int       `json:"open_calls,omitempty"`
	NextDeadline  time.Time `json:"next_deadline,omitzero"`
	// Queued counts the turns that are to follow.
	Queued int `json:"queued,omitempty"`
	// LogSequence is the event log's position that the messages are complete up to.
	LogSequence int64 `json:"log_sequence"`
	// Unpublished says what a verb last did to the session outside of its runs, in so far as the event log may lack it:
	// an event with its Version, Index and MessageCount. Another process publishes it where that of the verb died.
	Unpublished *Event `json:"unpublished,omitempty"`
	// Lease is that of the process that drives the session, or drove it last.
	Lease Lease `json:"lease,omitzero"`
	// State is where the custom state is kept. The state itself is read by Engine.State.
	State StatePosition `json:"state"`
	// Usage is the total of all runs, RunUsage that of the current one.
	Usage    Usage `json:"usage"`
	RunUsage Usage `json:"run_usage"`

	// CreatedAt and UpdatedAt are the times of the first and the last commit, by the store's clock.
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// AsOf is the store's time when the row was read or written: whether its lease is good, or its deadline has
	// passed, is judged by that and not by the clock of the process. It is not part of what is kept.
	AsOf time.Time `json:"-"`

	// Removal is why the session was removed, "deleted" or "expired", and RemovedAt when, if it comes from a list of removed
	// sessions. A session that is there has neither.
	Removal   string    `json:"removal,omitempty"`
	RemovedAt time.Time `json:"removed_at,omitzero"`
}

// Public returns the session as the user of its conversation may see it: without the lease, the secret, the trace context and
// what is kept for the log, and without tags and metadata, which are the application's: add those that are meant for users.
func (s *Session) Public() Session {
	out := *s
	out.Lease, out.Secret, out.TraceParent, out.Unpublished = Lease{}, "", "", nil
	out.Tags, out.Metadata = nil, nil
	return out
}

// Log returns the name of the event log that the session's tree writes to.
func (s *Session) Log() string { return ids.Log(s.RootID, s.Incarnation) }

// Lease is the right to drive a session until a time. Token is the fencing token: it grows with every holder, and a
// write that names an old one is refused. A new session begins with the microseconds of its creation since 1970, so
// that no holder of an earlier session of its id has a token of its own.
type Lease struct {
	// Owner names the process that took the lease. If it gave the run to a host that can continue it without that
	// process, the host's name follows, after an @.
	Owner string `json:"owner,omitempty"`
	// Token is the fencing token: each lease of a session has a higher one.
	Token int64 `json:"token,omitempty"`
	// Until is when the lease lapses without another heartbeat, by the store's clock.
	Until time.Time `json:"until,omitzero"`
}

// Host returns the name of the host that was given the run, if that can continue it without the process that took the
// lease; empty for none.
func (l Lease) Host() string {
	_, host, _ := strings.Cut(l.Owner, "@")
	return host
}

// StatePosition is where a session's state is in its chain of keyframes and changes. The sizes say when the next
// keyframe is due.
type StatePosition struct {
	// Position counts the changes of state so far.
	Position int64 `json:"position"`
	// KeyframeBytes is the size of the last keyframe, ChangeBytes that of the changes since.
	KeyframeBytes int64 `json:"keyframe_bytes"`
	ChangeBytes   int64 `json:"change_bytes"`
}

// SummaryPlace is where a summary is in a transcript: the message at index At stands for the messages before index From. A
// model is sent that message, then those from From on.
type SummaryPlace struct {
	// At is the index of the summary.
	At int `json:"at"`
	// From is the index of the first message that it does not stand for.
	From int `json:"from"`
}

// Running reports whether a run holds the session and its lease is still good at now, a time of the store: mostly AsOf.
func (s *Session) Running(now time.Time) bool {
	return s.Status == SessionActive && now.Before(s.Lease.Until)
}

// Crashed reports whether a run holds the session but its lease ran out at now, a time of the store: the process that
// drove it is gone.
func (s *Session) Crashed(now time.Time) bool {
	return s.Status == SessionActive && !now.Before(s.Lease.Until)
}

// Ready reports whether the session waits for people or children and everything it waited for is there.
func (s *Session) Ready() bool {
	return s.Status == SessionPaused && s.SuspendedStep != "" && s.OpenCalls == 0
}

// Expiry returns when the session is gone, as things stand; zero for never. That is TTL after its last activity,
// which is any commit, or ExpiresAt if that is earlier; but not while the lease of its run is good, nor before the
// deadline of a call that it waits for. The others are the other sessions of a root's tree: what they do, hold and
// wait for counts as the root's own.
func (s *Session) Expiry(others ...*Session) time.Time {
	active, held := s.UpdatedAt, s.heldUntil()
	for _, o := range others {
		active, held = later(active, o.UpdatedAt), later(held, o.heldUntil())
	}
	expiry := s.ExpiresAt
	if s.TTL > 0 {
		if idle := active.Add(s.TTL); expiry.IsZero() || idle.Before(expiry) {
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
		return s.Lease.Until
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

const (
	// MaxMetadataBytes bounds the user id, tags and metadata of a session together.
	MaxMetadataBytes = 16 << 10
	// MaxTitleBytes bounds the title of a session.
	MaxTitleBytes = 256
	// MaxOpeningBytes bounds what a session's row has of its first message.
	MaxOpeningBytes = 256
)

// CheckSessionID reports what is wrong with a session id: it is empty, longer than 200 bytes, not valid UTF-8, has
// control characters, or begins or ends with white space.
func CheckSessionID(id string) error {
	if problem := ids.Check(id); problem != "" {
		return Invalid("session", "the id %s", problem)
	}
	return nil
}

// CheckTitle reports what is wrong with a session's title: ErrTooLarge if it is longer than [MaxTitleBytes], ErrInvalid if it
// is not valid UTF-8 or has NUL.
func CheckTitle(title string) error {
	if len(title) > MaxTitleBytes {
		return &Error{Code: CodeTooLarge, Field: "title", Message: fmt.Sprintf("title: %d bytes, at most %d are allowed", len(title), MaxTitleBytes)}
	}
	return CheckText("title", title)
}

// ValidateContext checks the parts of a session that users set: user id, title, tags, metadata, trace context and expiry. The
// error is ErrInvalid or ErrTooLarge and names the field.
func (s *Session) ValidateContext() error {
	total := len(s.UserID) + len(s.TraceParent)
	if err := cmp.Or(CheckTitle(s.Title), CheckText("user_id", s.UserID), CheckText("trace_parent", s.TraceParent), checkTime("expires_at", s.ExpiresAt)); err != nil {
		return err
	}
	for _, t := range s.Tags {
		if problem := ids.Check(t); problem != "" {
			return Invalid("tags", "a tag %s", problem)
		}
		total += len(t)
	}
	for k, v := range s.Metadata {
		if problem := ids.Check(k); problem != "" {
			return Invalid("metadata", "a key %s", problem)
		}
		if problem := limits.Text(v); problem != "" {
			return Invalid("metadata", "the value of %q %s", k, problem)
		}
		total += len(k) + len(v)
	}
	if total > MaxMetadataBytes {
		return &Error{Code: CodeTooLarge, Field: "metadata",
			Message: "metadata: user id, tags and metadata are larger than 16 KiB together"}
	}
	return nil
}

// Checkpoint is the complete state of a session after a step. It refers to messages by count and to custom state by
// position, so that it costs next to nothing.
type Checkpoint struct {
	// ID is unique in the store.
	ID string `json:"id"`
	// SessionID is the session, RunID its last run when the checkpoint was made.
	SessionID string `json:"session_id"`
	RunID     string `json:"run_id"`
	// StepID is the step whose commit wrote the checkpoint.
	StepID string `json:"step_id"`
	// Turn and Step are those of the run: Step counts from 1.
	Turn int `json:"turn"`
	Step int `json:"step"`
	// Number is the order of writing within the session, from 1. The latest checkpoint is the one with the highest.
	Number int64 `json:"number"`
	// ParentID is the checkpoint the session was at before.
	ParentID string `json:"parent_id,omitempty"`
	// MessageCount is the length of the transcript then.
	MessageCount int `json:"message_count"`
	// StatePosition is the state's place then: see [StatePosition].
	StatePosition int64 `json:"state_position"`
	// LogSequence is the event log's position then.
	LogSequence int64 `json:"log_sequence"`
	// CreatedAt is when it was written, by the store's clock.
	CreatedAt time.Time `json:"created_at"`
}

// StopKind says how a run is to be stopped.
type StopKind string

const (
	// StopInterrupt keeps the partial reply; the session can be resumed.
	StopInterrupt StopKind = "interrupt"
	// StopAbort ends the run as failed.
	StopAbort StopKind = "abort"
)

// Stop is a durable request to stop one run.
type Stop struct {
	// RunID is the run that is to stop: no later one does.
	RunID string `json:"run_id"`
	// Kind says how.
	Kind StopKind `json:"kind"`
	// Reason is kept with the run, for people.
	Reason string `json:"reason,omitempty"`
	// At is when it was asked for, by the store's clock.
	At time.Time `json:"at"`
}
