//go:build !demo

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store"
)

// consoleTab is a browser's tab at cairn console.
type consoleTab struct {
	t       *testing.T
	base    string // with a slash at its end
	secret  string // of the link
	browser *http.Client
}

// console starts cairn console, whose link the tab has not used.
func (b *bench) console(t *testing.T, args ...string) *consoleTab {
	t.Helper()
	p := b.start(t, append([]string{"console"}, args...)...)
	line, err := p.stdout.ReadString('\n')
	base, secret, ok := strings.Cut(strings.TrimSpace(line), "console/#link=")
	if err != nil || !ok {
		t.Fatalf("%q, %v", line, err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("console: %v", err)
		}
	})
	jar, _ := cookiejar.New(nil)
	return &consoleTab{t: t, base: base, secret: secret, browser: &http.Client{Jar: jar}}
}

// ask makes a request as a page of the console does, and decodes the response into out, unless that is nil.
func (c *consoleTab) ask(method, path, body string, want int, out any, headers ...string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.browser.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != want {
		c.t.Fatalf("%s %s: %d %v %s, want %d", method, path, res.StatusCode, err, got, want)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(got, out); err != nil {
		c.t.Fatal(err)
	}
}

// follow uses the link, with the idempotency key that pages send.
func (c *consoleTab) follow(want int) {
	c.t.Helper()
	c.ask("POST", "console/session", "{}", want, nil, "Authorization", "Bearer "+c.secret, "Idempotency-Key", "key")
}

// A console over a store shows the sessions of other processes to the browser that used its link first, and changes nothing
// without --admin. With it, an approval is decided there; a worker resumes the session.
func TestConsoleOverStore(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(*bench) string{
		"file":     func(b *bench) string { return b.env["CAIRN_DB"] },
		"postgres": func(b *bench) string { return withQuery(testenv.FastPostgres(t), "schema", "console_over_store") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.everyday = true
			b.env["CAIRN_STORE"] = place(b)
			delete(b.env, "CAIRN_DB")
			b.want(t, "Order 42 arrived broken\n", "demo", "--shop="+filepath.Join(b.dir, "shop.db"))

			reader := b.console(t)
			reader.ask("GET", "sessions", "", http.StatusUnauthorized, nil)
			reader.follow(http.StatusCreated)
			reader.follow(http.StatusUnauthorized) // the link works once
			var list store.Page[cairn.Session]
			reader.ask("GET", "sessions", "", http.StatusOK, &list)
			if len(list.Items) != 1 || list.Items[0].Status != cairn.SessionPaused {
				t.Fatalf("sessions %+v", list.Items)
			}
			path := "sessions/" + list.Items[0].ID
			reader.ask("PATCH", path, `{"title": "Mine"}`, http.StatusNotFound, nil)
			reader.ask("DELETE", path, "", http.StatusNotFound, nil)
			var calls store.Page[cairn.PendingCall]
			reader.ask("GET", "inbox", "", http.StatusOK, &calls)
			decision := fmt.Sprintf(`{"session_id": %q, "call_id": %q, "type": "approval-response", "approval_id": %q, "approved": true}`,
				list.Items[0].ID, calls.Items[0].ID, calls.Items[0].ApprovalID)
			reader.ask("POST", "submit-tool-result", decision, http.StatusNotFound, nil)

			admin := b.console(t, "--admin", "--as", "ada")
			admin.browser.Jar = reader.browser.Jar
			admin.ask("GET", "sessions", "", http.StatusUnauthorized, nil) // the cookie is the other console's
			admin.follow(http.StatusCreated)
			var who client.Identity
			admin.ask("GET", "console/session", "", http.StatusOK, &who)
			if who.User != "ada" {
				t.Errorf("the console's user is %+v", who)
			}
			reader.ask("GET", "sessions", "", http.StatusOK, nil) // one browser has both
			admin.ask("PATCH", path, `{"title": "Mine"}`, http.StatusOK, nil)
			admin.ask("POST", "submit-tool-result", decision, http.StatusOK, nil)
			admin.ask("POST", "resume", fmt.Sprintf(`{"session_id": %q}`, list.Items[0].ID), http.StatusNotFound, nil) // no agent
			wantWords(t, b.want(t, "", "sessions", "decisions", list.Items[0].ID), "ada", "approved")
			admin.ask("DELETE", path, "", http.StatusNoContent, nil)
			admin.ask("GET", path, "", http.StatusNotFound, nil)
		})
	}
}

// A console listens on this machine only, over a store that exists, with a name that can decide.
func TestConsoleRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for want, args := range map[string][]string{
		"--listen: must be an address of this machine": {"--listen", "0.0.0.0:0"},
		"--as: invalid name":                           {"--as", "a::b"},
		"not found":                                    {},
	} {
		_, stderr, code := b.run("", append([]string{"console"}, args...)...)
		if code == cli.ExitOK || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit %d, %s", args, code, stderr)
		}
	}
}
