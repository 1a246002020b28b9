// Package jwtauth authenticates the requests of a server by bearer tokens that an identity provider has signed.
// They are JSON Web Tokens (RFC 7519), checked with the keys that the provider publishes (JWKS, RFC 7517).
package jwtauth

import (
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/server"
)

// Options say which tokens are accepted. Issuer, Audience and JWKS are required.
type Options struct {
	// Issuer is the exact "iss" that a token must have.
	Issuer string
	// Audience must be among a token's "aud".
	Audience string
	// JWKS is the address of the issuer's keys: https, or http on this machine.
	JWKS string
	// Algorithms are the signature algorithms that are accepted; nil means RS256, ES256 and EdDSA. Only algorithms
	// with a public key are possible: a token without a signature, or signed with a shared secret, is never
	// accepted.
	Algorithms []string
	// UserClaim is the claim that names the user; empty means "sub". A token without it is refused.
	UserClaim string
	// TenantClaim is the claim that names the tenant of the user, see [server.Principal]. Dots lead into objects. A
	// token without it is refused. Its value may be [server.AllTenants]: the issuer must let nobody choose that. If
	// TenantClaim is empty, users have no tenant.
	TenantClaim string
	// RolesClaim is the claim that lists roles, as strings or as one space-separated string; empty means "roles".
	// Dots lead into objects: "realm_access.roles".
	RolesClaim string
	// Roles maps values of the claim to roles; nil means that the values are names of roles. Values that it lacks
	// are ignored.
	Roles map[string]server.Role
	// Default lists the roles of a valid token that names no role; nil means none: its user may do nothing.
	Default []server.Role
	// Everyone lists roles of every valid token, in addition to those that it names or has by Default; nil means none.
	Everyone []server.Role
	// Leeway is how far the clocks of issuer and server may differ; 0 means one minute, a negative value nothing.
	Leeway time.Duration
	// KeepKeys is how long fetched keys are used before they are fetched again; 0 means an hour. A token with an
	// unknown key has them fetched at once, but not twice within ten seconds.
	KeepKeys time.Duration
	// Client fetches the keys; nil means one with a timeout of ten seconds.
	Client *http.Client
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// possible are the algorithms that can be chosen.
var possible = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

// roles are those that a token can name.
var roles = []server.Role{server.RoleUser, server.RoleReviewer, server.RoleOperator, server.RoleAdmin}

// maxToken is the most bytes that a token may have.
const maxToken = 16 << 10

// authenticator checks tokens.
type authenticator struct {
	opts       Options
	algorithms []jose.SignatureAlgorithm
	keys       *keys
}

// New returns an authenticator of requests with a bearer token. Missing and invalid tokens are answered with 401.
// While the keys cannot be fetched, and none that are recent enough are known, no token is accepted: the response
// is 503. Errors contain neither tokens nor claims. The error of New is ErrInvalid and names the option that is
// missing or wrong.
func New(opts *Options) (server.Authenticator, error) {
	a := &authenticator{algorithms: []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}}
	if opts != nil {
		a.opts = *opts
	}
	o := &a.opts
	switch {
	case o.Issuer == "":
		return nil, cairn.Invalid("Issuer", "is required")
	case o.Audience == "":
		return nil, cairn.Invalid("Audience", "is required")
	case o.KeepKeys < 0:
		return nil, cairn.Invalid("KeepKeys", "is negative")
	}
	if at, err := url.Parse(o.JWKS); err != nil || at.Host == "" || at.Scheme != "https" && (at.Scheme != "http" || !loopback(at.Hostname())) {
		return nil, cairn.Invalid("JWKS", "must be an https URL")
	}
	if o.Algorithms != nil {
		a.algorithms = nil
	}
	for _, list := range []struct {
		field string
		roles []server.Role
	}{{"Roles", slices.Collect(maps.Values(o.Roles))}, {"Default", o.Default}, {"Everyone", o.Everyone}} {
		for _, role := range list.roles {
			if !slices.Contains(roles, role) {
				return nil, cairn.Invalid(list.field, "unknown role %q: must be one of %v", role, roles)
			}
		}
	}
	for _, name := range o.Algorithms {
		if !slices.Contains(possible, jose.SignatureAlgorithm(name)) {
			return nil, cairn.Invalid("Algorithms", "unsupported algorithm %q: must be one of %v", name, possible)
		}
		a.algorithms = append(a.algorithms, jose.SignatureAlgorithm(name))
	}
	if len(a.algorithms) == 0 {
		return nil, cairn.Invalid("Algorithms", "is empty")
	}
	o.UserClaim = or(o.UserClaim, "sub")
	o.RolesClaim = or(o.RolesClaim, "roles")
	o.Leeway = max(or(o.Leeway, time.Minute), 0)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: 10 * time.Second}
	}
	a.keys = &keys{url: o.JWKS, client: o.Client, now: o.Now, keep: or(o.KeepKeys, time.Hour)}
	return a.authenticate, nil
}

func or[T comparable](v, unset T) T {
	if v == *new(T) {
		return unset
	}
	return v
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (a *authenticator) authenticate(r *http.Request) (*server.Principal, error) {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || len(text) > maxToken {
		return nil, nil
	}
	token, err := jwt.ParseSigned(strings.TrimSpace(text), a.algorithms)
	if err != nil || len(token.Headers) != 1 {
		return nil, nil
	}
	head := token.Headers[0]
	candidates, err := a.keys.find(r.Context(), head.KeyID, head.Algorithm)
	if err != nil {
		return nil, err
	}
	for i := range candidates {
		var known jwt.Claims
		var all map[string]any
		if token.Claims(candidates[i].Key, &known, &all) == nil {
			return a.principal(&known, all), nil
		}
	}
	return nil, nil
}

// principal returns the principal that the claims of a token with a valid signature name; nil if they are not
// accepted.
func (a *authenticator) principal(known *jwt.Claims, all map[string]any) *server.Principal {
	want := jwt.Expected{Issuer: a.opts.Issuer, AnyAudience: jwt.Audience{a.opts.Audience}, Time: a.opts.Now()}
	if known.Expiry == nil || known.ValidateWithLeeway(want, a.opts.Leeway) != nil {
		return nil
	}
	p := a.opts.Principal(all)
	if p != nil {
		p.Expires = known.Expiry.Time()
	}
	return p
}

// Principal returns the principal that the claims of a verified token name, by UserClaim, TenantClaim, RolesClaim, Roles,
// Default and Everyone; nil if they name none. It checks neither signature nor issuer, audience and times, and does not
// set Expires. It is for programs that verify tokens by themselves.
func (o *Options) Principal(all map[string]any) *server.Principal {
	user, _ := claim(all, or(o.UserClaim, "sub")).(string)
	if ids.Check(user) != "" { // the rules of identifiers: not empty, bounded, printable
		return nil
	}
	tenant := ""
	if o.TenantClaim != "" {
		tenant, _ = claim(all, o.TenantClaim).(string)
		if tenant != server.AllTenants && cairn.CheckTenant(tenant) != nil {
			return nil
		}
	}
	var named []server.Role
	for _, name := range words(claim(all, or(o.RolesClaim, "roles"))) {
		role := server.Role(name)
		if o.Roles != nil {
			role = o.Roles[name]
		}
		if slices.Contains(roles, role) {
			named = append(named, role)
		}
	}
	if named == nil {
		named = o.Default
	}
	p := &server.Principal{User: user, Tenant: tenant}
	if name, _ := all["name"].(string); cairn.CheckTitle(name) == nil {
		p.Name = name
	}
	for _, role := range slices.Concat(o.Everyone, named) {
		if !p.Is(role) {
			p.Roles = append(p.Roles, role)
		}
	}
	return p
}

// claim returns the claim of a name, or the nested one that its dots lead to.
func claim(all map[string]any, name string) any {
	if v, ok := all[name]; ok {
		return v
	}
	first, rest, nested := strings.Cut(name, ".")
	inner, ok := all[first].(map[string]any)
	if !nested || !ok {
		return nil
	}
	return claim(inner, rest)
}

// words returns the strings of a list, or the words of a string.
func words(v any) []string {
	switch v := v.(type) {
	case string:
		return strings.Fields(v)
	case []any:
		var list []string
		for _, item := range v {
			if s, ok := item.(string); ok {
				list = append(list, s)
			}
		}
		return list
	}
	return nil
}
