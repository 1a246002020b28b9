package server

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/wire"
	"github.com/cairn-agents/cairn/store"
)

type inboxIn struct {
	// SessionID lists only calls of this session and of those below it.
	SessionID string `query:"session_id"`

	Tool   string `query:"tool"`
	Kind   string `query:"kind"`
	UserID string `query:"user_id"`
	agentQuery
	// Status lists the calls with one of these statuses instead of the open ones: open, answered, settled or dropped.
	// The decisions about a call are in its trail.
	Status []string `query:"status"`
	Limit  int      `query:"limit"`
	Cursor string   `query:"cursor"`
}

// inboxPages is how many pages without a call that the principal may decide one request reads.
const inboxPages = 10

// inbox lists calls, the open ones by default, that the principal may decide or could have decided: those of its own
// sessions and, with the roles for it, those that it reviews. An operator sees them all. A page may be empty although
// others follow.
func inbox(c *request, in *inboxIn) (*pageBody[cairn.PendingCall], error) {
	p := paging{limit: in.Limit, cursor: in.Cursor}
	if err := p.check(); err != nil {
		return nil, err
	}
	q := store.CallQuery{RootID: in.SessionID, Tool: in.Tool, Kind: cairn.CallKind(in.Kind), UserID: in.UserID, Cursor: in.Cursor, Limit: p.limit}
	var err error
	if q.Agent, err = in.agentQuery.name(); err != nil {
		return nil, err
	}
	if kinds := values(cairn.CallClientTool, cairn.CallApproval, cairn.CallQuestion, cairn.CallConnect, cairn.CallEffect, cairn.CallBudget); in.Kind != "" && !slices.Contains(kinds, in.Kind) {
		return nil, cairn.Invalid("kind", "unknown kind %q: must be one of %s", in.Kind, strings.Join(kinds, ", "))
	}
	known := enums[reflect.TypeFor[cairn.CallStatus]()]
	for _, word := range split(in.Status) {
		if !slices.Contains(known, word) {
			return nil, cairn.Invalid("status", "unknown status %q: must be one of %s", word, strings.Join(known, ", "))
		}
		q.Statuses = append(q.Statuses, cairn.CallStatus(word))
	}
	switch {
	case c.principal.seesAll():
	case in.UserID == c.principal.User && in.UserID != "": // its own
	case in.UserID != "":
		return nil, cairn.Invalid("user_id", "must be the caller's own user id")
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
	items, next := []cairn.PendingCall(nil), ""
	for range inboxPages {
		page, err := c.calls(q)
		if err != nil {
			return nil, err
		}
		for _, call := range page.Items {
			// The rest of the row is not known here. The default policy does not need it.
			root := &cairn.Session{ID: call.RootID, Tenant: call.Tenant, RootID: call.RootID, UserID: call.UserID}
			ok, err := c.permits(Access{Action: ActionReview, Session: root, Call: &call})
			if !ok && err == nil && c.principal.Is(RoleOperator) {
				ok, err = c.permits(Access{Action: ActionRead, Session: root})
			}
			if err != nil {
				return nil, err
			}
			if ok && c.within(of, call.SessionID) {
				items = append(items, call)
			}
		}
		if next = page.Next; next == "" || len(items) > 0 {
			break
		}
		q.Cursor = next
	}
	page := pageAt(p, items, next)
	page.Offset = nil // the list has no offsets
	return page, nil
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

// getCall shows a call to those who may decide it, and to those who may read its session.
func getCall(c *request, in *callIn) (*cairn.PendingCall, error) {
	row, call, err := c.openCall(in.Root, in.Call)
	if call != nil && errors.Is(err, cairn.ErrNotFound) {
		err = c.allow(Access{Action: ActionRead, Session: row}, in.Root)
	}
	return call, err
}

type claimIn struct {
	callIn
	wire.Claim
}

func claim(c *request, in *claimIn) (*cairn.PendingCall, error) {
	if err := c.reviewAs(&in.Reviewer); err != nil {
		return nil, err
	}
	if longest := int(cairn.MaxClaim / time.Second); in.Seconds < 0 || in.Seconds > longest {
		return nil, cairn.Invalid("seconds", "must be 0 to %d", longest)
	}
	_, call, err := c.openCall(in.Root, in.Call)
	if err != nil {
		return nil, err
	}
	if changed, err := c.changed(call.Version); changed || err != nil {
		return call, err
	}
	return c.h.eng.Claim(c.ctx, call.RootID, in.Call, in.Reviewer, time.Duration(in.Seconds)*time.Second, c.override()...)
}

type releaseIn struct {
	callIn
	wire.Release
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
	return c.h.eng.Release(c.ctx, call.RootID, in.Call, in.Reviewer, c.override()...)
}

// override returns the option with which an administrator claims or releases a call that another reviewer has claimed.
// Without authentication every caller is an administrator, and a request names its reviewer: claims then bind them all.
func (c *request) override() []engine.ClaimOption {
	if c.h.opts.AllowUnauthenticated || !c.principal.Is(RoleAdmin) {
		return nil
	}
	return []engine.ClaimOption{engine.OverrideClaim()}
}

type submitIn struct{ wire.Submit }

func (*submitIn) answering() bool { return true }

func submit(c *request, in *submitIn) (*cairn.Receipt, error) {
	if err := c.reviewAs(&in.Reviewer); err != nil {
		return nil, err
	}
	root, _, err := c.openCall(in.SessionID, in.CallID)
	if err != nil {
		return nil, err
	}
	receipt, err := c.answer(root.ID, in.Submission)
	if err != nil {
		return nil, err
	}
	return &receipt, nil
}

// answer submits an answer to a call. An administrator's ends the claim of another reviewer first.
func (c *request) answer(root string, s cairn.Submission) (cairn.Receipt, error) {
	receipt, err := c.h.eng.Submit(c.ctx, root, s)
	if opts := c.override(); opts != nil && errors.Is(err, cairn.ErrClaimed) {
		if _, err := c.h.eng.Release(c.ctx, root, s.CallID, s.Reviewer, opts...); err != nil && !errors.Is(err, cairn.ErrInvalid) { // ErrInvalid: not claimed any more
			return receipt, err
		}
		receipt, err = c.h.eng.Submit(c.ctx, root, s)
	}
	return receipt, err
}

// reviewAs makes the principal the reviewer of a decision. Only without authentication may a request name another
// reviewer.
func (c *request) reviewAs(reviewer *string) error {
	if c.h.opts.AllowUnauthenticated {
		return nil
	}
	if *reviewer != "" && *reviewer != c.principal.User {
		return cairn.Invalid("reviewer", "must be the caller or omitted")
	}
	*reviewer = c.principal.User
	return nil
}
