package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// issuer is an authorisation server that rotates refresh tokens, and revokes the grant when one is used again (RFC
// 9700, section 4.14.2).
type issuer struct {
	mu      sync.Mutex
	current string // refresh token; "" once the grant is revoked
	given   int
	forms   []url.Values
	takes   time.Duration
	fail    func() (*http.Response, error) // the response instead of a token; nil to issue tokens
	during  func()                         // called before a token is returned
}

func (s *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(raw))
	s.mu.Lock()
	s.forms = append(s.forms, form)
	fail, during := s.fail, s.during
	s.mu.Unlock()
	if fail != nil {
		return fail()
	}
	s.mu.Lock()
	used := form.Get("refresh_token")
	if used == "" || used != s.current {
		s.current = ""
		s.mu.Unlock()
		return answer(http.StatusBadRequest, `{"error":"invalid_grant"}`), nil
	}
	s.given++
	s.current = fmt.Sprint("refresh-", s.given)
	access := fmt.Sprint("access-", s.given)
	s.mu.Unlock()
	testclock.Deaf(s.takes) // the token is rotated, and the response under way
	if during != nil {
		during()
	}
	return answer(http.StatusOK, fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer","expires_in":3600,"refresh_token":"refresh-%d"}`, access, s.given)), nil
}

func answer(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
}

func (s *issuer) requests() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forms
}

// process returns the authorisation for a server in a process of its own.
func process(t *testing.T, st store.Store, s *issuer, client Client) *connection {
	t.Helper()
	c, err := NewConnector(st, ConnectorOptions{Key: make([]byte, keyBytes), Address: "https://app.example.com", HTTPClient: &http.Client{Transport: s},
		Authenticate: func(*http.Request) (string, error) { return "ada", nil }})
	if err != nil {
		t.Fatal(err)
	}
	o := c.Server(client).(*connection)
	if err := o.bind("bank", "https://bank.example.com/mcp"); err != nil {
		t.Fatal(err)
	}
	return o
}

// authorise keeps a grant whose access token expires after the given time.
func authorise(t *testing.T, o *connection, s *issuer, left time.Duration) {
	t.Helper()
	s.current = "refresh-0"
	g := grant{Access: "access-0", Type: "Bearer", Refresh: s.current, Expiry: time.Now().Add(left), TokenURL: "https://as.example.com/token",
		Client: "cairn", Resource: "https://bank.example.com/mcp"}
	if err := o.keep(t.Context(), "ada", &g); err != nil {
		t.Fatal(err)
	}
}

func TestOneProcessRefreshes(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]time.Duration{"expired": -time.Second, "expires soon": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st, as := memstore.New(nil), &issuer{takes: time.Second}
				processes := []*connection{process(t, st, as, Client{}), process(t, st, as, Client{})}
				authorise(t, processes[0], as, left)
				var all sync.WaitGroup
				for i := range 16 {
					all.Go(func() {
						g, err := processes[i%2].token(t.Context(), "ada")
						if err != nil || g == nil || left < 0 && g.Access != "access-1" {
							t.Errorf("the token is %+v, %v", g, err)
						}
					})
				}
				all.Wait()
				if n := len(as.requests()); n != 1 {
					t.Errorf("the token was refreshed %d times", n)
				}
				testclock.Advance(2 * time.Hour)
				for _, o := range processes {
					if g, err := o.token(t.Context(), "ada"); err != nil || g == nil || g.Access != "access-2" {
						t.Errorf("the next token is %+v, %v", g, err)
					}
				}
			})
		})
	}
}

// A process that dies while it refreshes a token leaves its claim, which lapses.
func TestClaimOfDeadProcessLapses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, as := memstore.New(nil), &issuer{}
		dead, alive := process(t, st, as, Client{}), process(t, st, as, Client{})
		authorise(t, alive, as, -time.Second)
		if claim, err := dead.claim(t.Context(), "ada"); err != nil || claim == 0 {
			t.Fatalf("the claim is %d, %v", claim, err)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := alive.token(ctx, "ada"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller whose time is over gets %v", err)
		}
		g, err := alive.token(t.Context(), "ada")
		if err != nil || g == nil || g.Access != "access-1" {
			t.Fatalf("the token is %+v, %v", g, err)
		}
		if took := time.Since(began); took < claimTTL || took > claimTTL+5*time.Second {
			t.Errorf("the claim lapsed after %s", took)
		}
	})
}

// Only 400 with invalid_grant means that a refresh token is no longer valid (RFC 6749, section 5.2).
func TestOnlyInvalidGrantForgetsAGrant(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		err    error
		gone   bool
	}{
		"invalid_grant":          {400, `{"error":"invalid_grant"}`, nil, true},
		"invalid_client":         {400, `{"error":"invalid_client"}`, nil, false},
		"invalid_request":        {400, `{"error":"invalid_request"}`, nil, false},
		"400 of a proxy":         {400, `<html>bad request</html>`, nil, false},
		"401":                    {401, `{"error":"invalid_client"}`, nil, false},
		"401 with invalid_grant": {401, `{"error":"invalid_grant"}`, nil, false},
		"403":                    {403, ``, nil, false},
		"404":                    {404, ``, nil, false},
		"408":                    {408, ``, nil, false},
		"429":                    {429, `{"error":"slow_down"}`, nil, false},
		"500":                    {500, `{"error":"invalid_grant"}`, nil, false},
		"503":                    {503, ``, nil, false},
		"no token":               {200, `{}`, nil, false},
		"no network":             {0, ``, errors.New("connection reset by secret-peer"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, as := memstore.New(nil), &issuer{}
			o := process(t, st, as, Client{})
			authorise(t, o, as, -time.Second)
			as.fail = func() (*http.Response, error) {
				if test.err != nil {
					return nil, test.err
				}
				return answer(test.status, test.body), nil
			}
			g, err := o.token(t.Context(), "ada")
			if g != nil || (err != nil) == test.gone || err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the token is %+v, %v", g, err)
			}
			if n := len(as.requests()); n != 1 {
				t.Errorf("the refresh token was sent %d times", n)
			}
			as.mu.Lock()
			as.fail = nil
			as.mu.Unlock()
			g, err = o.token(t.Context(), "ada")
			if test.gone && (g != nil || err != nil) || !test.gone && (err != nil || g == nil || g.Access != "access-1") {
				t.Errorf("later the token is %+v, %v", g, err)
			}
		})
	}
}

// A token that is still valid is used while it cannot be refreshed.
func TestValidTokenOutlastsAFailedRefresh(t *testing.T) {
	t.Parallel()
	st, as := memstore.New(nil), &issuer{}
	o := process(t, st, as, Client{})
	authorise(t, o, as, 20*time.Second)
	as.fail = func() (*http.Response, error) { return answer(503, ""), nil }
	g, err := o.token(t.Context(), "ada")
	if err != nil || g == nil || g.Access != "access-0" {
		t.Fatalf("the token is %+v, %v", g, err)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, o.address, nil)
	req.Header.Set("Authorization", "Bearer access-0")
	h, err := o.handler("ada")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Authorize(t.Context(), req, answer(401, "")); err == nil || needsConnect(err) {
		t.Errorf("a token that is about to expire was rejected: %v", err)
	}
	as.fail = nil
	if g, err := o.token(t.Context(), "ada"); err != nil || g == nil || g.Access != "access-1" {
		t.Errorf("later the token is %+v, %v", g, err)
	}
}

func TestRefreshRequest(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]Client{"public": {}, "with a secret": {ID: "cairn", Secret: "s"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, as := memstore.New(nil), &issuer{}
			o := process(t, st, as, client)
			authorise(t, o, as, -time.Second)
			if g, err := o.token(t.Context(), "ada"); err != nil || g == nil {
				t.Fatalf("the token is %+v, %v", g, err)
			}
			form := as.requests()[0]
			if form.Get("grant_type") != "refresh_token" || form.Get("refresh_token") != "refresh-0" || form.Get("resource") != "https://bank.example.com/mcp" {
				t.Errorf("the request is %v", form)
			}
			if client.Secret == "" && form.Get("client_id") != "cairn" {
				t.Errorf("the request of a public client is %v", form)
			}
		})
	}
}

// A refreshed token does not bring back a grant that was removed in the meantime.
func TestRefreshDoesNotRestoreARemovedGrant(t *testing.T) {
	t.Parallel()
	st, as := memstore.New(nil), &issuer{}
	o := process(t, st, as, Client{})
	authorise(t, o, as, -time.Second)
	as.during = func() {
		if err := o.c.Disconnect(context.Background(), "bank", "ada"); err != nil {
			t.Error(err)
		}
	}
	if g, err := o.token(t.Context(), "ada"); g != nil || err != nil {
		t.Errorf("the token is %+v, %v", g, err)
	}
	page, err := st.Records().List(t.Context(), store.RecordQuery{Namespace: store.UserRecords})
	if raw, _ := json.Marshal(page.Items); err != nil || len(page.Items) != 0 {
		t.Errorf("the records are %s, %v", raw, err)
	}
}
