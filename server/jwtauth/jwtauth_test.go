package jwtauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/server"
)

// issuer is an identity provider.
type issuer struct {
	t    *testing.T
	srv  *httptest.Server
	keys atomic.Pointer[[]jose.JSONWebKey]
	down atomic.Bool
	gets atomic.Int32
	now  time.Time
}

func newIssuer(t *testing.T, list ...jose.JSONWebKey) *issuer {
	p := &issuer{t: t, now: time.Unix(1_800_000_000, 0)}
	p.publish(list...)
	p.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.gets.Add(1)
		if p.down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: *p.keys.Load()})
	}))
	t.Cleanup(p.srv.Close)
	return p
}

func (p *issuer) publish(list ...jose.JSONWebKey) {
	public := []jose.JSONWebKey{}
	for i := range list {
		if key := list[i].Public(); key.Key != nil {
			public = append(public, key)
		} else {
			public = append(public, list[i])
		}
	}
	p.keys.Store(&public)
}

func (p *issuer) auth(change func(*Options)) server.Authenticator {
	p.t.Helper()
	o := &Options{Issuer: "https://id.example.com", Audience: "cairn", JWKS: p.srv.URL, Now: func() time.Time { return p.now }}
	if change != nil {
		change(o)
	}
	a, err := New(o)
	if err != nil {
		p.t.Fatal(err)
	}
	return a
}

// claims returns those of a valid token, with some changed; nil removes one.
func (p *issuer) claims(change map[string]any) map[string]any {
	all := map[string]any{"iss": "https://id.example.com", "aud": "cairn", "sub": "ann", "roles": []string{"user", "wizard"},
		"exp": p.now.Add(time.Hour).Unix(), "iat": p.now.Unix()}
	for name, v := range change {
		if all[name] = v; v == nil {
			delete(all, name)
		}
	}
	return all
}

func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func ask(a server.Authenticator, token string) (*server.Principal, error) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return a(r)
}

func rsaKey(t *testing.T, id string) jose.JSONWebKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: id}
}

func TestTokens(t *testing.T) {
	key, other := rsaKey(t, "k1"), rsaKey(t, "k1")
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec := jose.JSONWebKey{Key: curve, KeyID: "e1"}
	secret := jose.JSONWebKey{Key: []byte("a secret that was published by mistake"), KeyID: "h1"}
	p := newIssuer(t, key, ec, secret)
	good := p.claims(nil)
	pem := x509.MarshalPKCS1PublicKey(&key.Key.(*rsa.PrivateKey).PublicKey)
	enc := base64.RawURLEncoding.EncodeToString
	body, _ := json.Marshal(good)
	unsigned := enc([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + enc(body) + "."
	signed := sign(t, jose.RS256, key, good)
	parts := strings.Split(signed, ".")
	forged, _ := json.Marshal(p.claims(map[string]any{"sub": "root", "roles": "admin"}))
	a := p.auth(nil)
	for name, c := range map[string]struct {
		token string
		ok    bool
	}{
		"good":                         {signed, true},
		"on a curve":                   {sign(t, jose.ES256, ec, good), true},
		"one of several audiences":     {sign(t, jose.RS256, key, p.claims(map[string]any{"aud": []string{"x", "cairn"}})), true},
		"expired within the leeway":    {sign(t, jose.RS256, key, p.claims(map[string]any{"exp": p.now.Add(-30 * time.Second).Unix()})), true},
		"no key id":                    {sign(t, jose.RS256, key.Key, good), true},
		"expired":                      {sign(t, jose.RS256, key, p.claims(map[string]any{"exp": p.now.Add(-2 * time.Minute).Unix()})), false},
		"without end":                  {sign(t, jose.RS256, key, p.claims(map[string]any{"exp": nil})), false},
		"not yet":                      {sign(t, jose.RS256, key, p.claims(map[string]any{"nbf": p.now.Add(time.Hour).Unix()})), false},
		"another issuer":               {sign(t, jose.RS256, key, p.claims(map[string]any{"iss": "https://id.example.com/"})), false},
		"no issuer":                    {sign(t, jose.RS256, key, p.claims(map[string]any{"iss": nil})), false},
		"another audience":             {sign(t, jose.RS256, key, p.claims(map[string]any{"aud": "other"})), false},
		"no audience":                  {sign(t, jose.RS256, key, p.claims(map[string]any{"aud": nil})), false},
		"no user":                      {sign(t, jose.RS256, key, p.claims(map[string]any{"sub": nil})), false},
		"a user that is no text":       {sign(t, jose.RS256, key, p.claims(map[string]any{"sub": 7})), false},
		"a user with a line end":       {sign(t, jose.RS256, key, p.claims(map[string]any{"sub": "a\nb"})), false},
		"another key of that id":       {sign(t, jose.RS256, other, good), false},
		"an algorithm not chosen":      {sign(t, jose.RS512, key, good), false},
		"unsigned":                     {unsigned, false},
		"the public key as a secret":   {sign(t, jose.HS256, jose.JSONWebKey{Key: pem, KeyID: "k1"}, good), false},
		"a secret among the keys":      {sign(t, jose.HS256, secret, good), false},
		"other claims, same signature": {parts[0] + "." + enc(forged) + "." + parts[2], false},
		"no signature":                 {parts[0] + "." + parts[1] + ".", false},
		"nothing":                      {"", false},
		"rubbish":                      {"a.b.c", false},
		"too long":                     {signed + strings.Repeat("A", maxToken), false},
	} {
		got, err := ask(a, c.token)
		if err != nil || (got != nil) != c.ok {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if c.ok && got != nil {
			if left := got.Expires.Sub(p.now); left < -time.Minute || left > time.Hour {
				t.Errorf("%s: expires in %s", name, left)
			}
			got.Expires = time.Time{}
		}
		if want := (&server.Principal{User: "ann", Roles: []server.Role{server.RoleUser}}); c.ok && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got, err := a(httptest.NewRequest("GET", "/", nil)); got != nil || err != nil {
		t.Errorf("without a header: %+v, %v", got, err)
	}
}

func TestRoles(t *testing.T) {
	key := rsaKey(t, "k1")
	p := newIssuer(t, key)
	a := p.auth(func(o *Options) {
		o.UserClaim, o.RolesClaim = "email", "realm_access.roles"
		o.Roles = map[string]server.Role{"cairn-admin": server.RoleAdmin}
		o.Everyone = []server.Role{server.RoleUser}
	})
	for _, c := range []struct {
		claims map[string]any
		want   []server.Role
	}{
		{map[string]any{"realm_access": map[string]any{"roles": []string{"cairn-admin", "reviewer"}}}, []server.Role{server.RoleUser, server.RoleAdmin}},
		{map[string]any{"realm_access": map[string]any{"roles": "cairn-admin x"}}, []server.Role{server.RoleUser, server.RoleAdmin}},
		{map[string]any{"roles": []string{"admin"}, "realm_access": "cairn-admin"}, []server.Role{server.RoleUser}},
	} {
		c.claims["email"] = "ann@example.com"
		got, err := ask(a, sign(t, jose.RS256, key, p.claims(c.claims)))
		if err != nil || got == nil || got.User != "ann@example.com" || !reflect.DeepEqual(got.Roles, c.want) {
			t.Errorf("%v: %+v, %v", c.claims, got, err)
		}
	}
}

// The roles of a token come from its claim by the mapping; those of Default are for a token that names none.
func TestDefaultRoles(t *testing.T) {
	key := rsaKey(t, "k1")
	p := newIssuer(t, key)
	mapped := func(o *Options) {
		o.Roles = map[string]server.Role{"on-call": server.RoleOperator, "desk": server.RoleReviewer}
		o.Default = []server.Role{server.RoleUser}
	}
	named := func(o *Options) { o.Default = []server.Role{server.RoleUser, server.RoleReviewer} }
	for _, c := range []struct {
		options func(*Options)
		roles   any
		want    []server.Role
	}{
		{mapped, []string{"on-call", "on-call"}, []server.Role{server.RoleOperator}},
		{mapped, "desk on-call", []server.Role{server.RoleReviewer, server.RoleOperator}},
		{mapped, []string{"admin", "wizard"}, []server.Role{server.RoleUser}},
		{mapped, nil, []server.Role{server.RoleUser}},
		{named, []string{"operator"}, []server.Role{server.RoleOperator}},
		{named, []string{}, []server.Role{server.RoleUser, server.RoleReviewer}},
		{nil, []string{"operator", "admin"}, []server.Role{server.RoleOperator, server.RoleAdmin}},
		{nil, nil, nil},
	} {
		got, err := ask(p.auth(c.options), sign(t, jose.RS256, key, p.claims(map[string]any{"roles": c.roles})))
		if err != nil || got == nil || !reflect.DeepEqual(got.Roles, c.want) {
			t.Errorf("%v: %+v, %v, want %v", c.roles, got, err, c.want)
		}
	}
}

// A new key is found at once. A withdrawn key no longer counts once the keys are fetched again. Tokens with unknown
// keys do not make the server fetch without limit.
func TestKeysRotate(t *testing.T) {
	first, second := rsaKey(t, "k1"), rsaKey(t, "k2")
	p := newIssuer(t, first)
	a := p.auth(nil)
	valid := func(key jose.JSONWebKey) bool {
		t.Helper()
		got, err := ask(a, sign(t, jose.RS256, key, p.claims(nil)))
		if err != nil {
			t.Fatal(err)
		}
		return got != nil
	}
	if !valid(first) || p.gets.Load() != 1 {
		t.Fatal("the first key does not count")
	}
	p.publish(second)
	if valid(second) || p.gets.Load() != 1 {
		t.Error("the keys were fetched twice at once")
	}
	p.now = p.now.Add(refetch)
	if !valid(second) || valid(first) {
		t.Error("the second key does not take the place of the first")
	}
	for range 50 {
		valid(rsaOf(first, "unknown"))
	}
	if n := p.gets.Load(); n > 3 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

func rsaOf(key jose.JSONWebKey, id string) jose.JSONWebKey {
	key.KeyID = id
	return key
}

// Without keys no request is accepted, and the response says that the server is at fault. Known keys remain valid
// for their time.
func TestIssuerIsDown(t *testing.T) {
	key := rsaKey(t, "k1")
	p := newIssuer(t, key)
	p.down.Store(true)
	a := p.auth(nil)
	token := func() string { return sign(t, jose.RS256, key, p.claims(nil)) }
	for range 2 {
		got, err := ask(a, token())
		if got != nil || err == nil || strings.Contains(err.Error(), token()[:20]) {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	p.down.Store(false)
	p.now = p.now.Add(refetch)
	if got, err := ask(a, token()); got == nil || err != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	p.down.Store(true)
	p.now = p.now.Add(30 * time.Minute)
	if got, err := ask(a, token()); got == nil || err != nil {
		t.Errorf("with keys that are known: %+v, %v", got, err)
	}
	p.now = p.now.Add(time.Hour)
	if got, err := ask(a, token()); got != nil || err == nil {
		t.Errorf("with keys that are too old: %+v, %v", got, err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	full := Options{Issuer: "i", Audience: "a", JWKS: "https://id.example.com/keys"}
	for name, change := range map[string]func(*Options){
		"Issuer":     func(o *Options) { o.Issuer = "" },
		"Audience":   func(o *Options) { o.Audience = "" },
		"JWKS":       func(o *Options) { o.JWKS = "http://id.example.com/keys" },
		"Algorithms": func(o *Options) { o.Algorithms = []string{"RS256", "HS256"} },
		"KeepKeys":   func(o *Options) { o.KeepKeys = -1 },
		"Roles":      func(o *Options) { o.Roles = map[string]server.Role{"a": "wizard"} },
		"Default":    func(o *Options) { o.Default = []server.Role{""} },
		"Everyone":   func(o *Options) { o.Everyone = []server.Role{"wizard"} },
	} {
		o := full
		change(&o)
		_, err := New(&o)
		if e := (*cairn.Error)(nil); !errors.As(err, &e) || e.Field != name || e.Code != cairn.ErrInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, algorithms := range [][]string{{"none"}, {}} {
		o := full
		o.Algorithms = algorithms
		if _, err := New(&o); err == nil {
			t.Errorf("algorithms %q are accepted", algorithms)
		}
	}
	if _, err := New(nil); err == nil {
		t.Error("nothing is accepted")
	}
}

// The tenant is that of the claim. Without a valid one, a token is refused, unless no claim is named.
func TestTenantClaim(t *testing.T) {
	key := rsaKey(t, "k1")
	p := newIssuer(t, key)
	for _, test := range []struct {
		setting string
		claims  map[string]any
		tenant  string
		refused bool
	}{
		{"", map[string]any{"org": "acme"}, "", false},
		{"org", map[string]any{"org": "acme"}, "acme", false},
		{"org.slug", map[string]any{"org": map[string]any{"slug": "acme"}}, "acme", false},
		{"org", map[string]any{"org": "*"}, server.AllTenants, false},
		{"org", nil, "", true}, {"org", map[string]any{"org": ""}, "", true}, {"org", map[string]any{"org": "a::b"}, "", true},
		{"org", map[string]any{"org": []string{"acme"}}, "", true}, {"org", map[string]any{"org": 7}, "", true}, {"org", map[string]any{"org": "a b"}, "", true},
	} {
		auth := p.auth(func(o *Options) { o.TenantClaim = test.setting })
		who, err := ask(auth, sign(t, jose.RS256, key, p.claims(test.claims)))
		if err != nil || (who == nil) != test.refused || who != nil && who.Tenant != test.tenant {
			t.Errorf("claim %q of %v: %+v, %v", test.setting, test.claims, who, err)
		}
	}
}
