package mcp_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// customer is a session of a user at a bank, whose account is connected.
type customer struct {
	*talk
	server *mcp.Server
	open   func(cairn.CallRef) // opens the address of a call in the user's browser
}

func newCustomer(t *testing.T, b *bank) *customer {
	t.Helper()
	return newCustomerWith(t, b, mcp.Options{})
}

func newCustomerWith(t *testing.T, b *bank, opts mcp.Options) *customer {
	t.Helper()
	st := memstore.New(nil)
	var handler http.Handler
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(app.Close)
	connector, err := mcp.NewConnector(st, mcp.ConnectorOptions{Key: make([]byte, 32), Address: app.URL + "/connect",
		Authenticate: func(*http.Request) (string, error) { return "ada", nil }})
	if err != nil {
		t.Fatal(err)
	}
	opts.Auth, opts.ListTimeout = connector.Server(mcp.Client{}), testWait
	s, err := mcp.URL("bench", b.url+"/mcp", &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	k := newTalkIn(t, st, []cairn.Toolset{s})
	k.user = "ada"
	handler = connector.Handler(k.eng)
	c := &customer{talk: k, server: s, open: func(call cairn.CallRef) {
		t.Helper()
		var payload struct{ URL string }
		if err := json.Unmarshal(call.Payload, &payload); err != nil {
			t.Fatal(err)
		}
		if status, text := open(t, http.DefaultClient, payload.URL); status != http.StatusOK || !strings.Contains(text, "is connected") {
			t.Fatalf("the user gets %d %s", status, text)
		}
		testclock.Await(t, "the run to end", func() bool {
			row, err := k.eng.Session(t.Context(), "s")
			return err == nil && row.Status == cairn.SessionCompleted
		})
	}}
	k.script(asks("bench_connect", none{}))
	c.open(k.turn("use the bank").Suspended.Calls[0])
	return c
}

// A call that the server forbids leaves the user's token. Scopes that the server demands are asked for once.
func TestForbiddenCalls(t *testing.T) {
	t.Parallel()
	const challenge = `Bearer error="insufficient_scope", scope="files:write"`
	for name, test := range map[string]struct {
		forbid, until string
		asks          int    // how often the user is asked, in two calls
		want          string // the result of each call
	}{
		"further scopes suffice":        {challenge, "files:write", 1, `"you said hello"`},
		"further scopes do not suffice": {challenge, "", 1, "does not permit the call"},
		"no scope is named":             {`Bearer error="insufficient_scope"`, "", 0, "does not permit the call"},
		"not a matter of scopes":        {`Bearer error="access_denied"`, "", 0, "does not permit the call"},
		"no challenge":                  {`-`, "", 0, "does not permit the call"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBank(t, bench(t.TempDir()))
			c := newCustomer(t, b)
			b.mu.Lock()
			b.forbid, b.until = test.forbid, test.until
			b.mu.Unlock()
			asked := 0
			for range 2 {
				c.script(asks("bench_echo", text{"hello"}))
				if res := c.turn("go on"); res.Suspended != nil {
					asked++
					if call := res.Suspended.Calls[0]; call.Kind != cairn.CallConnect || !strings.Contains(call.Prompt, "files:write") {
						t.Fatalf("the user is asked %+v", call)
					}
					c.open(res.Suspended.Calls[0])
				}
				if got := c.last(); !strings.Contains(got, test.want) {
					t.Errorf("the call came to %s", got)
				}
			}
			if asked != test.asks {
				t.Errorf("the user was asked %d times", asked)
			}
			b.mu.Lock()
			b.forbid = ""
			b.mu.Unlock()
			c.script(asks("bench_echo", text{"again"}), scripted.Text("done"))
			if res := c.turn("go on"); res.Suspended != nil || c.last() != `"you said again"` {
				t.Errorf("a permitted call came to %s", c.last())
			}
		})
	}
}

// A program's own credentials are asked once for scopes that a server demands.
func TestForbiddenToClientCredentials(t *testing.T) {
	t.Parallel()
	b := newBank(t, bench(t.TempDir()))
	s, err := mcp.URL("bench", b.url+"/mcp", &mcp.Options{Auth: &mcp.ClientCredentials{ID: "cairn", Secret: "secret-client"}, ListTimeout: testWait})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	k := newTalk(t, []cairn.Toolset{s}, asks("bench_echo", text{"hello"}), asks("bench_echo", text{"hello"}), asks("bench_echo", text{"hello"}))
	b.mu.Lock()
	b.forbid = `Bearer error="insufficient_scope", scope="files:write"`
	b.mu.Unlock()
	k.turn("go")
	if n := len(strings.Fields(b.asked())); n != 2 {
		t.Errorf("%d tokens were requested: %s", n, b.asked())
	}
	for i, r := range k.results() {
		if i > 0 && (!r.IsError || !strings.Contains(string(r.Output), "does not permit the call")) {
			t.Errorf("call %d came to %s", i, r.Output)
		}
	}
	b.mu.Lock()
	b.forbid = ""
	b.mu.Unlock()
	k.script(asks("bench_echo", text{"again"}))
	if k.turn("go"); k.last() != `"you said again"` || len(strings.Fields(b.asked())) != 2 {
		t.Errorf("a permitted call came to %s, with %s", k.last(), b.asked())
	}
}
