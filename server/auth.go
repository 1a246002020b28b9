package server

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
)

// Role is a set of permissions of a principal.
type Role string

const (
	// RoleUser creates sessions and may do anything with its own.
	RoleUser Role = "user"
	// RoleReviewer sees and decides the approvals and questions of every session, except those that name other
	// reviewers, and reads the conversation up to them.
	RoleReviewer Role = "reviewer"
	// RoleOperator sees everything, and errors in full, but changes nothing.
	RoleOperator Role = "operator"
	// RoleAdmin may do anything.
	RoleAdmin Role = "admin"
)

// Principal is the authenticated caller of a request.
type Principal struct {
	// User is the principal's name, as an owner of sessions and as a reviewer.
	User  string
	Roles []Role
}

// seesAll reports whether the lists of a principal are of every user.
func (p *Principal) seesAll() bool { return p.Is(RoleAdmin) || p.Is(RoleOperator) }

// Is reports whether the principal has a role.
func (p *Principal) Is(r Role) bool { return slices.Contains(p.Roles, r) }

// Authenticator identifies the caller of a request. It returns nil without an error if credentials are missing or
// wrong; the response is then 401. An error means that it could not decide, and the response is 503.
type Authenticator func(*http.Request) (*Principal, error)

// Tokens authenticates by a bearer token in the Authorization header. Only the SHA-256 of tokens is compared, so
// the time of a comparison reveals nothing about them.
func Tokens(principals map[string]*Principal) Authenticator {
	hashed := make(map[[sha256.Size]byte]*Principal, len(principals))
	for token, p := range principals {
		if token != "" {
			hashed[sha256.Sum256([]byte(token))] = p
		}
	}
	return func(r *http.Request) (*Principal, error) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return nil, nil
		}
		return hashed[sha256.Sum256([]byte(token))], nil
	}
}

// Action is the kind of access that a request needs to a session or a call.
type Action string

const (
	ActionRead   Action = "read"   // see a session with all it has
	ActionRun    Action = "run"    // start, resume and stop turns; create a session
	ActionChange Action = "change" // branch, rewind, delete and the like
	ActionReview Action = "review" // see, claim and decide a pending call
	// ActionContext is to see the session of an open call, and the sessions that wait for it, up to the call.
	ActionContext Action = "context"
)

// Access describes a request that a policy allows or denies.
type Access struct {
	Principal *Principal
	Action    Action
	// Session is the root of the tree that the request is about.
	Session *cairn.Session
	// Call is the pending call of an ActionReview or ActionContext; nil for other actions.
	Call *cairn.PendingCall
}

// Policy reports whether an access is permitted. It is called for every request about a session, before
// anything else is done, and for every item of a list. A session or call that it does not permit appears not to exist.
type Policy func(context.Context, Access) (bool, error)

// OwnSessions is the default policy. A user may do anything with the sessions that carry its name, and decide their
// calls. Only named reviewers decide a call that names any. A reviewer may decide approvals and questions that name
// none; client tools and accounts to connect are for the session's user. A principal that may decide an open call may
// read the conversation up to it. An operator may read everything. An administrator may do anything.
func OwnSessions(_ context.Context, a Access) (bool, error) {
	p := a.Principal
	if p.Is(RoleAdmin) {
		return true, nil
	}
	own := p.User != "" && a.Session.UserID == p.User && p.Is(RoleUser)
	switch a.Action {
	case ActionReview, ActionContext:
		if len(a.Call.Reviewers) > 0 {
			return p.User != "" && slices.Contains(a.Call.Reviewers, p.User), nil
		}
		forOthers := a.Call.Kind == cairn.CallApproval || a.Call.Kind == cairn.CallQuestion
		return own || forOthers && p.Is(RoleReviewer), nil
	case ActionRead:
		return own || p.Is(RoleOperator), nil
	}
	return own, nil
}
