package oidcauth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"

	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/server/jwtauth"
	"github.com/cairn-agents/cairn/server/oidcauth"
	"github.com/cairn-agents/cairn/store/memstore"
)

// provider is an OpenID Connect provider that signs in every browser. It signs tokens as a real one does.
type provider struct {
	*httptest.Server
	t      *testing.T
	key    *ecdsa.PrivateKey
	signer *ecdsa.PrivateKey     // the key of tokens, if it is not the published one
	claims func(map[string]any)  // changes the claims of the next token
	codes  map[string]url.Values // the requests that codes were given for
	used   []string              // codes that were exchanged
}

func newProvider(t *testing.T) *provider {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{t: t, key: key, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
			"jwks_uri": p.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"}})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		q, code := r.URL.Query(), rand.Text()
		p.codes[code] = q
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// token exchanges a code, once, for the verifier whose digest it was given for.
func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	code := r.PostFormValue("code")
	asked, known := p.codes[code]
	digest := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	w.Header().Set("Content-Type", "application/json")
	if delete(p.codes, code); !known || id != "console" || secret != "kept-secret" || asked.Get("code_challenge_method") != "S256" ||
		asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(digest[:]) || r.PostFormValue("redirect_uri") != asked.Get("redirect_uri") {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":"invalid_grant"}`)
		return
	}
	p.used = append(p.used, code)
	claims := map[string]any{"iss": p.URL, "aud": "console", "sub": "0815", "email": "ann@example.com", "name": "Ann", "nonce": asked.Get("nonce"),
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(), "groups": []string{"support-leads"}, "org": "acme"}
	if p.claims != nil {
		p.claims(claims)
	}
	key := p.key
	if p.signer != nil {
		key = p.signer
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		p.t.Error(err)
		return
	}
	raw, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		p.t.Error(err)
	}
	json.NewEncoder(w).Encode(map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": raw})
}

// site is a server with a console, as browsers reach it.
type site struct {
	*httptest.Server
	t *testing.T
	p *provider
}

func newSite(t *testing.T) *site {
	s := &site{t: t, p: newProvider(t)}
	agent := &cairn.Agent{Name: "bot", Model: scripted.New()}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(t.Context()) })
	h, err := server.New(eng, &server.Options{SignIn: &server.SignIn{}, Authenticate: server.Tokens(nil), RequestsPerMinute: -1})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/base/", http.StripPrefix("/base", h))
	mux.HandleFunc("/base/console/", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the console") })
	mux.Handle("/base/console/session", http.StripPrefix("/base", h))
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	signIn, err := oidcauth.New(h, &oidcauth.Options{Issuer: s.p.URL, ClientID: "console", ClientSecret: "kept-secret", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), RedirectURL: s.URL + "/base/console/oidc/callback",
		Claims: jwtauth.Options{UserClaim: "email", TenantClaim: "org", RolesClaim: "groups", Roles: map[string]server.Role{"support-leads": server.RoleOperator}}})
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/base/console/oidc/", http.StripPrefix("/base/console/oidc", signIn))
	return s
}

// browser is a browser: it keeps cookies. It follows redirects as far as follow says.
func (s *site) browser(follow func(to *url.URL) bool) *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if !follow(r.URL) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}

func (s *site) get(b *http.Client, address string) *http.Response {
	s.t.Helper()
	res, err := b.Get(address)
	if err != nil {
		s.t.Fatal(err)
	}
	res.Body.Close()
	return res
}

func everywhere(*url.URL) bool { return true }

// untilBack stops before the provider's answer reaches the site.
func untilBack(to *url.URL) bool { return !strings.HasSuffix(to.Path, "/callback") }

// answer signs in up to the provider's answer, and returns its address.
func (s *site) answer(b *http.Client) *url.URL {
	s.t.Helper()
	res := s.get(b, s.URL+"/base/console/oidc/begin?next=inbox")
	to, err := res.Location()
	if err != nil {
		s.t.Fatal(err)
	}
	return to
}

// who returns whom the server takes a browser for; nil for nobody.
func (s *site) who(b *http.Client) *client.Identity {
	s.t.Helper()
	res, err := b.Get(s.URL + "/base/console/session")
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil
	}
	var who client.Identity
	if err := json.NewDecoder(res.Body).Decode(&who); err != nil {
		s.t.Fatal(err)
	}
	return &who
}

// A browser that the provider signs in has the cookie of the console, for the user, tenant and roles of the claims, until
// it signs out.
func TestSignIn(t *testing.T) {
	s := newSite(t)
	b := s.browser(everywhere)
	res := s.get(b, s.URL+"/base/console/oidc/begin?next="+url.QueryEscape("inbox?call=s/1"))
	if got := strings.TrimPrefix(res.Request.URL.String(), s.URL); res.StatusCode != http.StatusOK || got != "/base/console/inbox?call=s/1" {
		t.Fatalf("status %d at %s", res.StatusCode, got)
	}
	who := s.who(b)
	if who == nil || who.User != "ann@example.com" || who.Name != "Ann" || who.Tenant != "acme" || len(who.Roles) != 1 || who.Roles[0] != "operator" {
		t.Fatalf("signed in as %+v", who)
	}
	if left := time.Until(who.Expires); left < 7*time.Hour || left > 8*time.Hour {
		t.Errorf("the sign-in lasts %s, want 8 h: not as long as the ID token", left)
	}
	at, _ := url.Parse(s.URL)
	kept := b.Jar.Cookies(at)
	if len(kept) != 1 {
		t.Errorf("the browser keeps %v", kept)
	}
	req, _ := http.NewRequestWithContext(t.Context(), "DELETE", s.URL+"/base/console/session", nil)
	req.Header.Set("Origin", s.URL)
	if res, err := b.Do(req); err != nil || res.StatusCode != http.StatusNoContent {
		t.Fatalf("sign out: %v, %v", res, err)
	}
	b.Jar.SetCookies(at, kept) // a copy of the cookie is of no use either
	if who := s.who(b); who != nil {
		t.Errorf("after the sign-out: %+v", who)
	}
}

// A browser gets no cookie for an answer of the provider that is not to its own sign-in, or for a token that is not for it.
func TestRefusedSignIns(t *testing.T) {
	for name, change := range map[string]func(s *site, b *http.Client, q url.Values){
		"another state":     func(_ *site, _ *http.Client, q url.Values) { q.Set("state", rand.Text()) },
		"no state":          func(_ *site, _ *http.Client, q url.Values) { q.Del("state") },
		"another browser's": func(s *site, _ *http.Client, q url.Values) { maps.Copy(q, s.answer(s.browser(untilBack)).Query()) },
		"another nonce": func(s *site, _ *http.Client, _ url.Values) {
			s.p.claims = func(c map[string]any) { c["nonce"] = rand.Text() }
		},
		"no nonce": func(s *site, _ *http.Client, _ url.Values) {
			s.p.claims = func(c map[string]any) { delete(c, "nonce") }
		},
		"expired": func(s *site, _ *http.Client, _ url.Values) {
			s.p.claims = func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() }
		},
		"another audience": func(s *site, _ *http.Client, _ url.Values) {
			s.p.claims = func(c map[string]any) { c["aud"] = "another" }
		},
		"another issuer": func(s *site, _ *http.Client, _ url.Values) {
			s.p.claims = func(c map[string]any) { c["iss"] = "https://id.example.com" }
		},
		"the answer of another issuer": func(_ *site, _ *http.Client, q url.Values) { q.Set("iss", "https://id.example.com") },
		"another key": func(s *site, _ *http.Client, _ url.Values) {
			s.p.signer, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		},
		"no user": func(s *site, _ *http.Client, _ url.Values) {
			s.p.claims = func(c map[string]any) { delete(c, "email") }
		},
		"a user of another tenant": func(s *site, _ *http.Client, _ url.Values) {
			s.p.claims = func(c map[string]any) { c["email"] = "globex::ann" }
		},
		"no tenant": func(s *site, _ *http.Client, _ url.Values) {
			s.p.claims = func(c map[string]any) { delete(c, "org") }
		},
		"an error":         func(_ *site, _ *http.Client, q url.Values) { q.Set("error", "access_denied") },
		"no code":          func(_ *site, _ *http.Client, q url.Values) { q.Del("code") },
		"a code of nobody": func(_ *site, _ *http.Client, q url.Values) { q.Set("code", rand.Text()) },
		"no cookie": func(s *site, b *http.Client, _ url.Values) {
			b.Jar = s.browser(everywhere).Jar
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			b := s.browser(untilBack)
			back := s.answer(b)
			q := back.Query()
			change(s, b, q)
			back.RawQuery = q.Encode()
			s.failed(b, back.String())
		})
	}
}

// failed checks that an answer signs a browser in as nobody.
func (s *site) failed(b *http.Client, answer string) {
	s.t.Helper()
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res := s.get(b, answer)
	if to := res.Header.Get("Location"); res.StatusCode != http.StatusSeeOther || to != "../?sign_in=failed" {
		s.t.Errorf("status %d, to %q", res.StatusCode, to)
	}
	for _, c := range res.Cookies() {
		if c.Value != "" {
			s.t.Errorf("it sets %s", c)
		}
	}
	if who := s.who(b); who != nil {
		s.t.Errorf("signed in as %+v", who)
	}
}

// An answer is accepted once, also from a browser that has a copy of the cookie, and its code is exchanged once.
func TestReplayedAnswer(t *testing.T) {
	s := newSite(t)
	b, thief := s.browser(untilBack), s.browser(untilBack)
	back := s.answer(b)
	thief.Jar.SetCookies(back, b.Jar.Cookies(back))
	b.CheckRedirect = nil
	if s.get(b, back.String()); s.who(b) == nil {
		t.Fatal("not signed in")
	}
	s.failed(thief, back.String())
	if len(s.p.used) != 1 {
		t.Errorf("codes %v were exchanged", s.p.used)
	}
	s.who(b)
	res := s.get(b, back.String()) // the user reloads the page
	if !strings.HasSuffix(res.Request.URL.String(), "?sign_in=failed") || s.who(b) == nil {
		t.Errorf("a reload leads to %s", res.Request.URL)
	}
}

// A sign-in leads to a page of the console, whatever the address says that began it.
func TestSignInLeadsToTheConsole(t *testing.T) {
	s := newSite(t)
	for _, next := range []string{"https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)", "/", "/base/sessions",
		"../sessions", "s/../../sessions", "%2e%2e/sessions", "..%2fsessions", "s\x00", "https:evil.example", strings.Repeat("s", 3000)} {
		b := s.browser(everywhere)
		res := s.get(b, s.URL+"/base/console/oidc/begin?next="+url.QueryEscape(next))
		if got := res.Request.URL.String(); got != s.URL+"/base/console/" || s.who(b) == nil {
			t.Errorf("%q leads to %s", next, got)
		}
	}
}

// A provider that is not reached is asked again by the next sign-in.
func TestProviderIsAway(t *testing.T) {
	s := newSite(t)
	away := true
	up := s.p.Config.Handler
	s.p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		up.ServeHTTP(w, r)
	})
	b := s.browser(everywhere)
	if res := s.get(b, s.URL+"/base/console/oidc/begin"); !strings.HasSuffix(res.Request.URL.String(), "/base/console/?sign_in=unavailable") {
		t.Errorf("it leads to %s", res.Request.URL)
	}
	away = false
	if s.get(b, s.URL+"/base/console/oidc/begin"); s.who(b) == nil {
		t.Error("not signed in")
	}
}

func TestOptions(t *testing.T) {
	good := oidcauth.Options{Issuer: "https://id.example.com", ClientID: "c", RedirectURL: "https://example.com/console/oidc/callback"}
	for field, change := range map[string]func(*oidcauth.Options){
		"Issuer":      func(o *oidcauth.Options) { o.Issuer = "http://id.example.com" },
		"ClientID":    func(o *oidcauth.Options) { o.ClientID = "" },
		"RedirectURL": func(o *oidcauth.Options) { o.RedirectURL = "https://example.com/console/" },
	} {
		o := good
		change(&o)
		if _, err := oidcauth.New(nil, &o); cairn.AsError(err) == nil || cairn.AsError(err).Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := oidcauth.New(nil, &good); err != nil {
		t.Error(err)
	}
}
