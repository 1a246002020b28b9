package server

import (
	"crypto/hmac"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// authenticate sets the principal of the request. With fresh, the cookie of a sign-in is not enough.
func (c *request) authenticate(fresh bool) (err error) {
	if c.caller, err = c.h.principal(c.r, fresh); err == nil {
		c.principal, err = c.caller.within(c.r)
	}
	return err
}

// principal returns the principal that the credentials of a request name. With fresh, a cookie is not enough, and an
// address whose credentials were refused too often has to wait.
func (h *Handler) principal(r *http.Request, fresh bool) (p *Principal, err error) {
	if h.opts.AllowUnauthenticated {
		return &Principal{Roles: []Role{RoleUser, RoleReviewer, RoleAdmin}, Tenant: AllTenants}, nil
	}
	switch {
	case !fresh && h.opts.SignIn != nil:
		if p, err = h.opts.SignIn.fromCookie(r, h.opts.URL); p != nil || err != nil {
			return p, err
		}
	case fresh && h.failures.exhausted(address(r)):
		return nil, &httpError{http.StatusTooManyRequests, "too_many_requests", "too many failed sign-ins"}
	}
	p, err = h.opts.Authenticate(r)
	if err != nil {
		return nil, &cairn.Error{Code: cairn.ErrUnavailable, Message: "cannot authenticate the request", Cause: err}
	}
	if p == nil && fresh {
		_ = h.failures.request(address(r)) // counts
	}
	if p == nil {
		return nil, &httpError{http.StatusUnauthorized, "unauthorized", "missing or invalid credentials"}
	}
	return p, nil
}

// grant accepts the signature of a request in place of credentials. It permits reading one file.
func (c *request) grant() error {
	key, err := c.h.signingKey(c.ctx)
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	tenant := q.Get("tenant")
	session := ids.In(tenant, c.r.PathValue("id"))
	if key == nil || q.Get("message_id") == "" || tenant != "" && ids.CheckTenant(tenant) != "" {
		return noFile()
	}
	want := signature(key, session, c.r.PathValue("message"), c.r.PathValue("file"), q.Get("message_id"), q.Get("expires"))
	until, err := strconv.ParseInt(q.Get("expires"), 10, 64)
	if !hmac.Equal([]byte(want), []byte(q.Get("signature"))) || err != nil || time.Now().Unix() > until {
		return noFile()
	}
	c.principal, c.granted = &Principal{Tenant: tenant}, session
	return c.h.users.request("file of " + session) // limited by session: there is no user
}

// open returns a session, if the principal may perform the action on the tree that it belongs to: its root decides.
// Access to sessions is decided here alone. A session that is deleted or not permitted is reported as not found. One that
// has expired is returned with ErrExpired.
func (c *request) open(id string, a Action) (*cairn.Session, error) {
	row, root, err := c.load(id)
	if err != nil {
		return c.gone(id, a, err)
	}
	if c.granted != "" && c.granted == id && a == ActionRead { // access was checked before the address was signed
		return row, nil
	}
	return row, c.allow(Access{Action: a, Session: root}, id)
}

// openRoot is open for what is done to whole conversations: turns, and deletion. The error is ErrInvalid for the session
// of a sub-agent or companion, which its root's turns drive.
func (c *request) openRoot(id string, a Action) (*cairn.Session, error) {
	row, err := c.open(id, a)
	if err == nil && row.RootID != row.ID {
		err = cairn.Invalid("session_id", "%q belongs to a sub-agent; its root is %q", row.ID, row.RootID)
	}
	return row, err
}

// openThread opens the latest session of a thread, or else the session with the id. If it has expired, the error is
// ErrExpired and the session is returned as well.
func (c *request) openThread(id string, a Action) (*cairn.Session, error) {
	row, err := c.latest(id, a)
	switch {
	case row != nil || !errors.Is(err, cairn.ErrNotFound):
		return row, err
	case a == ActionRead:
		return c.open(id, a)
	}
	return c.openRoot(id, a)
}

// latest opens the latest session of a thread. The error is ErrNotFound, without a session, if the thread has none.
func (c *request) latest(id string, a Action) (*cairn.Session, error) {
	row, err := c.h.eng.Thread(c.ctx, id)
	if err != nil {
		return nil, hidden(err, id)
	}
	if err = c.allow(Access{Action: a, Session: row}, id); err == nil {
		err = removed(row)
	}
	return row, err
}

// gone returns the error for a session that cannot be opened. Only who might use the session learns that it has expired,
// and gets it with the error.
func (c *request) gone(id string, a Action, err error) (*cairn.Session, error) {
	var gone *store.GoneError
	if !errors.As(err, &gone) || gone.Removed.Reason != store.Expired {
		return nil, hidden(err, id)
	}
	page, err := c.h.eng.Sessions(c.ctx, store.SessionQuery{RootID: gone.Removed.SessionID, RootsOnly: true,
		Removed: []store.Removal{store.Expired}, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(page.Items) == 0 { // restored or purged in between
		return nil, notFound(id)
	}
	row := &page.Items[0]
	if err = c.allow(Access{Action: a, Session: row}, id); err == nil {
		err = removed(row)
	}
	return row, err
}

// removed returns the error for a session that was removed, or nil. A deleted one appears not to exist.
func removed(row *cairn.Session) error {
	switch store.Removal(row.Removal) {
	case store.Deleted:
		return notFound(row.ID)
	case store.Expired:
		return cairn.Errorf(cairn.ErrExpired, "session %q has expired; POST /sessions/{id}/restore restores it", row.ID)
	}
	return nil
}

// threads returns what an agent does with the sessions of a thread.
func (c *request) threads(agent string) Threads {
	if usual := c.h.opts.Threads; usual != nil {
		return usual(agent)
	}
	return Threads{}
}

// current returns the id of the latest session of a thread, or else the id itself. It does not decide about access.
func (c *request) current(id string) (string, error) {
	row, err := c.h.eng.Thread(c.ctx, id)
	switch {
	case err == nil:
		return row.ID, nil
	case errors.Is(err, cairn.ErrNotFound):
		return id, nil
	}
	return "", err
}

// owner returns the session of a thread that has a pending call, or else the id itself.
func (c *request) owner(id, call string) (string, error) {
	for row, err := range store.All(func(cursor string) (store.Page[cairn.Session], error) {
		return c.h.eng.Sessions(c.ctx, store.SessionQuery{ThreadID: id, Cursor: cursor})
	}) {
		if err == nil {
			_, err = c.h.eng.Call(c.ctx, row.ID, call)
		}
		if err == nil {
			return row.ID, nil
		}
		if !errors.Is(err, cairn.ErrNotFound) {
			return "", err
		}
	}
	return id, nil
}

// openCall returns a pending call of a session or of one below it, with the root of the tree, if the principal may
// review it.
func (c *request) openCall(session, callID string) (root *cairn.Session, call *cairn.PendingCall, err error) {
	row, root, err := c.load(session)
	if err != nil {
		return nil, nil, hidden(err, session)
	}
	call, err = c.h.eng.Call(c.ctx, root.ID, callID)
	if err == nil && !c.within(row, call.SessionID) {
		err = driver.UnknownCall(session, callID)
	}
	if err != nil { // only a principal that may read the session learns what is wrong with the call
		if hidden := c.allow(Access{Action: ActionRead, Session: root}, session); hidden != nil {
			err = hidden
		}
		return nil, nil, err
	}
	return root, call, c.allow(Access{Action: ActionReview, Session: root, Call: call}, session)
}

// load returns a session and the root of its tree. It does not decide about access.
func (c *request) load(id string) (row, root *cairn.Session, err error) {
	row, err = c.h.eng.Session(c.ctx, id)
	if root = row; err == nil && row.RootID != row.ID {
		root, err = c.h.eng.Session(c.ctx, row.RootID)
	}
	return row, root, err
}

// within reports whether a session of row's tree is row's or is below it.
func (c *request) within(row *cairn.Session, session string) bool {
	for row.RootID != row.ID && session != row.ID {
		at, err := c.h.eng.Session(c.ctx, session)
		if err != nil || at.ParentID == "" {
			return false
		}
		session = at.ParentID
	}
	return true
}

// permits asks the policy about an access. A principal that is confined to a tenant has none to the sessions of others.
func (c *request) permits(a Access) (bool, error) {
	tenant := a.Session.Tenant
	if a.Session.ID != "" {
		tenant, _ = ids.Split(a.Session.ID)
	}
	if c.confined() && c.principal.Tenant != tenant {
		return false, nil
	}
	a.Principal = c.principal
	return c.h.opts.Policy(c.ctx, a)
}

func (c *request) allow(a Access, id string) error {
	ok, err := c.permits(a)
	if err != nil {
		return &cairn.Error{Code: cairn.ErrUnavailable, Message: "policy check failed", Cause: err}
	}
	if !ok {
		return notFound(id)
	}
	if c.once != nil {
		c.once.permitted(&a, id)
	}
	return nil
}

// allowMemory returns the first of some accesses to memories that the policy permits.
func (c *request) allowMemory(of *cairn.Session, actions []Action) (by Action, err error) {
	for _, a := range actions {
		err = c.allow(Access{Action: a, Session: of}, of.ID)
		if !errors.Is(err, cairn.ErrNotFound) {
			return a, err
		}
	}
	return "", &cairn.Error{Code: cairn.ErrNotFound, Field: "user_id", Message: "memories not found"}
}

// hidden makes a session that is gone indistinguishable from one that never existed: its owner is no longer known.
func hidden(err error, id string) error {
	if errors.Is(err, cairn.ErrNotFound) {
		return notFound(id)
	}
	return err
}

func notFound(id string) error {
	return &cairn.Error{Code: cairn.ErrNotFound, Field: "session_id", Message: "session \"" + id + "\" not found"}
}

func noFile() error {
	return &cairn.Error{Code: cairn.ErrNotFound, Field: "file", Message: "file not found"}
}
