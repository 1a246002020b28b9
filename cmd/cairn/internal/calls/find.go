package calls

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

// Open returns the open calls of a session, at most a hundred, in the order in which they were made. For a root, it
// includes those of its sub-agents.
func Open(ctx context.Context, eng *engine.Engine, root, session string) ([]cairn.PendingCall, error) {
	q := store.CallQuery{RootID: root}
	if session != root {
		q.SessionID = session
	}
	page, err := eng.Inbox(ctx, q)
	if err != nil || len(page.Items) < 2 {
		return page.Items, err
	}
	runs, err := eng.Runs(ctx, session, store.PageQuery{Newest: true, Limit: 1})
	if err != nil || len(runs.Items) == 0 || runs.Items[0].Suspended == nil {
		return page.Items, err
	}
	place := map[string]int{}
	for i, ref := range runs.Items[0].Suspended.Calls {
		place[ref.ID] = i
	}
	slices.SortStableFunc(page.Items, func(a, b cairn.PendingCall) int { return place[a.ID] - place[b.ID] })
	return page.Items, nil
}

// EveryStatus lists all statuses of a call.
var EveryStatus = []cairn.CallStatus{cairn.CallOpen, cairn.CallAnswered, cairn.CallSettled, cairn.CallDropped}

// Find returns the call of a tenant with the given id, or the only call whose id has it as a prefix; nil means any tenant.
// The error is ErrNotFound if no call matches, ErrInvalid if several do.
func Find(ctx context.Context, eng *engine.Engine, tenant *string, id string) (*cairn.PendingCall, error) {
	return Match("call", id, pages.All(func(cursor string) (store.Page[cairn.PendingCall], error) {
		return eng.Inbox(ctx, store.CallQuery{Tenant: tenant, Statuses: EveryStatus, Cursor: cursor, Limit: 1000})
	}))
}

// Match returns the call with the given id among calls, or the only one whose id has it as a prefix. kind names the calls
// in errors: ErrNotFound if none matches, ErrInvalid if several do.
func Match(kind, id string, calls iter.Seq2[cairn.PendingCall, error]) (*cairn.PendingCall, error) {
	if id == "" {
		return nil, cairn.Invalid(kind, "id is empty")
	}
	var found []cairn.PendingCall
	for call, err := range calls {
		switch {
		case err != nil:
			return nil, err
		case call.ID == id:
			return &call, nil
		case strings.HasPrefix(call.ID, id):
			found = append(found, call)
		}
	}
	switch len(found) {
	case 0:
		return nil, cairn.Errorf(cairn.ErrNotFound, "%s %q not found", kind, id)
	case 1:
		return &found[0], nil
	}
	return nil, cairn.Invalid(kind, "%q is ambiguous: it matches %s", id, ambiguous(found))
}

// maxNamed is the number of ambiguous calls that the error names.
const maxNamed = 10

func ambiguous(calls []cairn.PendingCall) string {
	var names []string
	for i := range calls[:min(len(calls), maxNamed)] {
		names = append(names, calls[i].ID)
	}
	if len(calls) > maxNamed {
		names = append(names, fmt.Sprintf("and %d more", len(calls)-maxNamed))
	}
	return strings.Join(names, ", ")
}
