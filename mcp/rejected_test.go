package mcp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

// A server rejects an access token that is not due. The token is refreshed, and the call repeated. The user connects again only if that is of no use for good.
func TestRejectedToken(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		renew     string // how the bank answers a refresh
		once      bool   // no refresh token
		short     bool   // the life of a refreshed token is less than what is left to a token that is due
		refreshes int    // how often it is refreshed; -1 if that depends on how requests overlap
		asks      bool
		want      string // the result of the call without asking
	}{
		"refreshed":                             {refreshes: 1, want: `"you said hello"`},
		"refreshed token is rejected":           {renew: "bad", refreshes: -1, asks: true},
		"short refreshed token is rejected":     {renew: "bad", short: true, refreshes: -1, asks: true},
		"refresh returns the token again":       {renew: "same", refreshes: -1, asks: true},
		"refresh token is invalid":              {renew: "invalid_grant", refreshes: 1, asks: true},
		"no refresh token":                      {once: true, asks: true},
		"authorisation server is not available": {renew: "down", refreshes: -1, want: "cannot refresh the token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := newBank(t, bench(dir))
			b.once = test.once
			c := newCustomer(t, b)
			c.script(asks("bench_echo", text{"first"})) // the list of tools is known
			if c.turn("go on"); c.last() != `"you said first"` {
				t.Fatalf("the first call came to %s", c.last())
			}
			b.mu.Lock()
			b.renew = test.renew
			if test.short {
				b.life = time.Second
			}
			b.mu.Unlock()
			b.revoke()
			c.script(asks("bench_echo", text{"hello"}))
			res := c.turn("go on")
			if n := strings.Count(b.asked(), "refresh_token"); n != test.refreshes && (test.refreshes >= 0 || n == 0) {
				t.Errorf("the token was refreshed %d times", n)
			}
			b.mu.Lock()
			b.renew, b.life = "", time.Hour
			b.mu.Unlock()
			switch {
			case test.asks != (res.Suspended != nil):
				t.Fatalf("the call came to %s, %+v", c.last(), res.Suspended)
			case !test.asks && !strings.Contains(c.last(), test.want):
				t.Errorf("the call came to %s", c.last())
			case test.asks && res.Suspended.Calls[0].Kind != cairn.CallConnect:
				t.Errorf("the call is %+v", res.Suspended.Calls[0])
			case test.asks:
				c.open(res.Suspended.Calls[0])
				if c.last() != `"you said hello"` {
					t.Errorf("with a new account the call came to %s", c.last())
				}
			}
			// The same holds for the next rejection.
			if test.once {
				return
			}
			before := strings.Count(b.asked(), "refresh_token")
			b.revoke()
			c.script(asks("bench_echo", text{"again"}))
			if res := c.turn("go on"); res.Suspended != nil || c.last() != `"you said again"` {
				t.Errorf("the next call came to %s", c.last())
			}
			if n := strings.Count(b.asked(), "refresh_token") - before; n != 1 {
				t.Errorf("later the token was refreshed %d times", n)
			}
			if got := strings.Join(notes(dir, "echo"), " "); !strings.HasSuffix(got, "again") || strings.Count(got, "again") != 1 {
				t.Errorf("the server was called with %s", got)
			}
		})
	}
}
