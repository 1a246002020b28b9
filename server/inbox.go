package server

import (
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

type inboxIn struct {
	// SessionID lists only calls of this session and of those below it.
	SessionID string `query:"session_id"`

	Tool   string `query:"tool"`
	Kind   string `query:"kind"`
	UserID string `query:"user_id"`
	Limit  int    `query:"limit"`
	Cursor string `query:"cursor"`
}

// inboxPages is how many pages without a call that the principal may decide one request reads.
const inboxPages = 10

// inbox lists open calls that the principal may decide: those of its own sessions and, with the roles for it, those
// that it reviews. A page may be empty although others follow.
func inbox(c *request, in *inboxIn) (*Page[cairn.PendingCall], error) {
	p := paging{limit: in.Limit, cursor: in.Cursor}
	if err := p.check(); err != nil {
		return nil, err
	}
	q := store.CallQuery{RootID: in.SessionID, Tool: in.Tool, Kind: cairn.CallKind(in.Kind), UserID: in.UserID, Cursor: in.Cursor, Limit: p.limit}
	switch {
	case c.principal.Is(RoleAdmin):
	case in.UserID == c.principal.User && in.UserID != "": // its own
	case in.UserID != "":
		return nil, cairn.Invalid("user_id", "is another user's")
	default:
		q.Reviewer = c.principal.User
	}
	of := &cairn.Session{ID: in.SessionID, RootID: in.SessionID}
	if in.SessionID != "" {
		row, _, err := c.load(in.SessionID)
		if err == nil {
			of, q.RootID = row, row.RootID
		} else if !errors.Is(err, cairn.ErrNotFound) { // one that does not exist has no calls
			return nil, err
		}
	}
	out := &Page[cairn.PendingCall]{Items: []cairn.PendingCall{}}
	for range inboxPages {
		page, err := c.h.eng.Inbox(c.ctx, q)
		if err != nil {
			return nil, err
		}
		for _, call := range page.Items {
			// The rest of the row is not known here. The default policy does not need it.
			root := &cairn.Session{ID: call.RootID, RootID: call.RootID, UserID: call.UserID}
			ok, err := c.h.opts.Policy(c.ctx, Access{Principal: c.principal, Action: ActionReview, Session: root, Call: &call})
			if err != nil {
				return nil, err
			}
			if ok && c.within(of, call.SessionID) {
				out.Items = append(out.Items, call)
			}
		}
		if out.Next = page.Next; page.Next == "" || len(out.Items) > 0 {
			break
		}
		q.Cursor = page.Next
	}
	return out, nil
}

// openCalls returns the open calls of a session and of those below it.
func (c *request) openCalls(row *cairn.Session) ([]cairn.PendingCall, error) {
	list := []cairn.PendingCall{}
	for call, err := range store.All(func(cursor string) (store.Page[cairn.PendingCall], error) {
		return c.h.eng.Inbox(c.ctx, store.CallQuery{RootID: row.RootID, Limit: 1000, Cursor: cursor})
	}) {
		if err != nil {
			return nil, err
		}
		if c.within(row, call.SessionID) {
			list = append(list, *call)
		}
	}
	return list, nil
}

type callIn struct {
	Root string `path:"root" json:"-"`
	Call string `path:"call" json:"-"`
}

func getCall(c *request, in *callIn) (*cairn.PendingCall, error) {
	_, call, err := c.openCall(in.Root, in.Call)
	return call, err
}

type claimIn struct {
	Root string `path:"root" json:"-"`
	Call string `path:"call" json:"-"`
	// Seconds is how long the call is reserved; 0 means 15 minutes.
	Seconds int `json:"seconds,omitempty"`
	// Reviewer is who claims the call, on a server without authentication.
	Reviewer string `json:"reviewer,omitempty"`
}

const claimFor = 15 * time.Minute

func claim(c *request, in *claimIn) (*cairn.PendingCall, error) {
	if err := c.reviewAs(&in.Reviewer); err != nil {
		return nil, err
	}
	d := time.Duration(in.Seconds) * time.Second
	if d == 0 {
		d = claimFor
	}
	_, call, err := c.openCall(in.Root, in.Call)
	if err != nil {
		return nil, err
	}
	if changed, err := c.changed(call.Version); changed || err != nil {
		return call, err
	}
	return c.h.eng.Claim(c.ctx, call.RootID, in.Call, in.Reviewer, d)
}

type releaseIn struct {
	Root     string `path:"root" json:"-"`
	Call     string `path:"call" json:"-"`
	Reviewer string `json:"reviewer,omitempty"`
}

func release(c *request, in *releaseIn) (*cairn.PendingCall, error) {
	if err := c.reviewAs(&in.Reviewer); err != nil {
		return nil, err
	}
	_, call, err := c.openCall(in.Root, in.Call)
	if err != nil {
		return nil, err
	}
	if changed, err := c.changed(call.Version); changed || err != nil {
		return call, err
	}
	return c.h.eng.Release(c.ctx, call.RootID, in.Call, in.Reviewer)
}

type submitIn struct {
	// SessionID is the call's session, or one above it, such as the root of its tree.
	SessionID string `json:"session_id,omitempty" query:"session_id"`
	cairn.Submission
}

func submit(c *request, in *submitIn) (*cairn.Receipt, error) {
	if err := c.reviewAs(&in.Reviewer); err != nil {
		return nil, err
	}
	root, _, err := c.openCall(in.SessionID, in.CallID)
	if err != nil {
		return nil, err
	}
	receipt, err := c.h.eng.Submit(c.ctx, root.ID, in.Submission)
	if err != nil {
		return nil, err
	}
	return &receipt, nil
}

// reviewAs makes the principal the reviewer of a decision. Only without authentication may a request name another
// reviewer.
func (c *request) reviewAs(reviewer *string) error {
	if c.h.opts.AllowUnauthenticated {
		return nil
	}
	if *reviewer != "" && *reviewer != c.principal.User {
		return cairn.Invalid("reviewer", "is who makes the request; leave it out")
	}
	*reviewer = c.principal.User
	return nil
}
