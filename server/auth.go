package server

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
)

// Role is what a principal may do beyond its own sessions.
type Role string

const (
	// RoleUser starts sessions and does anything with its own.
	RoleUser Role = "user"
	// RoleReviewer sees and decides pending calls of every session that name no other reviewers.
	RoleReviewer Role = "reviewer"
	// RoleAdmin does anything.
	RoleAdmin Role = "admin"
)

// Principal is who makes a request.
type Principal struct {
	// User names the principal: whose sessions are its own, and which reviewer it is.
	User  string
	Roles []Role
}

// Is reports whether the principal has a role.
func (p *Principal) Is(r Role) bool { return slices.Contains(p.Roles, r) }

// Authenticator says who makes a request. It returns nil without an error for credentials that are missing or wrong; the
// answer is 401 then. An error means that it could not find out, and the answer is 503.
type Authenticator func(*http.Request) (*Principal, error)

// Tokens authenticates by a bearer token in the Authorization header. Tokens are compared by their SHA-256 alone, so the
// time that takes says nothing about them.
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

// Action is what a request does with a session or a call.
type Action string

const (
	ActionRead   Action = "read"   // see a session with all it has
	ActionRun    Action = "run"    // start, resume and stop turns; create a session
	ActionChange Action = "change" // branch, rewind, delete and the like
	ActionReview Action = "review" // see, claim and decide a pending call
)

// Access is what a policy decides about.
type Access struct {
	Principal *Principal
	Action    Action
	// Session is the root of the tree that the request is about.
	Session *cairn.Session
	// Call is the pending call of an ActionReview; nil for other actions.
	Call *cairn.PendingCall
}

// Policy reports whether an access is permitted. It is asked once for every request about a session, before anything else
// is done. What it does not permit is answered as if it did not exist.
type Policy func(context.Context, Access) (bool, error)

// OwnSessions is the default policy: a user may do anything with the sessions that carry its name, and decide their calls;
// a call with named reviewers is decided by these alone; a reviewer may decide what names none; an administrator may do
// anything.
func OwnSessions(_ context.Context, a Access) (bool, error) {
	p := a.Principal
	if p.Is(RoleAdmin) {
		return true, nil
	}
	own := p.User != "" && a.Session.UserID == p.User && p.Is(RoleUser)
	if a.Action != ActionReview {
		return own, nil
	}
	if len(a.Call.Reviewers) > 0 {
		return p.User != "" && slices.Contains(a.Call.Reviewers, p.User), nil
	}
	return own || p.Is(RoleReviewer), nil
}
