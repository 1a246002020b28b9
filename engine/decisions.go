package engine

import (
	"context"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// everyStatus selects the calls that are open and those that are decided.
var everyStatus = []cairn.CallStatus{cairn.CallOpen, cairn.CallAnswered, cairn.CallSettled, cairn.CallDropped}

// Decisions pages through the decisions about the pending calls of a session, and of the whole tree if the session is
// its root. Votes, claims and timeouts are among them. A page has the decisions of at most the query's Limit calls, in
// order of time; calls come in the order in which they were opened. A branch begins with the calls that were decided in
// the messages it took over. The error is ErrNotFound if the session does not exist. q.Newest is ignored.
func (e *Engine) Decisions(ctx context.Context, id string, q store.PageQuery) (store.Page[cairn.CallDecision], error) {
	row, err := e.Session(ctx, id)
	if err != nil {
		return store.Page[cairn.CallDecision]{}, err
	}
	calls := store.CallQuery{RootID: row.RootID, Statuses: everyStatus, Cursor: q.Cursor, Limit: q.Limit}
	if row.RootID != id {
		calls.SessionID = id
	}
	page, err := e.store.Calls(ctx, calls)
	out := store.Page[cairn.CallDecision]{Next: page.Next}
	for i := range page.Items {
		out.Items = append(out.Items, page.Items[i].Decisions()...)
	}
	slices.SortStableFunc(out.Items, func(a, b cairn.CallDecision) int { return a.At.Compare(b.At) })
	return out, err
}

// decidedBefore returns the decided calls whose results are among the first n messages of a session, as calls of a
// branch from there. The transcript has no results of its sub-agents' calls: those that were decided by the time of the
// last of these messages are among them.
func (e *Engine) decidedBefore(ctx context.Context, row *cairn.Session, n int) (list []driver.CallWrite, err error) {
	q := store.CallQuery{RootID: row.RootID, Statuses: []cairn.CallStatus{cairn.CallSettled, cairn.CallDropped}}
	if row.RootID != row.ID {
		q.SessionID = row.ID
	}
	var results map[string]int // indexes of the messages with the results of tool calls
	var last time.Time
	for call, err := range store.All(func(cursor string) (store.Page[cairn.PendingCall], error) {
		q.Cursor = cursor
		return e.store.Calls(ctx, q)
	}) {
		if err != nil {
			return nil, err
		}
		if len(call.Trail) == 0 || call.Kind == cairn.CallEffect { // a branch has sent none
			continue
		}
		if results == nil {
			if results, last, err = e.resultsOf(ctx, row, n); err != nil {
				return nil, err
			}
		}
		at, there := results[inbox.ToolCall(call)]
		if there = there && call.SessionID == row.ID; there && at < n || !there && !call.Trail[len(call.Trail)-1].At.After(last) {
			own := *call
			own.Kept = nil
			list = append(list, driver.CallWrite{Call: own})
		}
	}
	return list, nil
}

// resultsOf returns the indexes of the messages with the results of a session's tool calls, and the time of the last of
// its first n messages.
func (e *Engine) resultsOf(ctx context.Context, row *cairn.Session, n int) (results map[string]int, last time.Time, err error) {
	results = map[string]int{}
	for at := 0; at < row.MessageCount; {
		list, err := e.Messages(ctx, row.ID, at, 1000)
		if err != nil || len(list) == 0 {
			return results, last, err
		}
		for i := range list {
			for _, r := range list[i].ToolResults() {
				results[r.CallID] = at
			}
			if at++; at == n {
				last = list[i].CreatedAt
			}
		}
	}
	return results, last, nil
}
