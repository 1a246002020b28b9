package driver

import (
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
)

// DueKindOf returns why a session that is not active needs a worker, now or at a later time; empty for never.
func DueKindOf(row *cairn.Session) DueKind {
	switch {
	case row.Outbox != nil && row.Status != cairn.SessionActive:
		return DueOutbox
	case row.Status == cairn.SessionPaused && row.Ending != nil:
		return DueEnding
	case row.Ready():
		return DueReady
	case row.Status == cairn.SessionPaused && !row.NextDeadline.IsZero():
		return DueDeadline
	case row.Status != cairn.SessionPaused && row.Status != cairn.SessionActive && row.Queued > 0:
		return DueQueued
	}
	return ""
}

// CallConflict returns the error for a pending call that is not at the version its writer saw.
func CallConflict(row *cairn.Session, id string) error {
	return Conflict(cairn.ErrStale, row, "session %q: call %q has changed", row.ID, id)
}

// UnknownCall returns the error for a call that does not exist in a session tree.
func UnknownCall(root, id string) error {
	return &cairn.Error{Code: cairn.ErrNotFound, Field: "call_id", Message: fmt.Sprintf("session %q has no pending call %q", root, id)}
}

// RunGone returns the error for a run that cannot be rolled back anymore, because the session was rewound or pruned
// since it began.
func RunGone(row *cairn.Session, runID string) error {
	return cairn.Invalid("run", "session %q can no longer be rewound to the beginning of run %q", row.ID, runID)
}

// Selects reports whether a query selects a call at the store's time now; it ignores the cursor.
func (q *CallQuery) Selects(c *cairn.PendingCall, now time.Time) bool {
	return inTenant(c.RootID, q.Tenant) &&
		(q.RootID == "" || c.RootID == q.RootID) &&
		(q.ID == "" || c.ID == q.ID) &&
		(q.SessionID == "" || c.SessionID == q.SessionID) &&
		(q.StepID == "" || c.StepID == q.StepID) &&
		(q.UserID == "" || c.UserID == q.UserID) &&
		(q.Agent == "" || c.Agent == q.Agent) &&
		(q.Tool == "" || c.Tool == q.Tool) &&
		(q.Kind == "" || c.Kind == q.Kind) &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, c.Status)) &&
		(q.Reviewer == "" || len(c.Reviewers) == 0 || slices.Contains(c.Reviewers, q.Reviewer)) &&
		(q.Claimed == "" || c.ClaimedBy == q.Claimed && c.Claimed(now)) &&
		(q.DueBefore.IsZero() || !c.Deadline.IsZero() && c.Deadline.Before(q.DueBefore))
}

// Selects reports whether a query selects a session; it ignores the cursor. The query has been checked by
// [SessionQuery.Begin].
func (q *SessionQuery) Selects(s *cairn.Session) bool {
	if len(q.Removed) > 0 != (s.Removal != "") || s.Removal != "" && !slices.Contains(q.Removed, Removal(s.Removal)) {
		return false
	}
	for _, tag := range q.Tags {
		if !slices.Contains(s.Tags, tag) {
			return false
		}
	}
	return inTenant(s.ID, q.Tenant) &&
		holds(s.Metadata, q.Metadata) &&
		(q.UserID == "" || s.UserID == q.UserID) &&
		(q.Agent == "" || s.Agent == q.Agent) &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, s.Status)) &&
		(q.ThreadID == "" || s.ThreadID == q.ThreadID) &&
		(q.ParentID == "" || s.ParentID == q.ParentID) &&
		(q.RootID == "" || s.RootID == q.RootID) &&
		(!q.RootsOnly || s.ParentID == "") &&
		(q.CreatedAfter.IsZero() || !s.CreatedAt.Before(q.CreatedAfter)) &&
		(q.CreatedBefore.IsZero() || s.CreatedAt.Before(q.CreatedBefore)) &&
		(q.UpdatedAfter.IsZero() || !s.UpdatedAt.Before(q.UpdatedAfter)) &&
		(q.UpdatedBefore.IsZero() || s.UpdatedAt.Before(q.UpdatedBefore)) &&
		(q.Archived == nil || s.ParentID == "" && *q.Archived != s.ArchivedAt.IsZero()) &&
		found(s, Words(q.Search))
}

// inTenant reports whether a session is of a tenant to select; nil selects any.
func inTenant(session string, tenant *string) bool {
	if tenant == nil {
		return true
	}
	of, _ := cairn.SplitTenant(session)
	return of == *tenant
}

// holds reports whether an object has each member of a filter on metadata.
func holds(object, filter map[string]any) bool {
	for key, want := range filter {
		have, ok := object[key]
		if !ok {
			return false
		}
		if inner, ok := want.(map[string]any); ok {
			if object, _ := have.(map[string]any); !holds(object, inner) {
				return false
			}
		} else if have != want { // want is comparable, and have only compared with it if they have one type
			return false
		}
	}
	return true
}
