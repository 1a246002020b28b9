package console_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/console"
	"github.com/cairn-agents/cairn/internal/testenv"
)

func get(t *testing.T, h http.Handler, method, path string) (*http.Response, string) {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(method, path, nil))
	return rec.Result(), rec.Body.String()
}

// Every file has a policy that lets only the console's own scripts run, and none refers to another host, sets a style
// inline or reads text as HTML.
func TestFiles(t *testing.T) {
	t.Parallel()
	h := http.StripPrefix("/deep/console", console.New(nil))
	kinds := map[string]string{".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
	seen := 0
	err := filepath.WalkDir("web", func(name string, d fs.DirEntry, err error) error {
		kind := kinds[filepath.Ext(name)]
		if err != nil || d.IsDir() || kind == "" {
			return err
		}
		seen++
		res, body := get(t, h, "GET", "/deep/console/static/"+filepath.ToSlash(strings.TrimPrefix(name, "web"+string(filepath.Separator))))
		if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), kind) {
			t.Errorf("%s: %d, %s", name, res.StatusCode, res.Header.Get("Content-Type"))
		}
		if p := res.Header.Get("Content-Security-Policy"); !strings.HasPrefix(p, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';") || strings.Contains(p, "unsafe") {
			t.Errorf("%s: the policy is %q", name, p)
		}
		if strings.Contains(name, "vendor") {
			return nil
		}
		for _, never := range []string{"innerHTML", "eval(", "style=", "onclick=", "https://", "crypto.subtle", "randomUUID"} {
			if strings.Contains(body, never) {
				t.Errorf("%s has %q", name, never)
			}
		}
		if n := strings.Count(body, "\n"); n > 400 {
			t.Errorf("%s has %d lines", name, n)
		}
		return nil
	})
	if err != nil || seen < 30 {
		t.Errorf("%d files, %v", seen, err)
	}
	for path, want := range map[string]int{"/deep/console/static/nothing.js": 404, "/deep/console/static/..%2fconsole.go": 404, "/deep/console/static/index.html": 404,
		"/deep/console/static/vendor/VERSIONS.md": 404, "/deep/console/static/": 404, "/deep/console/": 200, "/deep/console/nowhere": 200} {
		if res, _ := get(t, h, "GET", path); res.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, res.StatusCode, want)
		}
	}
	if res, _ := get(t, h, "POST", "/deep/console/"); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", res.StatusCode)
	}
}

// The page of each view refers to its files by relative addresses, at any depth and below any path.
func TestRelativeAddresses(t *testing.T) {
	t.Parallel()
	h := http.StripPrefix("/deep/console", console.New(&console.Options{API: "/agents/", Title: `Shop "42"`}))
	src := regexp.MustCompile(`src="([^"]*)"`)
	for path, want := range map[string]string{"/": "static/app.js", "/inbox": "static/app.js", "/s/order-42": "../static/app.js", "/s/a%2Fb": "../static/app.js", "/s/x/compare/y": "../../../static/app.js"} {
		_, body := get(t, h, "GET", "/deep/console"+path)
		if m := src.FindStringSubmatch(body); m == nil || m[1] != want {
			t.Errorf("%s: got %v, want %s", path, m, want)
		}
		if !strings.Contains(body, `content="/agents/"`) || !strings.Contains(body, `<title>Shop &#34;42&#34;</title>`) {
			t.Errorf("%s: got %s", path, body)
		}
	}
	for _, api := range []string{"https://example.com/", "//example.com/", "agents", "/a/?b"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("API %q is accepted", api)
				}
			}()
			console.New(&console.Options{API: api})
		}()
	}
}

// The vendored modules are those of the list, with their licenses.
func TestVendoredModules(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("web/vendor/VERSIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.ReadDir("web/vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range dir {
		if f.Name() != "VERSIONS.md" && !strings.Contains(string(list), "`"+f.Name()+"`") {
			t.Errorf("%s is not listed", f.Name())
		}
	}
}

// A connection that is silent for 45 seconds is replaced, behind the last event.
func TestSilentConnection(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("web/stream.js")
	if err != nil {
		t.Fatal(err)
	}
	if out := string(testenv.Node(t, "testdata/silent.mjs", script)); strings.TrimSpace(out) != `["0","1",1,2]` {
		t.Errorf("the console's requests and events are %s", out)
	}
}
