package server

import (
	"context"
	"reflect"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// Below the border of HTTP, ids have their tenant: see [cairn.InTenant]. Clients of a tenant know only the names in it.
// The tenant is added to what they send where requests are decoded, and removed where responses are encoded. So no
// route can reach the sessions of another tenant, or shows that there are any.

// naming are the parameters of requests whose values are names in a tenant: of sessions, threads and people.
var naming = map[string]bool{"id": true, "root": true, "session_id": true, "thread_id": true, "parent_id": true, "user_id": true, "reviewer": true, "from_session": true}

// qualify gives the names in a decoded request their tenant.
func (c *request) qualify(in reflect.Value) error {
	if !c.confined() {
		return nil
	}
	for _, field := range reflect.VisibleFields(in.Type()) {
		name := parameter(field)
		if !naming[name] {
			continue
		}
		at := in.FieldByIndex(field.Index)
		if at.Kind() == reflect.Pointer {
			if at.IsNil() {
				continue
			}
			at = at.Elem()
		}
		if strings.Contains(at.String(), ids.Separator) {
			return cairn.Invalid(name, "must not contain %s", ids.Separator)
		}
		at.SetString(ids.In(c.principal.Tenant, at.String()))
	}
	return nil
}

// parameter returns the name that a field of a request has in the path, the query or the body.
func parameter(field reflect.StructField) string {
	if name := field.Tag.Get("path"); name != "" {
		return name
	}
	if name := field.Tag.Get("query"); name != "" {
		return name
	}
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// selected returns the tenant that lists are restricted to; nil for all.
func (c *request) selected() *string {
	if !c.confined() {
		return nil
	}
	return &c.principal.Tenant
}

// listed lists sessions that the principal may know of. The cursors are the client's.
func (c *request) listed(ctx context.Context, q store.SessionQuery) (store.Page[cairn.Session], error) {
	at, err := driver.ParseSessionCursor(q.Cursor)
	if err != nil {
		return store.Page[cairn.Session]{}, err
	}
	if q.Tenant = c.selected(); at.ID != "" {
		q.Cursor = driver.SessionCursor(&cairn.Session{ID: c.full(at.ID), CreatedAt: at.CreatedAt})
	}
	page, err := c.h.eng.Sessions(ctx, q)
	if next, failed := driver.ParseSessionCursor(page.Next); err == nil && failed == nil && next.ID != "" {
		page.Next = driver.SessionCursor(&cairn.Session{ID: c.bareID(next.ID), CreatedAt: next.CreatedAt})
	}
	return page, err
}

// calls lists pending calls that the principal may know of. The cursors are the client's.
func (c *request) calls(q store.CallQuery) (page store.Page[cairn.PendingCall], err error) {
	q.Tenant = c.selected()
	if q.Cursor, err = moveCall(q.Cursor, c.full); err == nil {
		page, err = c.h.eng.Inbox(c.ctx, q)
	}
	if err == nil {
		page.Next, err = moveCall(page.Next, c.bareID)
	}
	return page, err
}

// decisions lists the decisions about a session's calls. The cursors are the client's.
func (c *request) decisions(session string, q store.PageQuery) (page store.Page[cairn.CallDecision], err error) {
	if q.Cursor, err = moveCall(q.Cursor, c.full); err == nil {
		page, err = c.h.eng.Decisions(c.ctx, session, q)
	}
	if err == nil {
		page.Next, err = moveCall(page.Next, c.bareID)
	}
	return page, err
}

// effects lists the effects of calls that the principal may know of. The cursors are the client's.
func (c *request) effects(q engine.EffectQuery) (page store.Page[cairn.PendingCall], err error) {
	q.Tenant = c.selected()
	if q.Cursor, err = moveEffect(q.Cursor, c.full); err == nil {
		page, err = c.h.eng.Effects(c.ctx, q)
	}
	if err == nil {
		page.Next, err = moveEffect(page.Next, c.bareID)
	}
	return page, err
}

// moveEffect changes the session in the cursor of a list of effects.
func moveEffect(cursor string, to func(string) string) (string, error) {
	rest, underWay := strings.CutPrefix(cursor, engine.EffectsUnderWay)
	if !underWay {
		return moveCall(cursor, to)
	}
	at, err := driver.ParseSessionCursor(rest)
	if at.ID == "" || err != nil {
		return cursor, err
	}
	return engine.EffectsUnderWay + driver.SessionCursor(&cairn.Session{ID: to(at.ID), CreatedAt: at.CreatedAt}), nil
}

// moveCall changes the root in the cursor of a list of calls.
func moveCall(cursor string, to func(string) string) (string, error) {
	at, root, id, err := driver.ParseCallCursor(cursor)
	if root == "" || err != nil {
		return cursor, err
	}
	return driver.CallCursor(&cairn.PendingCall{CallRef: cairn.CallRef{RootID: to(root), ID: id}, CreatedAt: at}), nil
}
