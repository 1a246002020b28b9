package server

import (
	"crypto/hmac"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// principal returns the caller of a request.
func (h *Handler) principal(r *http.Request) (*Principal, error) {
	if h.opts.AllowUnauthenticated {
		return &Principal{Roles: []Role{RoleUser, RoleReviewer, RoleAdmin}}, nil
	}
	p, err := h.opts.Authenticate(r)
	if err != nil {
		return nil, &cairn.Error{Code: cairn.CodeUnavailable, Message: "who makes the request could not be found out", Cause: err}
	}
	if p == nil {
		return nil, &httpError{http.StatusUnauthorized, "unauthorized", "the request has no valid credentials"}
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
	session := c.r.PathValue("id")
	if key == nil || q.Get("message_id") == "" {
		return noFile()
	}
	want := signature(key, session, c.r.PathValue("message"), c.r.PathValue("file"), q.Get("message_id"), q.Get("expires"))
	until, err := strconv.ParseInt(q.Get("expires"), 10, 64)
	if !hmac.Equal([]byte(want), []byte(q.Get("signature"))) || err != nil || time.Now().Unix() > until {
		return noFile()
	}
	c.principal, c.granted = &Principal{}, session
	return c.h.users.request("file of " + session) // limited by session: there is no user
}

// open returns a session, if the principal may perform the action on the tree that it belongs to: its root decides.
// Access to sessions is decided here alone. A session that is deleted, expired or not permitted is reported as not
// found.
func (c *request) open(id string, a Action) (*cairn.Session, error) {
	row, root, err := c.load(id)
	if err != nil {
		return nil, err
	}
	if c.granted != "" && c.granted == id && a == ActionRead { // access was checked before the address was signed
		return row, nil
	}
	return row, c.allow(Access{Principal: c.principal, Action: a, Session: root}, id)
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

// openCall returns a pending call of a session or of one below it, with the root of the tree, if the principal may
// review it.
func (c *request) openCall(session, callID string) (root *cairn.Session, call *cairn.PendingCall, err error) {
	row, root, err := c.load(session)
	if err != nil {
		return nil, nil, err
	}
	call, err = c.h.eng.Call(c.ctx, root.ID, callID)
	if err == nil && !c.within(row, call.SessionID) {
		err = store.UnknownCall(session, callID)
	}
	if err != nil { // only a principal that may read the session learns what is wrong with the call
		if hidden := c.allow(Access{Principal: c.principal, Action: ActionRead, Session: root}, session); hidden != nil {
			err = hidden
		}
		return nil, nil, err
	}
	return root, call, c.allow(Access{Principal: c.principal, Action: ActionReview, Session: root, Call: call}, session)
}

// load returns a session and the root of its tree. It does not decide about access.
func (c *request) load(id string) (row, root *cairn.Session, err error) {
	row, err = c.h.eng.Session(c.ctx, id)
	if root = row; err == nil && row.RootID != row.ID {
		root, err = c.h.eng.Session(c.ctx, row.RootID)
	}
	return row, root, hidden(err, id)
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

func (c *request) allow(a Access, id string) error {
	ok, err := c.h.opts.Policy(c.ctx, a)
	if err != nil {
		return &cairn.Error{Code: cairn.CodeUnavailable, Message: "the policy could not decide", Cause: err}
	}
	if !ok {
		return notFound(id)
	}
	if c.once != nil {
		c.once.permitted(&a, id)
	}
	return nil
}

// hidden makes a session that is gone indistinguishable from one that never existed: its owner is no longer known.
func hidden(err error, id string) error {
	if errors.Is(err, cairn.ErrNotFound) {
		return notFound(id)
	}
	return err
}

func notFound(id string) error {
	return &cairn.Error{Code: cairn.CodeNotFound, Field: "session_id", Message: "session \"" + id + "\" not found"}
}

func noFile() error {
	return &cairn.Error{Code: cairn.CodeNotFound, Field: "file", Message: "there is no such file"}
}
