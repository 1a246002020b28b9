package backend

import (
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// The functions below implement lists for a store that scans everything each time.

// SessionPage implements driver.Store.List over all rows, which it sorts.
func SessionPage(rows []*cairn.Session, q driver.SessionQuery) (page driver.Page[cairn.Session], err error) {
	cursor, err := q.Begin()
	if err != nil {
		return page, err
	}
	rows = slices.DeleteFunc(rows, func(row *cairn.Session) bool { return !cursor.Before(row) || !q.Selects(row) })
	slices.SortFunc(rows, func(a, b *cairn.Session) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	for _, row := range rows {
		if len(page.Items) == driver.PageSize(q.Limit) {
			page.Next = driver.SessionCursor(&page.Items[len(page.Items)-1])
			break
		}
		page.Items = append(page.Items, *row)
	}
	return page, nil
}

// CallPage implements driver.Store.Calls over all calls, which it sorts, at the store's time now.
func CallPage(calls []*cairn.PendingCall, q driver.CallQuery, now time.Time) (page driver.Page[cairn.PendingCall], err error) {
	var last cairn.PendingCall
	if last.CreatedAt, last.RootID, last.ID, err = q.Begin(); err != nil {
		return page, err
	}
	calls = slices.DeleteFunc(calls, func(c *cairn.PendingCall) bool {
		return q.Cursor != "" && driver.CompareCalls(c, &last) <= 0 || !q.Selects(c, now)
	})
	slices.SortFunc(calls, driver.CompareCalls)
	for i, c := range calls {
		if i == driver.PageSize(q.Limit) {
			page.Next = driver.CallCursor(calls[i-1])
			break
		}
		page.Items = append(page.Items, *c)
	}
	return page, nil
}

// DuePage implements driver.Store.Due over all sessions, by id, at the store's time now.
func DuePage(docs map[string]*Document, q driver.DueQuery, now time.Time) (driver.Page[driver.Due], error) {
	since, id, err := driver.ParseDueCursor(q.Cursor)
	if err != nil {
		return driver.Page[driver.Due]{}, err
	}
	after := driver.Due{SessionID: id, Since: since}
	var due []driver.Due
	for _, doc := range docs {
		d := doc.Due()
		d.Since = d.Since.Truncate(time.Microsecond) // the precision of a cursor
		if d.Kind == "" || now.Before(d.Since) && !doc.DueAtOnce(now) || id != "" && driver.CompareDue(d, after) <= 0 {
			continue
		}
		if root := docs[d.RootID]; root != nil {
			d.Agent = root.Row.Agent
		}
		if q.Agents == nil || slices.Contains(q.Agents, d.Agent) {
			due = append(due, d)
		}
	}
	return driver.DuePage(due, q.Limit), nil
}
