package mcp_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// bank is an MCP server that demands tokens, and the authorisation server that issues them.
type bank struct {
	t      *testing.T
	url    string
	mu     sync.Mutex
	codes  map[string]string // code to PKCE challenge
	good   map[string]bool   // access tokens
	given  int
	life   time.Duration // of an access token
	grants []string      // the grants that were requested
	scopes []string      // the scopes that users were asked for, by request
	forbid string        // the challenge with which calls are forbidden; "" permits them
	until  string        // the scope with which users may make the calls
	tries  int           // calls that were forbidden
	renew  string        // how a refresh is answered: "" with a good token, else "bad", "same", "invalid_grant" or "down"
	once   bool          // no refresh tokens are issued
}

func newBank(t *testing.T, s *sdk.Server) *bank {
	b := &bank{t: t, codes: map[string]string{}, good: map[string]bool{}, life: time.Hour}
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	b.url = web.URL
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.good[token] {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{Expiration: time.Now().Add(time.Hour), UserID: "u"}, nil
	}
	inner := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	mux.Handle("/mcp", auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{ResourceMetadataURL: web.URL + "/meta"})(b.guard(inner)))
	mux.Handle("/meta", auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{Resource: web.URL + "/mcp", AuthorizationServers: []string{web.URL}}))
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(oauthex.AuthServerMeta{Issuer: web.URL, AuthorizationEndpoint: web.URL + "/authorize", TokenEndpoint: web.URL + "/token",
			ResponseTypesSupported: []string{"code"}, CodeChallengeMethodsSupported: []string{"S256"}, ClientIDMetadataDocumentSupported: true})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("code_challenge_method") != "S256" || q.Get("resource") != web.URL+"/mcp" {
			t.Errorf("the user was sent with %s", r.URL.RawQuery)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		code := fmt.Sprint("code-", len(b.codes))
		b.codes[code] = q.Get("code_challenge")
		b.scopes = append(b.scopes, q.Get("scope"))
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", b.token)
	return b
}

// guard forbids calls of tools.
func (b *bank) guard(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(raw))
		b.mu.Lock()
		asked := ""
		if len(b.scopes) > 0 {
			asked = b.scopes[len(b.scopes)-1]
		}
		forbidden := b.forbid != "" && bytes.Contains(raw, []byte(`"tools/call"`)) && (b.until == "" || !strings.Contains(asked, b.until))
		if forbidden {
			b.tries++
			w.Header().Set("WWW-Authenticate", b.forbid)
		}
		b.mu.Unlock()
		if forbidden {
			http.Error(w, "forbidden", http.StatusForbidden)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

func (b *bank) token(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kind := r.FormValue("grant_type")
	b.grants = append(b.grants, kind)
	ok := kind == "client_credentials" || kind == "refresh_token" && strings.HasPrefix(r.FormValue("refresh_token"), "secret-refresh-")
	if kind == "authorization_code" {
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		ok = b.codes[r.FormValue("code")] == base64.RawURLEncoding.EncodeToString(sum[:])
		delete(b.codes, r.FormValue("code"))
	}
	w.Header().Set("Content-Type", "application/json")
	renew := ""
	if kind == "refresh_token" {
		renew = b.renew
	}
	if renew == "down" {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if !ok || renew == "invalid_grant" {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
		return
	}
	if renew != "same" {
		b.given++
	}
	access := fmt.Sprint("secret-access-", b.given)
	if renew == "" {
		b.good[access] = true
	}
	res := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": int(b.life.Seconds())}
	if !b.once {
		res["refresh_token"] = fmt.Sprint("secret-refresh-", b.given)
	}
	_ = json.NewEncoder(w).Encode(res)
}

// revoke invalidates every token.
func (b *bank) revoke() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.good)
}

func (b *bank) asked() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.grants, " ")
}

// browser opens addresses as a user. The user's name is the cookie.
func browser(t *testing.T, app, user string) *http.Client {
	t.Helper()
	jar, _ := cookiejar.New(nil)
	u, err := url.Parse(app)
	if err != nil {
		t.Fatal(err)
	}
	jar.SetCookies(u, []*http.Cookie{{Name: "user", Value: user}})
	return &http.Client{Jar: jar}
}

func open(t *testing.T, c *http.Client, address string) (int, string) {
	t.Helper()
	resp, err := c.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw := make([]byte, 4<<10)
	n, _ := resp.Body.Read(raw)
	return resp.StatusCode, string(raw[:n])
}

func TestUserConnects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBank(t, bench(dir))
	st := memstore.New(nil)
	var logged strings.Builder
	var logging sync.Mutex
	logger := slog.New(slog.NewTextHandler(writer(func(p []byte) { logging.Lock(); logged.Write(p); logging.Unlock() }), nil))
	var handler http.Handler
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(app.Close)
	connector, err := mcp.NewConnector(st, mcp.ConnectorOptions{Key: make([]byte, 32), Address: app.URL + "/connect", Logger: logger,
		Authenticate: func(r *http.Request) (string, error) {
			c, err := r.Cookie("user")
			if err != nil {
				return "", nil
			}
			return c.Value, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := mcp.URL("bench", b.url+"/mcp", &mcp.Options{Auth: connector.Server(mcp.Client{}), Logger: logger, ListTimeout: testWait})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	k := newTalkIn(t, st, []cairn.Toolset{s})
	k.user = "ada"
	handler = connector.Handler(k.eng)

	k.script(asks("bench_connect", none{}))
	res := k.turn("use the bank")
	call := res.Suspended.Calls[0]
	if call.Kind != cairn.CallConnect || len(k.offers()) != 1 {
		t.Fatalf("the call is %+v, the tools are %v", call, k.offers())
	}
	var payload struct{ URL string }
	if err := json.Unmarshal(call.Payload, &payload); err != nil {
		t.Fatal(err)
	}
	if status, _ := open(t, browser(t, app.URL, "eve"), payload.URL); status != http.StatusNotFound {
		t.Errorf("another user's browser gets %d", status)
	}
	if status, _ := open(t, &http.Client{}, payload.URL); status != http.StatusUnauthorized {
		t.Errorf("a browser of no user gets %d", status)
	}
	if status, text := open(t, browser(t, app.URL, "ada"), payload.URL); status != http.StatusOK || !strings.Contains(text, "is connected") {
		t.Fatalf("the user gets %d %s", status, text)
	}
	testclock.Await(t, "the run to be resumed", func() bool {
		row, err := k.eng.Session(t.Context(), "s")
		return err == nil && row.Status == cairn.SessionCompleted
	})

	k.script(asks("bench_echo", text{"hello"}))
	if k.turn("go on"); k.last() != `"you said hello"` {
		t.Errorf("the call came to %s", k.last())
	}

	// An access token that the server no longer accepts is refreshed; if it cannot be, the user connects again. An
	// expired one is refreshed.
	b.revoke()
	k.script(asks("bench_echo", text{"still"}))
	if res := k.turn("go on"); res.Suspended != nil || k.last() != `"you said still"` {
		t.Fatalf("with a revoked access token the call came to %s", k.last())
	}
	b.mu.Lock()
	b.life, b.renew = time.Second, "invalid_grant"
	b.mu.Unlock()
	b.revoke()
	k.script(asks("bench_echo", text{"again"}))
	res = k.turn("go on") // the server accepts neither token
	if res.Suspended == nil || res.Suspended.Calls[0].Kind != cairn.CallConnect {
		t.Fatalf("the call came to %s", k.last())
	}
	if err := json.Unmarshal(res.Suspended.Calls[0].Payload, &payload); err != nil {
		t.Fatal(err)
	}
	before := strings.Count(b.asked(), "refresh_token")
	b.mu.Lock()
	b.renew = ""
	b.mu.Unlock()
	open(t, browser(t, app.URL, "ada"), payload.URL)
	testclock.Await(t, "the call with the new token", func() bool { return k.last() == `"you said again"` })
	testclock.Await(t, "the token to be refreshed", func() bool { return strings.Count(b.asked(), "refresh_token") > before })
	if got := notes(dir, "echo"); strings.Join(got, " ") != "hello still again" {
		t.Errorf("the server was called with %v", got)
	}

	logging.Lock()
	defer logging.Unlock()
	for _, where := range []string{logged.String(), k.everything(), records(t, st)} {
		if strings.Contains(where, "secret-") {
			t.Errorf("a token is where it should not be: %s", where)
		}
	}
	if r, err := k.eng.EraseUser(t.Context(), "ada"); err != nil || r.Records == 0 || records(t, st) != "" {
		t.Errorf("with the user were erased %+v, %v; left is %s", r, err, records(t, st))
	}
}

// records returns everything that a store has in addition to sessions.
func records(t *testing.T, st *memstore.Store) string {
	t.Helper()
	var all strings.Builder
	page, err := st.Records().List(t.Context(), store.RecordQuery{Namespace: store.UserRecords})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Items {
		all.Write(r.Value)
	}
	return all.String()
}

type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func TestClientCredentials(t *testing.T) {
	t.Parallel()
	b := newBank(t, bench(t.TempDir()))
	s, err := mcp.URL("bench", b.url+"/mcp", &mcp.Options{Auth: &mcp.ClientCredentials{ID: "cairn", Secret: "secret-client"}, ListTimeout: testWait})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	k := newTalk(t, []cairn.Toolset{s}, asks("bench_echo", text{"hello"}))
	if k.turn("go"); k.last() != `"you said hello"` || b.asked() != "client_credentials" {
		t.Errorf("the call came to %s with %s", k.last(), b.asked())
	}
}
