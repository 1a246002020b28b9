package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

// issuer is an identity provider: it signs tokens, and publishes its key.
type issuer struct {
	*httptest.Server
	key ed25519.PrivateKey
}

var b64 = base64.RawURLEncoding.EncodeToString

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := fmt.Sprintf(`{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "one", "use": "sig", "alg": "EdDSA", "x": %q}]}`, b64(public))
	i := &issuer{key: private}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, keys) }))
	t.Cleanup(i.Close)
	return i
}

// token signs the claims of a valid token of a user, with some changed.
func (i *issuer) token(user string, change map[string]any) string {
	claims := map[string]any{"iss": "https://id.example.com", "aud": "cairn", "email": user, "exp": time.Now().Add(time.Hour).Unix(),
		"realm": map[string]any{"roles": []string{"user"}}}
	for name, v := range change {
		claims[name] = v
	}
	text := b64([]byte(`{"alg":"EdDSA","kid":"one"}`)) + "." + b64(must(json.Marshal(claims)))
	return text + "." + b64(ed25519.Sign(i.key, []byte(text)))
}

// as makes a request with a token and returns the response's status.
func (s *servingProcess) as(token, method, path, body string) int {
	s.t.Helper()
	req := must(http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body)))
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// Users are confined to the tenants that the file, or their identity provider, gives them.
func TestServeTenants(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := newIssuer(t)
	users := fmt.Sprintf("user: alice, tenant: acme}, {token: bobs-token-bobs-token, user: alice, tenant: other}, {token: root-token-root-token, user: root, roles: [admin], tenant: '*'}], "+
		"jwt: {issuer: 'https://id.example.com', audience: cairn, jwks_url: %s/keys, user_claim: email, tenant_claim: org.slug, default_roles: [user]}}", id.URL)
	file := b.file(t, "cairn.yaml", guide("a"))
	text := strings.Replace(string(must(os.ReadFile(file))), "user: alice}]}", users, 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := b.serve(t, file)
	if got := s.as(aliceToken, "POST", "/sessions", `{"session_id": "s", "agent": "guide"}`); got != http.StatusCreated {
		t.Errorf("acme's session: %d", got)
	}
	of := func(tenant any) string {
		return id.token("alice", map[string]any{"org": map[string]any{"slug": tenant}})
	}
	for name, c := range map[string]struct {
		token, path string
		want        int
	}{
		"the user":                 {aliceToken, "/sessions/s", http.StatusOK},
		"of another tenant":        {"bobs-token-bobs-token", "/sessions/s", http.StatusNotFound},
		"the platform":             {"root-token-root-token", "/sessions/acme::s", http.StatusOK},
		"the platform by name":     {"root-token-root-token", "/sessions/s", http.StatusNotFound},
		"signed, the user":         {of("acme"), "/sessions/s", http.StatusOK},
		"signed, without tenant":   {id.token("alice", nil), "/sessions/s", http.StatusUnauthorized},
		"signed, of no tenant":     {of(""), "/sessions/s", http.StatusUnauthorized},
		"signed, the tenant twice": {of("acme::x"), "/sessions/s", http.StatusUnauthorized},
	} {
		if got := s.as(c.token, "GET", c.path, ""); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if got := s.as(of("other"), "GET", "/sessions/s", ""); got != http.StatusNotFound {
		t.Errorf("signed, of another tenant: %d", got)
	}
	if got := s.as(of("other"), "POST", "/sessions", `{"session_id": "s", "agent": "guide"}`); got != http.StatusCreated {
		t.Errorf("other's session: %d", got)
	}
	list, _, _ := b.run("", "sessions", "list")
	if strings.Count(list, "::s ") != 2 || !strings.Contains(list, "other::s ") || !strings.Contains(list, "acme::alice ") {
		t.Errorf("sessions in the store:\n%s", list)
	}
	s.signal(syscall.SIGTERM)
	s.end()
}

// Users of an identity provider are admitted in addition to those of auth.tokens, each to their own sessions, until
// the file changes.
func TestServeJWT(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id, other := newIssuer(t), newIssuer(t)
	file := b.file(t, "cairn.yaml", guide("a"))
	// let writes the file with the given audience.
	let := func(audience string) {
		jwt := fmt.Sprintf("user: alice}], jwt: {issuer: 'https://id.example.com', audience: %s, jwks_url: %s/keys, user_claim: email, roles_claim: realm.roles, "+
			"roles: {user: user, boss: admin, on-call: operator}, default_roles: [reviewer], algorithms: [EdDSA]}}", audience, id.URL)
		text := strings.Replace(string(must(os.ReadFile(b.file(t, "plain.yaml", guide("a"))))), "user: alice}]}", jwt, 1)
		if err := os.WriteFile(file+".next", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".next", file); err != nil {
			t.Fatal(err)
		}
	}
	let("cairn")
	s := b.serve(t, file)
	ann := id.token("ann", nil)
	if got := s.as(ann, "POST", "/start", `{"session_id": "s", "agent": "guide", "input": {"text": "hello"}}`); got != http.StatusAccepted {
		t.Errorf("ann's turn: %d", got)
	}
	for name, c := range map[string]struct {
		token string
		want  int
	}{
		"the user":         {ann, http.StatusOK},
		"a static token":   {aliceToken, http.StatusNotFound}, // the session is not hers
		"another user":     {id.token("ben", nil), http.StatusNotFound},
		"without a role":   {id.token("ann", map[string]any{"realm": nil}), http.StatusNotFound},
		"an admin":         {id.token("eve", map[string]any{"realm": map[string]any{"roles": []string{"boss"}}}), http.StatusOK},
		"an operator":      {id.token("eve", map[string]any{"realm": map[string]any{"roles": []string{"on-call"}}}), http.StatusOK},
		"not by that name": {id.token("eve", map[string]any{"realm": map[string]any{"roles": []string{"admin"}}}), http.StatusNotFound},
		"of another key":   {other.token("ann", nil), http.StatusUnauthorized},
		"expired":          {id.token("ann", map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), http.StatusUnauthorized},
		"another's":        {id.token("ann", map[string]any{"aud": "other"}), http.StatusUnauthorized},
		"another issuer":   {id.token("ann", map[string]any{"iss": "https://evil.example"}), http.StatusUnauthorized},
		"without a user":   {id.token("", nil), http.StatusUnauthorized},
		"no token at all":  {"", http.StatusUnauthorized},
	} {
		if got := s.as(c.token, "GET", "/sessions/s", ""); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	let("others")
	s.logged("config reloaded")
	if got := s.as(ann, "GET", "/sessions/s", ""); got != http.StatusUnauthorized {
		t.Errorf("for another audience: %d", got)
	}
	if got := s.as(id.token("ann", map[string]any{"aud": "others"}), "GET", "/sessions/s", ""); got != http.StatusOK {
		t.Errorf("for the new audience: %d", got)
	}
	s.signal(syscall.SIGTERM)
	if _, stderr, code := s.end(); code != cli.ExitOK || strings.Contains(stderr, ann) {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
