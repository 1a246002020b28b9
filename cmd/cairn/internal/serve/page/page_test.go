package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/page"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/memstore"
)

const token = "0123456789abcdef"

type refund struct {
	Order int `json:"order"`
}

// helper is an assistant that does what a message of one word asks for.
func helper() *cairn.Agent {
	model := scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		last := r.Messages[len(r.Messages)-1]
		if results := last.ToolResults(); len(results) > 0 {
			verb := "came to"
			if results[0].IsError {
				verb = "failed with"
			}
			return scripted.Text(fmt.Sprintf("%s %s %s", results[0].Tool, verb, results[0].Output))
		}
		switch text := last.Text(); text {
		case "refund":
			return scripted.Reply(scripted.Text("One moment. "), scripted.Call("refund", refund{42}))
		case "time":
			return scripted.Call("get_time", struct{}{})
		case "draw":
			return scripted.Reply(scripted.Text("Here it is."), drawn("image/png", picture()), drawn("text/html", []byte("<script>alert(1)</script>")))
		case "story":
			return scripted.Text("Once upon a time " + strings.Repeat("there was a stone on a hill, and ", 12) + "the end.").Pace(15 * time.Millisecond)
		default:
			return scripted.Text("You said " + text + ".")
		}
	})
	return &cairn.Agent{Name: "helper", Description: "Does what it is asked for.", Model: model, Tools: []cairn.Tool{
		cairn.Func("refund", "Refund an order.", func(_ context.Context, _ *cairn.Call, in refund) (string, error) {
			return fmt.Sprintf("order %d refunded", in.Order), nil
		}, cairn.RequireApproval()),
		cairn.ClientTool[struct{}, any]("get_time", "What time it is."),
	}}
}

func drawn(mediaType string, data []byte) scripted.Step {
	return scripted.Chunk(cairn.Chunk{Type: cairn.ChunkFile, File: &cairn.File{Name: "tree", MediaType: mediaType, Data: data}})
}

// picture is an image of 3 by 2 pixels.
func picture() []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// start serves the page with an assistant, to users with the token or, if open, to everyone.
func start(t *testing.T, open bool) string {
	t.Helper()
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{helper()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	opts := &server.Options{AllowUnauthenticated: open, RequestsPerMinute: -1}
	if !open {
		opts.Authenticate = server.Tokens(map[string]*server.Principal{token: {User: "alice", Roles: []server.Role{server.RoleUser}}})
	}
	h, err := server.New(eng, opts)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(page.Handler(h, page.Options{Authenticate: opts.Authenticate, Assistants: func() []page.Assistant {
		return []page.Assistant{{Name: "helper", Description: "Does what it is asked for."}}
	}}))
	t.Cleanup(func() {
		h.Drain()
		srv.CloseClientConnections()
		srv.Close()
		eng.Close(context.WithoutCancel(t.Context()))
	})
	return srv.URL
}

func get(t *testing.T, url, token string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(raw)
}

// Every file of the page has a policy that lets only the page's own scripts run, and none refers to another host.
// Unauthenticated users see the page but no assistant.
func TestRoutes(t *testing.T) {
	t.Parallel()
	url := start(t, false)
	for path, kind := range map[string]string{"/": "text/html", "/page/app.js": "text/javascript", "/page/stream.js": "text/javascript",
		"/page/transcript.js": "text/javascript", "/page/tools.js": "text/javascript", "/page/style.css": "text/css", "/page/icon.svg": "image/svg+xml"} {
		res, body := get(t, url+path, "")
		if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), kind) {
			t.Errorf("%s: %d, %s", path, res.StatusCode, res.Header.Get("Content-Type"))
		}
		if p := res.Header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'; script-src 'self';") || strings.Contains(p, "unsafe") {
			t.Errorf("%s: the policy is %q", path, p)
		}
		for _, never := range []string{"innerHTML", "eval(", "style=", "onclick=", "https://"} {
			if strings.Contains(body, never) {
				t.Errorf("%s has %q", path, never)
			}
		}
	}
	for path, want := range map[string]int{"/page/nothing.js": 404, "/page/..%2fpage.go": 404, "/page/assistants": 401, "/sessions": 401, "/index.html": 404} {
		if res, _ := get(t, url+path, ""); res.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, res.StatusCode, want)
		}
	}
	if _, body := get(t, url+"/page/assistants", token); body != `[{"name":"helper","description":"Does what it is asked for."}]`+"\n" {
		t.Errorf("got %s", body)
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
		t.Errorf("the page's requests and events are %s", out)
	}
}

// The page works in a browser.
func TestBrowser(t *testing.T) {
	t.Parallel()
	out := testenv.Node(t, "testdata/browse.mjs", start(t, true), start(t, false), token, testenv.Chromium(t))
	var found map[string][]string
	if err := json.Unmarshal(out, &found); err != nil || len(found) == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	for name, wrong := range found {
		t.Run(name, func(t *testing.T) {
			for _, w := range wrong {
				t.Error(w)
			}
		})
	}
}
