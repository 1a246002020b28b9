package server

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/store"
)

// filterIn selects sessions.
type filterIn struct {
	agentQuery
	// Status lists sessions with one of these statuses: idle, active, paused, completed, failed or interrupted. Those
	// that have expired, or were deleted, and can be restored, are listed with the words expired and deleted.
	Status []string `query:"status"`
	// Tags must all be present.
	Tags []string `query:"tag"`
	// Metadata is a JSON object. Sessions have each of its values at the same path of their metadata.
	Metadata cairn.Metadata `query:"metadata"`
	UserID   string         `query:"user_id"`
	// ParentID lists the sessions of the sub-agents and companions of that session, instead of sessions without a parent.
	ParentID string `query:"parent_id"`
	Search   string `query:"search"`
	// ThreadID lists the sessions of a thread.
	ThreadID string `query:"thread_id"`
	// Removed lists sessions that were "deleted" or have "expired" and can be restored, instead of the existing
	// ones.
	Removed []string `query:"removed"`
	// Archived is which sessions are listed: "false" those that are not archived, "true" those that are, "all" both.
	// Without it, a list by thread_id, parent_id or removed has both, and any other list those that are not archived.
	Archived      string    `query:"archived" schema:"enum=false|true|all"`
	CreatedAfter  time.Time `query:"created_after"`
	CreatedBefore time.Time `query:"created_before"`
	// UpdatedAfter is inclusive and UpdatedBefore exclusive. A commit of a run updates its session, too.
	UpdatedAfter  time.Time `query:"updated_after"`
	UpdatedBefore time.Time `query:"updated_before"`
}

// query returns the query that selects the sessions: the principal's, or those of any user for an administrator or
// operator. It is nil for a principal that can have none.
func (in *filterIn) query(c *request) (*store.SessionQuery, error) {
	q := &store.SessionQuery{UserID: in.UserID, ThreadID: in.ThreadID, Tags: in.Tags, Metadata: in.Metadata, Search: in.Search,
		RootsOnly: true, CreatedAfter: in.CreatedAfter, CreatedBefore: in.CreatedBefore,
		UpdatedAfter: in.UpdatedAfter, UpdatedBefore: in.UpdatedBefore}
	var err error
	if q.Agent, err = in.agentQuery.name(); err != nil {
		return nil, err
	}
	if err := withStatus(q, in.Status); err != nil {
		return nil, err
	}
	for _, why := range in.Removed {
		if store.Removal(why) != store.Deleted && store.Removal(why) != store.Expired {
			return nil, cairn.Invalid("removed", "unknown value %q: must be %s or %s", why, store.Deleted, store.Expired)
		}
		q.Removed = append(q.Removed, store.Removal(why))
	}
	if q.Archived, err = in.archived(q); err != nil {
		return nil, err
	}
	if in.ParentID != "" { // whose root decides about the children as well
		if _, err := c.open(in.ParentID, ActionRead); err != nil {
			return nil, err
		}
		q.ParentID, q.RootsOnly = in.ParentID, false
	}
	if !c.principal.seesAll() {
		if in.UserID != "" && in.UserID != c.principal.User {
			return nil, cairn.Invalid("user_id", "may only be set by administrators and operators")
		}
	}
	if !c.principal.seesAll() && in.ParentID == "" {
		if c.principal.User == "" {
			return nil, nil
		}
		q.UserID = c.principal.User
	}
	return q, nil
}

// permits reports whether the policy lets the principal see a session that the query selected. The children of a session
// are for every principal that may read the session.
func (in *filterIn) permits(c *request, row *cairn.Session) (bool, error) {
	if in.ParentID != "" {
		return true, nil
	}
	return c.permits(Access{Action: ActionRead, Session: row})
}

type listIn struct {
	filterIn
	// Latest lists one session of each thread: the latest.
	Latest bool `query:"latest"`
	// Include names what is returned in addition to each session: situation. That takes up to four reads for each session
	// that is paused, failed or interrupted.
	Include []string `query:"include"`
	Limit   int      `query:"limit"`
	Offset  int      `query:"offset"`
	Cursor  string   `query:"cursor"`
}

// listSessions lists sessions. The policy filters each page.
func listSessions(c *request, in *listIn) (*pageBody[client.ListedSession], error) {
	for _, what := range split(in.Include) {
		if what != "situation" {
			return nil, cairn.Invalid("include", "unknown value %q: must be situation", what)
		}
	}
	p := paging{in.Limit, in.Offset, in.Cursor}
	if err := p.check(); err != nil {
		return nil, err
	}
	q, err := in.query(c)
	if err != nil || q == nil {
		return pageAt[client.ListedSession](p, nil, ""), err
	}
	page, err := read(c.ctx, p, *q,
		func(q *store.SessionQuery, cursor string, limit int) { q.Cursor, q.Limit = cursor, limit }, c.listed)
	if err != nil {
		return nil, err
	}
	var rows []cairn.Session
	for i := range page.Items {
		row := &page.Items[i]
		ok, err := in.permits(c, row)
		if err == nil && ok && in.Latest {
			var latest *cairn.Session
			latest, err = c.h.eng.Thread(c.ctx, row.ThreadID)
			ok = err == nil && latest.ID == row.ID
		}
		if err != nil && !errors.Is(err, cairn.ErrNotFound) {
			return nil, err
		}
		if ok {
			rows = append(rows, *row)
		}
	}
	out := &pageBody[client.ListedSession]{Items: []client.ListedSession{}, Next: page.Next, HasMore: page.HasMore, Limit: page.Limit, Offset: page.Offset, Cursor: page.Cursor}
	for i := range rows {
		out.Items = append(out.Items, client.ListedSession{Session: public(&rows[i])})
	}
	if len(in.Include) == 0 {
		return out, nil
	}
	return out, c.addSituations(out.Items, rows)
}

// archived returns which sessions a request lists, see store.SessionQuery.Archived.
func (in *filterIn) archived(q *store.SessionQuery) (*bool, error) {
	switch in.Archived {
	case "":
		if in.ThreadID != "" || in.ParentID != "" || len(q.Removed) > 0 {
			return nil, nil
		}
		return new(false), nil
	case "all":
		return nil, nil
	case "false", "true":
		return new(in.Archived == "true"), nil
	}
	return nil, cairn.Invalid("archived", "unknown value %q: must be one of false, true, all", in.Archived)
}

// withStatus adds the statuses by which a request selects sessions.
func withStatus(q *store.SessionQuery, words []string) error {
	known := enums[reflect.TypeFor[cairn.SessionStatus]()]
	for _, word := range split(words) {
		switch removal := store.Removal(word); {
		case removal == store.Deleted || removal == store.Expired:
			q.Removed = append(q.Removed, removal)
		case slices.Contains(known, word):
			q.Statuses = append(q.Statuses, cairn.SessionStatus(word))
		default:
			return cairn.Invalid("status", "unknown status %q: must be one of %s, %s, %s", word, strings.Join(known, ", "), store.Expired, store.Deleted)
		}
	}
	if len(q.Removed) > 0 && len(q.Statuses) > 0 {
		return cairn.Invalid("status", "%s and %s cannot be combined with other statuses", store.Expired, store.Deleted)
	}
	return nil
}

// split returns the words of a parameter that may be repeated, or have several words with commas between them.
func split(values []string) (words []string) {
	for _, value := range values {
		words = append(words, strings.Split(value, ",")...)
	}
	return words
}

type countIn struct {
	filterIn
	// Limit is the number up to which the sessions of a status are counted: at most 1000; 0 means 100.
	Limit int `query:"limit"`
}

const (
	// usualCount is the number up to which sessions are counted without a limit, and maxCount the highest limit.
	usualCount = 100
	maxCount   = 1000
)

// countSessions counts the sessions that listSessions lists. It reads at most the limit and one of each status, since a
// policy decides about each session.
func countSessions(c *request, in *countIn) (*client.SessionCounts, error) {
	if in.Limit < 0 || in.Limit > maxCount {
		return nil, cairn.Invalid("limit", "must be 1 to %d", maxCount)
	}
	out := &client.SessionCounts{Statuses: []client.StatusCount{}}
	q, err := in.query(c)
	if err != nil || q == nil {
		return out, err
	}
	if len(q.Removed) > 0 {
		return nil, cairn.Invalid("status", "removed sessions are not counted")
	}
	statuses := q.Statuses
	if len(statuses) == 0 {
		for _, word := range enums[reflect.TypeFor[cairn.SessionStatus]()] {
			statuses = append(statuses, cairn.SessionStatus(word))
		}
	}
	for _, status := range slices.Compact(slices.Sorted(slices.Values(statuses))) {
		q.Statuses = []cairn.SessionStatus{status}
		count, err := c.count(in, *q)
		if err != nil {
			return nil, err
		}
		count.Status = status
		out.Statuses = append(out.Statuses, count)
	}
	return out, nil
}

// count counts the sessions that a query selects and the policy permits, up to the limit.
func (c *request) count(in *countIn, q store.SessionQuery) (n client.StatusCount, err error) {
	limit := cmp.Or(in.Limit, usualCount)
	for left := limit + 1; left > 0; {
		q.Limit = left
		page, err := c.listed(c.ctx, q)
		if err != nil {
			return n, err
		}
		left -= max(len(page.Items), 1)
		for i := range page.Items {
			ok, err := in.permits(c, &page.Items[i])
			if err != nil {
				return n, err
			}
			if !ok {
				continue
			}
			if n.Count == limit {
				n.More = true
				return n, nil
			}
			n.Count++
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return n, nil
		}
	}
	n.More = true // at least one was not looked at
	return n, nil
}
