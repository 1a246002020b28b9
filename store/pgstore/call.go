package pgstore

import (
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

// callList are the columns that readCall reads. selectCall begins a statement that reads them.
const (
	callList = `
	c.root_id, c.id, s.id, c.version, c.created_at, c.updated_at, c.user_id, c.agent, c.deadline, c.data`
	selectCall = `
	SELECT` + callList + `
`
)

const (
	// By calls_step.
	sqlCallsOfStep = selectCall + `
		FROM {schema}.sessions s
			JOIN {schema}.heads h ON h.session = s.key
			JOIN {schema}.calls c ON c.session = s.key AND c.step_id = h.suspended_step
		WHERE s.id = $1 AND h.suspended_step <> ''
		ORDER BY c.created_at, c.root_id, c.id`

	// By the key of calls.
	sqlCallsSeen = `
		SELECT c.id, coalesce(s.id, ''), c.version
		FROM {schema}.calls c LEFT JOIN {schema}.sessions s ON s.key = c.session
		WHERE c.root_id = $1 AND c.id = ANY ($2::text[])`
)

// callColumns are the rows of pending calls that a commit writes, one slice per column.
type callColumns struct {
	id, claimedBy, step, tool, kind, status, reviewers, data []string
	seen                                                     []int64
	deadline, claimedUntil                                   []*time.Time
}

func (x *callColumns) fill(list []driver.CallWrite) error {
	for i := range list {
		call := list[i].Call
		data, err := backend.EncodeCall(&call)
		if err != nil {
			return err
		}
		reviewers := "[]"
		if len(call.Reviewers) > 0 {
			if reviewers, err = backend.EncodeJSON("reviewers", call.Reviewers); err != nil {
				return err
			}
		}
		x.id, x.seen = append(x.id, call.ID), append(x.seen, list[i].Seen)
		x.deadline = append(x.deadline, timestamp(call.Deadline))
		x.claimedBy, x.claimedUntil = append(x.claimedBy, call.ClaimedBy), append(x.claimedUntil, timestamp(call.ClaimedUntil))
		x.step, x.tool = append(x.step, call.StepID), append(x.tool, call.Tool)
		x.kind, x.status = append(x.kind, string(call.Kind)), append(x.status, string(call.Status))
		x.reviewers, x.data = append(x.reviewers, reviewers), append(x.data, data)
	}
	return nil
}

func readCall(rows pgx.Rows) (cairn.PendingCall, error) {
	var call, columns cairn.PendingCall
	var deadline *time.Time
	if err := readJSON(rows, "call", &call, &columns.RootID, &columns.ID, &columns.SessionID, &columns.Version, &columns.CreatedAt,
		&columns.UpdatedAt, &columns.UserID, &columns.Agent, &deadline); err != nil {
		return call, err
	}
	call.RootID, call.ID, call.SessionID, call.Version = columns.RootID, columns.ID, columns.SessionID, columns.Version
	call.CreatedAt, call.UpdatedAt = columns.CreatedAt.UTC(), columns.UpdatedAt.UTC()
	call.UserID, call.Agent = columns.UserID, columns.Agent
	call.Tenant, _ = cairn.SplitTenant(call.RootID)
	call.Deadline, call.ClaimedUntil = instant(deadline), kept(call.ClaimedUntil)
	return call, nil
}
