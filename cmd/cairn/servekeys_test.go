//go:build !demo

package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

// settings writes a file with an assistant and some keys more, for alice.
func (b *bench) settings(t *testing.T, keys string) string {
	t.Helper()
	return b.file(t, "cairn.yaml", guide("a")+"\n"+keys)
}

// ended waits for the end of a server, which must be one without an error.
func (s *servingProcess) ended() {
	s.t.Helper()
	if _, stderr, code := s.end(); code != cli.ExitOK {
		s.t.Errorf("exit %d: %s", code, stderr)
	}
}

// HTTPS is served with the certificate of the file, and with another one once that has replaced it.
func TestServeTLS(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	before, after := newAuthority(t, b.dir), newAuthority(t, t.TempDir())
	before.issue(t, "server")
	after.issue(t, "server")
	file := b.settings(t, fmt.Sprintf("tls: {cert: %q, key: %q}", before.path("server.pem"), before.path("server.key")))
	p := b.start(t, "serve", "--config", file)
	readUntil(t, p.stderr, "\nhttps://")
	s := &servingProcess{process: p, url: "https://" + strings.TrimSpace(readUntil(t, p.stderr, "\n"))}
	trusts := func(a *authority) bool {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool}, DisableKeepAlives: true}}
		res, err := c.Get(s.url + "/healthz")
		if err == nil {
			res.Body.Close()
		}
		return err == nil
	}
	if !trusts(before) || trusts(after) {
		t.Error("it has not the certificate of the file")
	}
	for _, name := range []string{"server.key", "server.pem"} {
		if err := os.WriteFile(before.path(name), must(os.ReadFile(after.path(name))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.signal(syscall.SIGHUP)
	for !trusts(after) { // the two files may be read in between
	}
	if trusts(before) {
		t.Error("it has both certificates")
	}
	s.signal(syscall.SIGTERM)
	s.ended()
}

func TestServeWithoutTheCertificate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, stderr, code := b.run("", "serve", "--config", b.settings(t, "tls: {cert: no.pem, key: no.key}"))
	if code != cli.ExitFailure || !strings.Contains(stderr, "cairn: tls: open no.pem: no such file or directory") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// After SIGTERM a server still serves for the time of lame_duck, but is not ready and closes connections.
func TestServeLameDuck(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.serve(t, b.settings(t, "lame_duck: 3s"))
	s.say("s", "hello")
	s.signal(syscall.SIGTERM)
	began := time.Now()
	for status := 0; status != http.StatusServiceUnavailable; {
		status, _ = s.request("GET", "/readyz", "")
	}
	req := must(http.NewRequestWithContext(t.Context(), "GET", s.url+"/sessions/s", nil))
	req.Header.Set("Authorization", "Bearer "+aliceToken)
	res := must(http.DefaultClient.Do(req))
	res.Body.Close()
	if res.StatusCode != http.StatusOK || !res.Close {
		t.Errorf("%d, closes: %v", res.StatusCode, res.Close)
	}
	s.ended()
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("it ended after %s", took)
	}
}

// The routes and the page are below the base path, and nowhere else.
func TestServeBasePath(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.serve(t, b.settings(t, "base_path: /agents"))
	if !strings.HasSuffix(s.url, "/agents") {
		t.Errorf("it serves at %s", s.url)
	}
	s.say("s", "hello")
	s.url = strings.TrimSuffix(s.url, "/agents")
	if status, _ := s.request("GET", "/sessions", ""); status != http.StatusNotFound {
		t.Errorf("outside of the path: %d", status)
	}
	s.signal(syscall.SIGTERM)
	s.ended()
}

// Behind a proxy that changes the host, pages at the address of the key url may post over plain HTTP.
func TestServeURL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.serve(t, b.settings(t, "url: http://chat.example"))
	for origin, want := range map[string]int{"http://chat.example": http.StatusAccepted, "http://evil.example": http.StatusForbidden} {
		req := must(http.NewRequestWithContext(t.Context(), "POST", s.url+"/start", strings.NewReader(`{"agent": "guide", "input": {"text": "hello"}}`)))
		for name, value := range map[string]string{"Authorization": "Bearer " + aliceToken, "Content-Type": "application/json", "Origin": origin} {
			req.Header.Set(name, value)
		}
		res := must(http.DefaultClient.Do(req))
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("from %s: %d, want %d", origin, res.StatusCode, want)
		}
	}
	s.signal(syscall.SIGTERM)
	s.ended()
}

// A user has as many turns under way as limits.runs_per_user says.
func TestServeRunsPerUser(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.serve(t, b.file(t, "cairn.yaml", "  - {name: guide, model: 'scripted:1m'}\nlimits: {runs_per_user: 1}\ndrain: 100ms"))
	s.ask("POST", "/start", `{"session_id": "one", "agent": "guide", "input": {"text": "hello"}}`, http.StatusAccepted, nil)
	var refused struct{ Code string }
	s.ask("POST", "/start", `{"session_id": "two", "agent": "guide", "input": {"text": "hello"}}`, http.StatusTooManyRequests, &refused)
	if refused.Code != "too_many_runs" {
		t.Errorf("got %+v", refused)
	}
	s.signal(syscall.SIGTERM)
	s.end()
}

// The level of the log changes with the file, and keys that count from the next start on are reported by name.
func TestServeReloads(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settings(t, "log: {format: json}")
	p := b.start(t, "serve", "--config", filepath.Join(b.dir, "cairn.yaml"))
	s := &servingProcess{process: p}
	s.logged(`"msg":"serving"`)
	b.settings(t, "log: {format: json, level: error}\nlimits: {body: 1MiB}")
	s.logged(`"msg":"change of this key takes effect after a restart","key":"limits.body"`)
	b.settings(t, "log: {format: json, level: error}\nbody: 1MiB")
	s.logged(`"level":"ERROR"`)
	s.logged("unknown key")
	s.signal(syscall.SIGTERM)
	if _, stderr, code := s.end(); code != cli.ExitOK || strings.Contains(stderr, "INFO") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
