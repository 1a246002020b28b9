// Package jwtauth authenticates the requests of a server by bearer tokens that an identity provider has signed: JSON Web
// Tokens (RFC 7519), checked with the keys that the provider publishes (JWKS, RFC 7517).
package jwtauth

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/server"
)

// Options say which tokens count. Issuer, Audience and JWKS are required.
type Options struct {
	// Issuer is the "iss" that a token must have, exactly.
	Issuer string
	// Audience must be among a token's "aud".
	Audience string
	// JWKS is the address of the issuer's keys: https, or http on this machine.
	JWKS string
	// Algorithms are those that a token may be signed with; nil means RS256, ES256 and EdDSA. Only signatures with a public
	// key are possible: a token without a signature, or with that of a shared secret, is never accepted.
	Algorithms []string
	// UserClaim is the claim that names the user; empty means "sub". A token without it is refused.
	UserClaim string
	// RolesClaim is the claim that lists roles, as strings or as one string with spaces in between; empty means "roles". Dots
	// lead into objects: "realm_access.roles".
	RolesClaim string
	// Roles maps what the claim says to roles; nil means the names of the roles themselves. What it lacks counts for nothing.
	Roles map[string]server.Role
	// Everyone are the roles of every valid token, beside those that it names; nil means none.
	Everyone []server.Role
	// Leeway is by how much the clocks of issuer and server may differ; 0 means one minute, a negative value nothing.
	Leeway time.Duration
	// KeepKeys is how long fetched keys are used without asking the issuer again; 0 means an hour. A token with a key that is
	// not known has them fetched at once, but not twice within ten seconds.
	KeepKeys time.Duration
	// Client fetches the keys; nil means one with a timeout of ten seconds.
	Client *http.Client
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// possible are the algorithms that can be chosen.
var possible = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

// maxToken is the most bytes that a token may have.
const maxToken = 16 << 10

// authenticator checks tokens.
type authenticator struct {
	opts       Options
	algorithms []jose.SignatureAlgorithm
	keys       *keys
}

// New returns an authenticator of requests with a bearer token. Missing and wrong tokens are answered with 401. While the
// keys cannot be fetched, and none that are young enough are known, no token is accepted: the answer is 503. Neither tokens
// nor claims get into errors. The error of New is ErrInvalid and names the option that is missing or wrong.
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
	for _, name := range o.Algorithms {
		if !slices.Contains(possible, jose.SignatureAlgorithm(name)) {
			return nil, cairn.Invalid("Algorithms", "%q is none of %v", name, possible)
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

// principal returns whom the claims of a token with a valid signature name; nil if they do not count.
func (a *authenticator) principal(known *jwt.Claims, all map[string]any) *server.Principal {
	want := jwt.Expected{Issuer: a.opts.Issuer, AnyAudience: jwt.Audience{a.opts.Audience}, Time: a.opts.Now()}
	if known.Expiry == nil || known.ValidateWithLeeway(want, a.opts.Leeway) != nil {
		return nil
	}
	user, _ := claim(all, a.opts.UserClaim).(string)
	if cairn.CheckSessionID(user) != nil { // the rules of identifiers: not empty, bounded, printable
		return nil
	}
	p := &server.Principal{User: user, Roles: slices.Clone(a.opts.Everyone)}
	for _, name := range words(claim(all, a.opts.RolesClaim)) {
		role := server.Role(name)
		if a.opts.Roles != nil {
			role = a.opts.Roles[name]
		}
		if (role == server.RoleUser || role == server.RoleReviewer || role == server.RoleAdmin) && !p.Is(role) {
			p.Roles = append(p.Roles, role)
		}
	}
	return p
}

// claim returns a claim: that of the name, or what dots lead to.
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
