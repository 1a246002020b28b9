package openai_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/openai"
	"github.com/cairn-agents/cairn/model/openai/openaitest"
)

func TestMistakesInOptions(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	t.Setenv("OPENAI_BASE_URL", "")
	const local = "http://localhost:1/v1"
	for name, c := range map[string]struct {
		model string
		o     *openai.Options
		code  cairn.Code
		field string
	}{
		"no key":           {"m", nil, cairn.CodeAuth, "APIKey"},
		"key of two lines": {"m", &openai.Options{APIKey: "sk-1\nsk-2"}, cairn.CodeAuth, "APIKey"},
		"no address":       {"m", &openai.Options{BaseURL: "localhost:8000"}, cairn.CodeModelRequest, "BaseURL"},
		"bad address":      {"m", &openai.Options{BaseURL: "http://a b"}, cairn.CodeModelRequest, "BaseURL"},
		"query":            {"m", &openai.Options{BaseURL: local + "?key=secret"}, cairn.CodeModelRequest, "BaseURL"},
		"password":         {"m", &openai.Options{BaseURL: "http://me:secret@localhost/v1"}, cairn.CodeModelRequest, "BaseURL"},
		"timeout":          {"m", &openai.Options{BaseURL: local, IdleTimeout: -1}, cairn.CodeModelRequest, "IdleTimeout"},
		"no name":          {"", &openai.Options{BaseURL: local}, cairn.CodeModelRequest, "name"},
	} {
		model := openai.Model(c.model, c.o)
		_, err := ask(t.Context(), model, hello())
		e := cairn.AsError(err)
		bad := (&cairn.Agent{Name: "bot", Model: model}).Validate()
		if !errors.Is(bad, cairn.ErrInvalid) || !errors.Is(bad, e) || !strings.Contains(bad.Error(), `agent "bot": model: openai: `+c.field) {
			t.Errorf("%s: the agent is validated as %v", name, bad)
		}
		if e == nil || e.Code != c.code || e.Field != c.field || !strings.Contains(e.Message, c.field) || e.Retryable() {
			t.Errorf("%s: %+v", name, e)
		}
		if e != nil && strings.Contains(e.Message, "secret") {
			t.Errorf("%s: the message contains a secret: %v", name, e)
		}
	}
}

func TestEnvironment(t *testing.T) {
	server := openaitest.NewServer(openaitest.Text("one"), openaitest.Text("two"))
	t.Cleanup(server.Close)
	server.RequireKey("sk-env")
	t.Setenv("OPENAI_BASE_URL", server.BaseURL)
	t.Setenv("OPENAI_API_KEY", "sk-env")
	t.Setenv("OPENAI_ADMIN_KEY", "sk-admin")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Custom: leaked")
	if _, err := ask(t.Context(), openai.Model("m", nil), hello()); err != nil {
		t.Fatal(err)
	}
	if got := server.Requests()[0].Header.Get("X-Custom"); got != "" {
		t.Errorf("a header that the test did not ask for was sent: %q", got)
	}
	t.Setenv("OPENAI_API_KEY", "sk-wrong")
	if _, err := ask(t.Context(), openai.Model("m", &openai.Options{APIKey: "sk-env"}), hello()); err != nil {
		t.Errorf("the option's key does not win over the environment's: %v", err)
	}
}

func TestServerOfOnesOwnNeedsNoKey(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	server := openaitest.NewServer(openaitest.Text("one"))
	t.Cleanup(server.Close)
	if _, err := ask(t.Context(), openai.Model("m", &openai.Options{BaseURL: server.BaseURL}), hello()); err != nil {
		t.Fatal(err)
	}
	if h, sent := server.Requests()[0].Header["Authorization"]; sent {
		t.Errorf("Authorization %q was sent", h)
	}
}

// slowBody sends pieces with a pause before each, then nothing more until its request is cancelled.
type slowBody struct {
	ctx    context.Context
	pause  time.Duration
	pieces []string
}

func (b *slowBody) Read(p []byte) (int, error) {
	if len(b.pieces) == 0 {
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	time.Sleep(b.pause) // of the bubble's clock
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n := copy(p, b.pieces[0])
	b.pieces = b.pieces[1:]
	return n, nil
}

func (b *slowBody) Close() error { return nil }

func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	const piece = `data: {"choices":[{"index":0,"delta":{"content":"x"}}]}` + "\n\n"
	const last = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	for name, c := range map[string]struct {
		pieces []string
		idle   time.Duration // 0 is the default of 2 minutes
		reader time.Duration // how long the reader thinks over each chunk
		chunks int
		fails  bool
		took   time.Duration
	}{
		"silent from the start": {nil, 0, 0, 0, true, 2 * time.Minute},
		"silent after a while":  {[]string{piece, piece}, time.Minute, 0, 2, true, 40*time.Second + time.Minute},
		"slow but steady":       {[]string{piece, piece, piece, piece, ": alive\n\n", last, "data: [DONE]\n\n"}, 30 * time.Second, 0, 5, false, 140 * time.Second},
		"slow reader":           {[]string{piece, last, "data: [DONE]\n\n"}, 30 * time.Second, time.Hour, 2, false, 2*time.Hour + time.Minute},
		"silent after the end":  {[]string{piece, last}, time.Minute, 0, 2, false, 100 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := through(func(r *http.Request) (*http.Response, error) {
					body := &slowBody{r.Context(), 20 * time.Second, c.pieces}
					return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body, Request: r}, nil
				}, openai.Options{IdleTimeout: c.idle})
				start := time.Now()
				chunks := 0
				var failed error
				for _, err := range m.Stream(t.Context(), hello()) {
					if err != nil {
						failed = err
						break
					}
					chunks++
					time.Sleep(c.reader)
				}
				if chunks != c.chunks || (failed != nil) != c.fails || time.Since(start) != c.took {
					t.Errorf("%d chunks, error %v, after %v", chunks, failed, time.Since(start))
				}
				if e := cairn.AsError(failed); e != nil && (e.Code != cairn.CodeOverloaded || !strings.Contains(e.Message, "no byte was received for")) {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

func TestIdleTimeoutBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := through(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, openai.Options{IdleTimeout: time.Second})
		start := time.Now()
		_, err := ask(t.Context(), m, hello())
		if e := cairn.AsError(err); e == nil || e.Code != cairn.CodeOverloaded || time.Since(start) != time.Second {
			t.Errorf("%+v after %v", e, time.Since(start))
		}
	})
}

// FuzzStream feeds arbitrary bytes as a reply and checks what the Model contract promises.
func FuzzStream(f *testing.F) {
	f.Add("data: [DONE]\n\n", false)
	f.Add(`data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`+"\n\n", false)
	f.Add(`{"choices":[{"index":0,"message":{"content":"x","tool_calls":[{"id":"a","function":{"name":"t"}}]},"finish_reason":"stop"}]}`, true)
	f.Add(`{"error":{"code":429}}`, true)
	addStreams(f)
	f.Fuzz(func(t *testing.T, body string, plain bool) {
		header := http.Header{"Content-Type": {"text/event-stream"}}
		if plain {
			header.Set("Content-Type", "application/json")
		}
		m := through(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		}, openai.Options{})
		chunks, err := ask(t.Context(), m, hello())
		if problem := wellFormed(chunks, err); problem != "" {
			t.Errorf("%s\n%s", problem, lines(chunks, err))
		}
	})
}
