package server

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
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
	// User is the principal's name, as an owner of sessions and as a reviewer. It must not contain "::". A [Policy] gets a
	// copy, in which it is the user's id among all tenants.
	User  string
	Roles []Role
	// Tenant is the tenant that the principal is confined to, regardless of its roles; empty means the sessions of no
	// tenant. [AllTenants] confines it to none. In the copy for a policy, it is the tenant as which such a principal
	// acts, if the request names one.
	Tenant string
	// Name is how pages show the principal; empty means User.
	Name string
	// Expires is when the credentials expire; zero means that this is not known. A [SignIn] ends by then.
	Expires time.Time
}

// AllTenants as the Tenant of a [Principal] is for operators of the platform, who see every tenant.
const AllTenants = "*"

// tenantHeader names the tenant as which a principal of all tenants makes a request.
const tenantHeader = "Cairn-Tenant"

// seesAll reports whether the lists of a principal are of every user.
func (p *Principal) seesAll() bool { return p.Is(RoleAdmin) || p.Is(RoleOperator) }

// Is reports whether the principal has a role.
func (p *Principal) Is(r Role) bool { return slices.Contains(p.Roles, r) }

// within returns the principal as it acts in a request: with the id of its user, and the tenant that it is confined to.
// The tenant is AllTenants for one that is not confined.
func (p *Principal) within(r *http.Request) (*Principal, error) {
	invalid := p.Tenant != "" && p.Tenant != AllTenants && ids.CheckTenant(p.Tenant) != ""
	if invalid || strings.Contains(p.User, ids.Separator) {
		return nil, &httpError{http.StatusUnauthorized, "unauthorized", "credentials have an invalid user or tenant"}
	}
	out := *p
	asked := slices.DeleteFunc(slices.Clone(r.Header.Values(tenantHeader)), func(name string) bool { return name == p.Tenant || name == "" })
	switch {
	case len(asked) == 0:
	case p.Tenant != AllTenants:
		return nil, &httpError{http.StatusForbidden, "forbidden", "credentials are for another tenant than " + tenantHeader}
	case len(asked) > 1:
		return nil, cairn.Invalid(tenantHeader, "must be a single value")
	case ids.CheckTenant(asked[0]) != "":
		return nil, cairn.Invalid(tenantHeader, "%s", ids.CheckTenant(asked[0]))
	default:
		out.Tenant = asked[0]
	}
	if out.Tenant != AllTenants {
		out.User = ids.In(out.Tenant, p.User)
	}
	return &out, nil
}

// limitKey is the name under which the principal's requests and streams are counted.
func (p *Principal) limitKey() string {
	if p.Tenant == "" || p.User != "" && p.Tenant != AllTenants {
		return p.User
	}
	return p.Tenant + ids.Separator + p.User
}

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

	// ActionReadMemory is to see memories, and ActionChangeMemory to add, correct and forget them. ActionPromoteMemory is to
	// see the memories in quarantine, and to make them active.
	ActionReadMemory    Action = "read_memory"
	ActionChangeMemory  Action = "change_memory"
	ActionPromoteMemory Action = "promote_memory"
)

// Access describes a request that a policy allows or denies. Ids in it have their tenant, see [cairn.InTenant]. A
// policy is not asked about sessions of a tenant that the principal is not of.
type Access struct {
	Principal *Principal
	Action    Action
	// Session is the root of the tree that the request is about. For the memories of a user or a group, it is a
	// value that no store has: it holds the Agent and, for a user's memories, the UserID.
	Session *cairn.Session
	// Call is the pending call of an ActionReview or ActionContext; nil for other actions.
	Call *cairn.PendingCall
}

// Policy reports whether an access is permitted. It is called for every request about a session, before
// anything else is done, and for every item of a list. A session or call that it does not permit appears not to exist.
type Policy func(context.Context, Access) (bool, error)

// OwnSessions is the default policy. A user may do anything with the sessions that carry its name, and decide their
// calls. Only named reviewers decide a call that names any. A reviewer may decide approvals, questions, unknown effects
// and budgets that name none; client tools and accounts to connect are for the session's user. That user may not raise a
// budget. A principal that may decide
// an open call may read the conversation up to it. An operator may read everything. An administrator may do anything.
//
// The same rules apply to memories: a user's own memories and the memories of the user's own sessions. Only reviewers and
// administrators promote memories in quarantine, and only administrators change the memories of a group.
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
		if a.Call.Kind == cairn.CallBudget {
			return p.Is(RoleReviewer), nil
		}
		forOthers := a.Call.Kind == cairn.CallApproval || a.Call.Kind == cairn.CallQuestion || a.Call.Kind == cairn.CallEffect
		return own || forOthers && p.Is(RoleReviewer), nil
	case ActionPromoteMemory:
		return p.Is(RoleReviewer), nil
	case ActionRead, ActionReadMemory:
		return own || p.Is(RoleOperator), nil
	}
	return own, nil
}
