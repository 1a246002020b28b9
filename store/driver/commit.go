package driver

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/ops"
)

// Commit is one atomic write to a session. A store checks Guard against the session's row and then applies every field
// that is set, in the order of the fields. The row's Version becomes [NextVersion] and UpdatedAt becomes now.
//
// A commit is idempotent. If the session already has a checkpoint with Checkpoint.StepID or a run with StartRun.ID, the
// commit was applied before: the store returns the session's row and writes nothing, whether or not Guard holds. It
// still refuses a token that is not current, since the step may be another lease holder's, unless the commit itself
// [Commit.Took] the lease. An EndRun or Rewind of an unknown run or checkpoint is ErrNotFound, and nothing is written.
type Commit struct {
	Guard Guard

	// Create creates the session if it does not exist. ID, Agent, UserID, Title, Tags, Metadata, ExpiresAt, TTL,
	// TraceParent, Depth, ThreadID, ParentID, RootID, Incarnation, Kind, Name, Branch and Secret are taken from it;
	// everything else starts at zero. Tenant is taken from ID; UserID, ThreadID, ParentID and RootID must have the same
	// one. RootID defaults to ID, and so does the ThreadID of a root. Secret, and a root's Incarnation, default to
	// random values. TTL is kept in microseconds, and a negative one as 0. A new session has Status idle.
	// The id of a removed or expired session is refused like any other use of it, see [Sweeper]. Create is ignored if
	// the session exists, unless Guard.New is set.
	Create *cairn.Session
	// InitialState is the state of a session that this commit creates; empty means {}. It is stored as keyframe 0.
	InitialState json.RawMessage

	// EndRun updates the run with its ID: all fields except ID, Turn, StartedAt, StartSequence, FirstMessage and
	// Before. If its status is not running, EndedAt becomes now. The run's stop request is dropped.
	EndRun *cairn.Run
	// StartRun adds a run. The store sets SessionID, StartedAt, FirstMessage and Before, sets Turn to the row's Turn +
	// 1, and puts RunID, Turn, Step = 0, Recoveries = 0 and an empty RunUsage on the row.
	StartRun *cairn.Run

	// Rewind moves the session back to one of its checkpoints: later messages, checkpoints and state changes are
	// removed, and Epoch grows by one. If the checkpoint is unknown the error is ErrNotFound and nothing is written.
	Rewind string
	// RewindRun moves the session back to where one of its runs began: the messages, checkpoints and state changes
	// since then are removed, and Epoch grows by one. The records of runs stay. Where a run began is a checkpoint, a
	// number of messages and a number of state changes: a session that was rewound to before that, and has grown since,
	// keeps as many of its present ones. The error is ErrNotFound for an unknown run, and ErrInvalid for a run that
	// began after the end of the remaining history or at a checkpoint that no longer exists; in both cases nothing is
	// written. At most one of Rewind and RewindRun may be set.
	RewindRun string

	// Messages are appended. The store sets CreatedAt where it is zero. The user's first message gives the row its
	// Opening, which stays until a rewind removes that message. A message of the user makes an archived session current:
	// its ArchivedAt becomes zero. A message that was queued did so when it was queued, see Dequeue. While a run holds the
	// session, only the holder of its lease appends: it may have shown a model more than the store has. Other writers
	// queue, see [QueuedTurn.Context].
	Messages []cairn.Message
	// State changes the session's state.
	State *StateChange

	// Step is the number of committed steps of the current run, this commit included; 0 leaves the row's Step
	// unchanged. A Step that is set also resets Recoveries to 0.
	Step int
	// Recovered adds one to Recoveries.
	Recovered bool
	// Checkpoint adds a checkpoint of the session as it is after this commit. The caller sets ID, RunID, StepID, Step
	// and LogSequence, and the store everything else. The row's CheckpointID becomes its ID.
	Checkpoint *cairn.Checkpoint
	// Status becomes the row's, if set.
	Status cairn.SessionStatus
	// LogSequence becomes the row's, if it is greater.
	LogSequence int64
	// Usage is added to the row's Usage and RunUsage; UsageBeside only to its Usage, since it belongs to no run.
	Usage       cairn.Usage
	UsageBeside cairn.Usage
	// UsageEntries are the parts of Usage and UsageBeside. A store that is a [UsageProvider] keeps them in a row of the
	// commit, see [UsageRowOf].
	UsageEntries []cairn.UsageEntry
	// Lease takes, renews or releases the lease.
	Lease LeaseChange
	// DropStaged removes everything staged for the session.
	DropStaged bool
	// Suspend, if set, becomes the row's SuspendedStep, OpenCalls and NextDeadline; a zero Suspend clears them.
	Suspend *Suspend
	// Ending, if set, becomes the row's Ending, on a session that is paused after the commit. A commit that leaves the
	// session with another status, or begins or ends a run, clears the row's Ending.
	Ending *cairn.Stop
	// Calls writes rows of pending calls that belong to the session. If one of them is not at the version that its
	// writer saw, the conflict is ErrStale and nothing of the commit is written.
	Calls []CallWrite
	// Enqueue adds a turn to the session's queue; a turn already queued under that ID is left unchanged. A turn that is
	// added makes an archived session current, unless it has Context. Dequeue removes turns by their IDs; the conflict is
	// ErrStale if one of them is not queued. The messages of a commit with Dequeue leave an archived session archived.
	// The row's Queued counts the entries of the queue.
	Enqueue *QueuedTurn
	Dequeue []string
	// Cache puts entries into the session's tool-result cache and replaces those with the same key. CacheDrop then
	// removes entries by key.
	Cache     []CacheEntry
	CacheDrop []string
	// Context changes the session's user context.
	Context *ContextChange
	// Statements are executed last, in order, in the transaction of the commit, by a store that is an [Execer] of their
	// dialect. Any other store refuses the commit, see [Commit.ValidateFor]. If one fails, or all together take longer
	// than the store allows, the error is ErrStatement and nothing of the commit is written.
	Statements []Statement

	// Events are appended to the log of the session's tree, [cairn.Session.Log] of the next row, in the same write: one
	// after another, in this order, regardless of the log's last sequence. The log has them if and only if the store
	// has the commit. A commit that was applied before appends nothing. An event without a time gets the commit's time,
	// and one with a Version the row's. A writer whose events state an Index or a MessageCount guards the commit by
	// Version or New.
	//
	// Where there are events, the row's and the checkpoint's LogSequence become the sequence of the last one, and
	// StartSequence of StartRun the sequence before the first; the commit's own values are ignored. But a writer other
	// than the run under way leaves the row at the place on the log where the run's open step begins: LogSequence stays
	// as without events. This applies to a commit without Guard.Token that leaves the lease and starts no run, if the
	// session is active before and after it. If the commit takes the lease, the log from then on refuses events of
	// holders of a lower token, see [Fencer].
	//
	// Only a [LogProvider] appends events; any other store refuses the commit, see [Commit.ValidateFor]. An event that is
	// too large for the log is ErrTooLarge, and a log that was dropped ErrDeleted; nothing is written then.
	Events []cairn.Event
	// Outbox keeps the events on the row, as its Outbox, in place of appending them: they are for a log that is kept
	// elsewhere. Drained is the version of an outbox whose events are on that log: the row loses it. While the row has
	// another outbox, a commit with more events for it is refused with ErrStale.
	Outbox  bool
	Drained int64
}

// Suspend is the part of a session's row that describes its suspension.
type Suspend struct {
	StepID       string
	OpenCalls    int
	NextDeadline time.Time
}

// CallWrite writes one row of a pending call. The store sets the call's Tenant, RootID, SessionID, UserID and Agent to the
// session's, CreatedAt if it is new, UpdatedAt and Version.
type CallWrite struct {
	Call cairn.PendingCall
	// Seen is the version of the row that the writer saw; 0 for a new row.
	Seen int64
}

// QueuedTurn is a turn in the queue. Its ID becomes the ID of its run.
type QueuedTurn struct {
	// ID is the id of the run that the turn will have; of an entry with Context, the id of its first message.
	ID string `json:"id"`
	// Messages are the messages that the turn begins with.
	Messages []cairn.Message `json:"messages"`
	// Steer reports whether the messages may join the run under way.
	Steer bool `json:"steer,omitempty"`
	// Context reports that the entry is not a turn: it holds hidden messages that were added to an active session. The
	// next commit of the run, or the one that ends it, appends them.
	Context bool `json:"context,omitempty"`
	// At is the time at which the turn was queued, by the store's clock.
	At time.Time `json:"at,omitzero"`
	// Model is the model of the turn's run.
	Model string `json:"model,omitempty"`
	// TraceParent is the trace context of the caller, for the turn's run.
	TraceParent string `json:"trace_parent,omitempty"`
}

// CacheEntry is a result in a session's tool-result cache.
type CacheEntry struct {
	// Key identifies the call: its tool and its canonical arguments.
	Key string `json:"key"`
	// Tool is the tool's name, and Output its result.
	Tool   string          `json:"tool"`
	Output json.RawMessage `json:"output"`
	// UsedAt is the time at which a call last got the result, and ExpiresAt the time at which it stops being valid;
	// both by the store's clock.
	UsedAt    time.Time `json:"used_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Guard is the condition of a commit. Every field that is set must hold; the zero value always holds.
type Guard struct {
	// New requires that the session does not exist; the conflict is ErrExists.
	New bool
	// Token, if not 0, is the fencing token of the lease's holder; the conflict is ErrFenced. It is checked before
	// everything else.
	Token int64
	// Idle requires that the session is not active; the conflict is ErrAlreadyRunning.
	Idle bool
	// Lapsed requires that the session is active and its lease has lapsed; the conflict is ErrAlreadyRunning if the
	// lease has not lapsed and ErrNotRunning if the session is not active.
	Lapsed bool
	// Agent, if set, must be the session's agent; the conflict is ErrInvalid.
	Agent string
	// Version, if not 0, is the version that the writer saw; the conflict is ErrStale.
	Version int64
}

// Check returns the conflict of g with an existing session's row at the store's time now, or nil. Package plan calls
// it, so stores need not.
func (g Guard) Check(s *cairn.Session, now time.Time) error {
	if err := g.CheckToken(s); err != nil {
		return err
	}
	switch {
	case g.New:
		return Conflict(cairn.ErrExists, s, "session %q already exists", s.ID)
	case g.Agent != "" && g.Agent != s.Agent:
		return Conflict(cairn.ErrInvalid, s, "session %q belongs to agent %q, not %q", s.ID, s.Agent, g.Agent)
	case g.Idle && s.Status == cairn.SessionActive:
		return Conflict(cairn.ErrAlreadyRunning, s, "session %q is already running", s.ID)
	case g.Lapsed && s.Status != cairn.SessionActive:
		return Conflict(cairn.ErrNotRunning, s, "session %q is not running", s.ID)
	case g.Lapsed && s.Running(now):
		return Conflict(cairn.ErrAlreadyRunning, s, "session %q is already running", s.ID)
	case g.Version != 0 && g.Version != s.Version:
		return Conflict(cairn.ErrStale, s, "session %q has changed: version %d, now %d", s.ID, g.Version, s.Version)
	}
	return nil
}

// CheckToken returns the conflict of g's token with an existing session's row, or nil. Check calls it before any other
// check.
func (g Guard) CheckToken(s *cairn.Session) error {
	if g.New || g.Token == 0 || g.Token == s.Lease.Token {
		return nil
	}
	return g.Lost(s)
}

// Lost returns the conflict of g's token, which is not the session's: ErrStoreBehind if the session never had it, and
// ErrFenced if another holder has taken the lease. It is for implementers.
func (g Guard) Lost(s *cairn.Session) error {
	if g.Token > s.Lease.Token {
		return Conflict(cairn.ErrStoreBehind, s, "session %q: the store has lost writes: fencing token %d, now %d", s.ID, g.Token, s.Lease.Token)
	}
	return Conflict(cairn.ErrFenced, s, "session %q: the lease was lost: fencing token %d, now %d", s.ID, g.Token, s.Lease.Token)
}

// maxVersionStep bounds by how much a version grows: so that programs in JavaScript read a billion writes of a session
// exactly.
const maxVersionStep = 1 << 24

// NextVersion returns the version of the write after version. The first version of a session is 1. Later ones grow by
// random steps, so that a version names one write and not only its number. A store that has lost its last writes, such
// as a promoted replica, therefore never repeats a version that a process remembers.
func NextVersion(version int64) int64 {
	if version == 0 {
		return 1
	}
	return version + 1 + rand.Int64N(maxVersionStep)
}

// Spend adds usage of the session's run.
func (c *Commit) Spend(entries ...cairn.UsageEntry) {
	c.Usage = c.Usage.Add(cairn.SumUsage(entries))
	c.UsageEntries = append(slices.Clip(c.UsageEntries), entries...)
}

// Took reports whether the session's lease is the one that c takes. If so, the token in c's guard is not current only
// because c was applied before.
func (c *Commit) Took(s *cairn.Session) bool {
	return c.Lease.Action == LeaseTake && c.Lease.Owner == s.Lease.Owner && c.Guard.Token < s.Lease.Token
}

// ConflictError reports a guard that did not hold. errors.Is compares it with the sentinels of package cairn.
type ConflictError struct {
	Err *cairn.Error
	// Session is the row that the store saw; nil if there was none.
	Session *cairn.Session
}

// Error returns the message.
func (e *ConflictError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error, for errors.Is and errors.As.
func (e *ConflictError) Unwrap() error { return e.Err }

// Conflict returns a ConflictError. It is for implementers.
func Conflict(code cairn.Code, s *cairn.Session, format string, args ...any) error {
	return &ConflictError{Err: cairn.Errorf(code, format, args...), Session: s}
}

// Seen returns the session row in a conflict, or nil.
func Seen(err error) *cairn.Session {
	if err == nil {
		return nil
	}
	var c *ConflictError
	if errors.As(err, &c) {
		return c.Session
	}
	return nil
}

// NotFound returns the error for a session that does not exist.
func NotFound(id string) error {
	return &cairn.Error{Code: cairn.ErrNotFound, Field: "session", Message: fmt.Sprintf("session %q not found", id)}
}

// Pruned returns the error for a branch after n messages of a session whose oldest remaining checkpoint has count
// messages: the state after n messages was pruned. This is the case if the oldest checkpoint has a parent, which means
// that it was not the first.
func Pruned(id string, n, count int) error {
	return cairn.Invalid("messages", "%d: session %q: the state after fewer than %d messages was pruned", n, id, count)
}

// StateChange is a change of state: operations and, where a keyframe is due, the whole state after them.
type StateChange struct {
	Ops []cairn.Op `json:"ops,omitempty"`
	// Keyframe is the whole state after Ops. If it is set the store keeps it instead of Ops.
	Keyframe json.RawMessage `json:"keyframe,omitempty"`
}

// KeyframeDue reports whether a change of the given size should be stored as a keyframe, which is when the changes
// since the last keyframe outgrow it. This keeps a state's storage within a constant factor of the sum of its changes,
// and loading a state reads at most twice its size.
func KeyframeDue(p cairn.StatePosition, changeBytes int) bool {
	return p.ChangeBytes+int64(changeBytes) > max(p.KeyframeBytes, minKeyframe)
}

// minKeyframe keeps small states from writing a keyframe at every step.
const minKeyframe = 4 << 10

// Advance returns the position after a change whose stored form has the given size.
func Advance(p cairn.StatePosition, keyframe bool, size int) cairn.StatePosition {
	p.Position++
	if keyframe {
		p.KeyframeBytes, p.ChangeBytes = int64(size), 0
	} else {
		p.ChangeBytes += int64(size)
	}
	return p
}

// FoldState returns the state that results from a keyframe and the changes after it, oldest first.
func FoldState(keyframe json.RawMessage, changes [][]cairn.Op) (json.RawMessage, error) {
	raw, err := ops.Fold(keyframe, changes...)
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "fold stored state: %w", err)
	}
	return raw, nil
}

// LeaseAction is the action of a commit on the session's lease.
type LeaseAction int

const (
	LeaseKeep    LeaseAction = iota // no change
	LeaseTake                       // Owner becomes the holder, Token grows by one, Until = now + TTL
	LeaseRenew                      // Until = now + TTL
	LeaseRelease                    // Owner becomes empty, Until = now; Token stays
)

// LeaseChange is the change of the lease by a commit.
type LeaseChange struct {
	Action LeaseAction
	Owner  string
	TTL    time.Duration
}

// ContextChange changes a session's user context; nil fields leave it unchanged.
type ContextChange struct {
	UserID *string `json:"user_id,omitempty"`
	Title  *string `json:"title,omitempty"`
	// Tags replaces the tags. AddTags then adds the tags that the session does not have.
	Tags    *[]string `json:"tags,omitempty"`
	AddTags []string  `json:"add_tags,omitempty"`
	// Metadata sets entries, each as a whole; an empty string or nil, JSON's null, removes one.
	Metadata  cairn.Metadata `json:"metadata,omitempty"`
	ExpiresAt *time.Time     `json:"expires_at,omitempty"`
	// Archived archives the session, or makes it current again. The row's ArchivedAt becomes the time of the commit, or
	// zero. An archived session that is archived again keeps its time.
	Archived *bool `json:"archived,omitempty"`
}

// Apply applies the change to a row. A session that is archived gets the time AsOf of the row; in the store it is the
// time of the commit.
func (c *ContextChange) Apply(s *cairn.Session) {
	if c.UserID != nil {
		s.UserID = *c.UserID
	}
	if c.Title != nil {
		s.Title = *c.Title
	}
	if c.Tags != nil {
		s.Tags = *c.Tags
	}
	for _, tag := range c.AddTags {
		if !slices.Contains(s.Tags, tag) {
			s.Tags = append(slices.Clip(s.Tags), tag)
		}
	}
	if c.ExpiresAt != nil {
		s.ExpiresAt = *c.ExpiresAt
	}
	switch {
	case c.Archived == nil:
	case !*c.Archived:
		s.ArchivedAt = time.Time{}
	case s.ArchivedAt.IsZero():
		s.ArchivedAt = s.AsOf
	}
	if len(c.Metadata) == 0 {
		return
	}
	merged := make(cairn.Metadata, len(s.Metadata)+len(c.Metadata))
	maps.Copy(merged, s.Metadata)
	for k, v := range c.Metadata {
		if v == nil || v == "" {
			delete(merged, k)
		} else {
			merged[k] = v
		}
	}
	s.Metadata = merged
}

// Then returns the change that has the effect of c and then of later. Either may be nil.
func (c *ContextChange) Then(later *ContextChange) *ContextChange {
	if c == nil || later == nil {
		return cmp.Or(c, later)
	}
	both := *c
	both.UserID, both.Title = cmp.Or(later.UserID, c.UserID), cmp.Or(later.Title, c.Title)
	both.ExpiresAt, both.Archived = cmp.Or(later.ExpiresAt, c.ExpiresAt), cmp.Or(later.Archived, c.Archived)
	if later.Tags != nil {
		both.Tags, both.AddTags = later.Tags, nil
	}
	for _, tag := range later.AddTags {
		if !slices.Contains(both.AddTags, tag) {
			both.AddTags = append(slices.Clip(both.AddTags), tag)
		}
	}
	if len(later.Metadata) > 0 {
		both.Metadata = make(cairn.Metadata, len(c.Metadata)+len(later.Metadata))
		maps.Copy(both.Metadata, c.Metadata)
		maps.Copy(both.Metadata, later.Metadata)
	}
	return &both
}

// NewStateChange builds the change that applies operations to a state at a position, with a keyframe where one is due.
// The error is ErrState for an operation that does not fit, and ErrTooLarge for a state that becomes too large.
func NewStateChange(at cairn.StatePosition, state json.RawMessage, list []cairn.Op) (*StateChange, error) {
	doc, err := ops.NewDoc(state)
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "stored state: %w", err)
	}
	if _, err := doc.Apply(list); err != nil {
		return nil, cairn.Errorf(cairn.ErrState, "state: %w", err)
	}
	change := &StateChange{Ops: list}
	raw, err := json.Marshal(list)
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrState, "state: %w", err)
	}
	if KeyframeDue(at, len(raw)) {
		change.Keyframe = doc.Raw()
	}
	if most := at.KeyframeBytes + at.ChangeBytes + int64(len(raw)); most > limits.Bytes && limits.Size(len(doc.Raw())) != "" {
		return nil, &cairn.Error{Code: cairn.ErrTooLarge, Field: "state", Message: "state: " + limits.Size(len(doc.Raw()))}
	}
	return change, nil
}
