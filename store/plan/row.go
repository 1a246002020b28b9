package plan

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store/driver"
)

// RowOf returns the row of a new session from Create, see [driver.Commit]. Its times and its token are open, as in Row
// of [Delta].
func RowOf(from *cairn.Session, id string) *cairn.Session {
	row := &cairn.Session{
		ID: id, Agent: from.Agent, Status: cairn.SessionIdle,
		UserID: from.UserID, Title: from.Title, Tags: from.Tags, Metadata: canonical(from.Metadata),
		ExpiresAt: stored(from.ExpiresAt), TTL: micros(max(time.Duration(from.TTL), 0)), TraceParent: from.TraceParent, Depth: from.Depth,
		ParentID: from.ParentID, RootID: from.RootID, Incarnation: from.Incarnation, Kind: from.Kind, Name: from.Name, Branch: from.Branch, Secret: from.Secret,
	}
	if row.Secret == "" {
		row.Secret = ids.New("secret")
	}
	if row.RootID == "" {
		row.RootID = id
	}
	if row.ThreadID = from.ThreadID; row.ThreadID == "" && row.RootID == id {
		row.ThreadID = id
	}
	if row.Incarnation == "" && row.RootID == id {
		row.Incarnation = ids.Short()
	}
	row.Tenant, _ = ids.Split(id)
	return row
}

// canonical returns metadata as stores keep it. [driver.Commit.Validate] has refused what has no such form.
func canonical(m cairn.Metadata) cairn.Metadata {
	m, _ = m.Canonical()
	return m
}

// Taken returns the error for a commit that a unique key still refused although the session has neither its OnceRun nor
// its OnceStep: its checkpoint's id is taken by another step.
func Taken(session string, cause error) error {
	return cairn.Errorf(cairn.ErrInvalid, "session %q already has a run or checkpoint with this id: %w", session, cause)
}

// Branch returns the delta that creates the session to with a state and the first messages of another session, which
// the store copies up to FirstMessage. to has Version 1, no runs and no checkpoints. Its Status is idle, unless it is given
// as completed or at has a Suspend. It keeps its Opening, and the Summary and the TrustAt of from, the other session, if
// the message in question is among its own. The calls and events of at become the new session's.
func Branch(to *cairn.Session, at *driver.BranchPoint, state json.RawMessage, messages int, from *cairn.Session) *Delta {
	row := RowOf(to, to.ID)
	if to.Status == cairn.SessionCompleted {
		row.Status = to.Status
	}
	if to.Opening != "" && to.OpeningAt < messages {
		row.Opening, row.OpeningAt = to.Opening, to.OpeningAt
	}
	row.Summary = summaryWithin(from.Summary, messages)
	SetTrust(row, trustWithin(from.TrustAt, messages))
	row.Version, row.MessageCount, row.State.KeyframeBytes = 1, messages, int64(len(state))
	copied := max(messages-len(at.Tail), 0)
	d := &Delta{New: true, Row: row, Initial: state, Context: true, SweepAt: sweepAt(row), FirstMessage: copied, Messages: at.Tail}
	if slices.ContainsFunc(at.Tail, func(m cairn.Message) bool { return m.CreatedAt.IsZero() }) {
		d.undated = at.Tail
	}
	for i := range at.Calls {
		d.Calls = append(d.Calls, Call{Row: at.Calls[i].Call})
	}
	c := driver.Commit{Events: slices.Clone(at.Events), Outbox: at.Outbox}
	for i := range c.Events {
		c.Events[i].Version, c.Events[i].MessageCount = row.Version, messages
	}
	d.events(&c, row)
	if at.Suspend != nil {
		c.Suspend, row.Status = at.Suspend, cairn.SessionPaused
	}
	d.wait(&c, &cairn.Session{})
	d.fillCalls()
	return d
}
