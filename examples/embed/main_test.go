package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/cairn-agents/cairn/examples/internal/process"
)

func TestMain(m *testing.M) { process.Main(main, func() { os.Exit(m.Run()) }) }

// The chat knows the site's users, and only the mounted routes of the server can be reached.
func TestChatOfTheSitesUsers(t *testing.T) {
	t.Parallel()
	p := process.Start(t, t.TempDir())
	address := p.Await(t, "http://")
	visitor := func(name string) *http.Client {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		c := &http.Client{Jar: jar}
		if name != "" {
			res, err := c.PostForm(address+"/login", url.Values{"name": {name}})
			if err != nil || res.StatusCode != 200 {
				t.Fatal(res, err)
			}
			res.Body.Close()
		}
		return c
	}
	ann, eve, nobody := visitor("ann"), visitor("eve"), visitor("")
	const said = `{"id": "c1", "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hello!"}]}]}`
	for _, c := range []struct {
		who          *http.Client
		method, path string
		status       int
		text         string
	}{
		{nobody, "GET", "/", 200, "own page"},
		{nobody, "POST", "/agents/chat", 401, "unauthorized"},
		{ann, "POST", "/agents/chat", 200, `"delta":"Welcome!"`},
		{ann, "GET", "/agents/chat/c1", 200, `"text":"Welcome!"`},
		{ann, "GET", "/agents/chat/c1/stream", 204, ""},
		{eve, "GET", "/agents/chat/c1", 404, "not_found"},
		{eve, "POST", "/agents/chat", 404, "not_found"},
		{ann, "GET", "/agents/sessions", 404, "404 page"},
		{ann, "POST", "/chat", 404, "404 page"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, address+c.path, strings.NewReader(said))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if c.method == "GET" {
			req.Body, req.ContentLength = http.NoBody, 0
		}
		res, err := c.who.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != c.status || !strings.Contains(string(body), c.text) {
			t.Errorf("%s %s: %d, %v: %s", c.method, c.path, res.StatusCode, err, body)
		}
	}
	p.Signal(t, syscall.SIGTERM)
	p.End(t)
}
