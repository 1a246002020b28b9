package anthropic_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/anthropic"
	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
)

func TestAnswersThatAreErrors(t *testing.T) {
	t.Parallel()
	fail := anthropictest.Fail
	raw := func(status int, body string) anthropictest.Reply {
		return anthropictest.Reply{Status: status, Raw: body}
	}
	for name, c := range map[string]struct {
		reply anthropictest.Reply
		code  cairn.Code
		says  string
	}{
		"malformed": {fail(400, "invalid_request_error", "messages: x"), cairn.CodeModelRequest, "messages: x (status 400, invalid_request_error)"},
		"too long":  {fail(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), cairn.CodeContextLength, "210000"},
		"too long with output": {fail(400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 199000 + 32000 > 200000"),
			cairn.CodeContextLength, "199000"},
		"credit":        {fail(400, "invalid_request_error", "Your credit balance is too low to access the API."), cairn.CodeAuth, "credit"},
		"billing":       {fail(402, "billing_error", "Pay."), cairn.CodeAuth, "Pay."},
		"filter":        {fail(400, "invalid_request_error", "Output blocked by content filtering policy"), cairn.CodeFiltered, "blocked"},
		"key":           {fail(401, "authentication_error", "invalid x-api-key"), cairn.CodeAuth, "invalid x-api-key"},
		"forbidden":     {fail(403, "permission_error", "No access."), cairn.CodeAuth, "No access."},
		"unknown model": {fail(404, "not_found_error", "model: claude-test"), cairn.CodeModelRequest, `model "claude-test": model: claude-test`},
		"conflict":      {fail(409, "", "Again."), cairn.CodeOverloaded, "Again."},
		"too large":     {fail(413, "request_too_large", "Request exceeds the maximum size"), cairn.CodeModelRequest, "maximum size"},
		"rate":          {fail(429, "rate_limit_error", "Number of request tokens has exceeded your limit"), cairn.CodeRateLimited, "(status 429, rate_limit_error)"},
		"server":        {fail(500, "api_error", "Internal server error"), cairn.CodeOverloaded, "(status 500, api_error)"},
		"gateway":       {raw(502, "<html>Bad Gateway</html>"), cairn.CodeOverloaded, "<html>Bad Gateway</html> (status 502)"},
		"no body":       {raw(503, " "), cairn.CodeOverloaded, "Service Unavailable without a reason (status 503)"},
		"timeout":       {fail(504, "timeout_error", "Timed out."), cairn.CodeOverloaded, "Timed out."},
		"overloaded":    {fail(529, "overloaded_error", "Overloaded"), cairn.CodeOverloaded, "Overloaded (status 529, overloaded_error)"},
		"endless":       {fail(400, "invalid_request_error", strings.Repeat("ü", 5000)), cairn.CodeModelRequest, "ü… (status 400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, server := serve(t, c.reply)
			chunks, err := ask(t.Context(), m, hello())
			e := cairn.AsError(err)
			if e == nil || e.Code != c.code || !strings.Contains(e.Message, c.says) || len(chunks) > 0 {
				t.Errorf("got %v, %+v\nwant %s, %q", chunks, e, c.code, c.says)
			}
			if e != nil && (!strings.HasPrefix(e.Message, `anthropic: model "claude-test": `) || len(e.Message) > 1200) {
				t.Errorf("message %q", e.Message)
			}
			if n := len(server.Requests()); n != 1 {
				t.Errorf("%d requests were made: retries are the engine's", n)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	m, _ := serve(t, anthropictest.Fail(429, "rate_limit_error", "Slow down.").RetryAfter("7"),
		anthropictest.Fail(529, "overloaded_error", "Overloaded").RetryAfter("0.5"), anthropictest.Fail(529, "overloaded_error", "Overloaded"))
	for _, want := range []time.Duration{7 * time.Second, 500 * time.Millisecond, 0} {
		_, err := ask(t.Context(), m, hello())
		if e := cairn.AsError(err); e == nil || e.RetryAfter != want || !e.Retryable() {
			t.Errorf("%+v, want %v", e, want)
		}
	}
}

func TestKeyNeverLeaks(t *testing.T) {
	t.Parallel()
	const key = "sk-very-secret"
	server := anthropictest.NewServer(anthropictest.Fail(401, "authentication_error", "bad key "+key),
		anthropictest.Raw("event: error\ndata: {\"error\":{\"message\":\"key "+key+" is blocked\"}}\n\n"),
		anthropictest.Raw("event: error\ndata: "+key+"\n\n"))
	t.Cleanup(server.Close)
	m := anthropic.Model("m", &anthropic.Options{BaseURL: server.BaseURL, APIKey: key})
	broken := through(func(r *http.Request) (*http.Response, error) {
		return nil, fmt.Errorf("cannot send %v", r.Header)
	}, anthropic.Options{APIKey: key})
	for i, m := range []*anthropic.MessagesModel{m, m, m, broken} {
		_, err := ask(t.Context(), m, hello())
		if err == nil {
			t.Fatalf("call %d succeeded", i)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if text := fmt.Sprintf("%+v %#v", e, e); strings.Contains(text, key) {
				t.Errorf("call %d: %s", i, text)
			}
		}
		if !strings.Contains(err.Error(), "[key]") {
			t.Errorf("call %d does not show that something was left out: %v", i, err)
		}
	}
}

func TestServerThatCannotBeReached(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	tls := httptest.NewTLSServer(http.NotFoundHandler()) // its certificate is unknown here
	t.Cleanup(tls.Close)
	for _, c := range []struct {
		base string
		code cairn.Code
		says string
	}{
		{"http://" + address, cairn.CodeOverloaded, "connection refused"},
		{tls.URL, cairn.CodeModelRequest, "certificate"},
	} {
		_, err = ask(t.Context(), anthropic.Model("m", &anthropic.Options{BaseURL: c.base, APIKey: "k-1234"}), hello())
		e := cairn.AsError(err)
		if e == nil || e.Code != c.code || !strings.Contains(e.Message, c.says) || strings.Contains(e.Message, "v1/messages") {
			t.Errorf("%s: %+v", c.base, e)
		}
	}
}

func TestAnswerThatIsNoStream(t *testing.T) {
	t.Parallel()
	for media, says := range map[string]string{"text/html; charset=utf-8": "base URL", "application/json": "in place of a stream"} {
		m := through(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {media}},
				Body: io.NopCloser(strings.NewReader("<html>")), Request: r}, nil
		}, anthropic.Options{})
		_, err := ask(t.Context(), m, hello())
		if e := cairn.AsError(err); e == nil || e.Code != cairn.CodeModelRequest || !strings.Contains(e.Message, says) {
			t.Errorf("%+v", e)
		}
	}
}

func TestDroppedConnection(t *testing.T) {
	t.Parallel()
	m, _ := serve(t, anthropictest.Reply{Blocks: []anthropictest.Part{{Text: "one two three"}}, BreakAfter: 3},
		anthropictest.Reply{Blocks: []anthropictest.Part{{Text: "one"}}, BreakAfter: 6},
		anthropictest.Reply{Blocks: []anthropictest.Part{{Text: "one"}}, ErrorAfter: 3, Code: "overloaded_error", Message: "Overloaded"})
	chunks, err := ask(t.Context(), m, hello())
	if e := cairn.AsError(err); len(chunks) != 2 || e == nil || e.Code != cairn.CodeModel || !e.Retryable() || !strings.Contains(e.Message, "broke off") {
		t.Errorf("got\n%s", lines(chunks, err))
	}
	if chunks, err := ask(t.Context(), m, hello()); err != nil || chunks[len(chunks)-1].FinishReason != cairn.FinishReasonEnd {
		t.Errorf("a connection dropped after the stop reason: got\n%s", lines(chunks, err))
	}
	if _, err := ask(t.Context(), m, hello()); cairn.AsError(err).Code != cairn.CodeOverloaded {
		t.Errorf("an error event: %v", err)
	}
}

func TestMistakesInOptions(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "")
	t.Setenv("ANTHROPIC_BASE_URL", "")
	const local = "http://localhost:1"
	for name, c := range map[string]struct {
		model string
		o     *anthropic.Options
		code  cairn.Code
		field string
	}{
		"no key":           {"m", nil, cairn.CodeAuth, "APIKey"},
		"key of two lines": {"m", &anthropic.Options{APIKey: "sk-1\nsk-2"}, cairn.CodeAuth, "APIKey"},
		"no address":       {"m", &anthropic.Options{BaseURL: "localhost:8000"}, cairn.CodeModelRequest, "BaseURL"},
		"password":         {"m", &anthropic.Options{BaseURL: "http://me:secret@localhost"}, cairn.CodeModelRequest, "BaseURL"},
		"timeout":          {"m", &anthropic.Options{BaseURL: local, IdleTimeout: -1}, cairn.CodeModelRequest, "IdleTimeout"},
		"output":           {"m", &anthropic.Options{BaseURL: local, MaxOutputTokens: -1}, cairn.CodeModelRequest, "MaxOutputTokens"},
		"cache":            {"m", &anthropic.Options{BaseURL: local, Cache: "10m"}, cairn.CodeModelRequest, "Cache"},
		"server tool":      {"m", &anthropic.Options{BaseURL: local, ServerTools: []any{map[string]any{}, "web_search"}}, cairn.CodeModelRequest, "ServerTools[1]"},
		"no name":          {"", &anthropic.Options{BaseURL: local}, cairn.CodeModelRequest, "name"},
	} {
		m := anthropic.Model(c.model, c.o)
		_, err := ask(t.Context(), m, hello())
		for _, err := range []error{err, m.Validate()} {
			e := cairn.AsError(err)
			if e == nil || e.Code != c.code || e.Field != c.field || !strings.Contains(e.Message, c.field) || e.Retryable() {
				t.Errorf("%s: %+v", name, e)
			}
			if e != nil && strings.Contains(e.Message, "secret") {
				t.Errorf("%s: the message contains a secret: %v", name, e)
			}
		}
	}
	if err := anthropic.Model("m", &anthropic.Options{BaseURL: local}).Validate(); err != nil {
		t.Errorf("a server of one's own needs no key: %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	server := anthropictest.NewServer(anthropictest.Text("one"), anthropictest.Text("two"))
	t.Cleanup(server.Close)
	server.RequireKey("sk-env")
	t.Setenv("ANTHROPIC_BASE_URL", server.BaseURL)
	t.Setenv("ANTHROPIC_API_KEY", "sk-env")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "token")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Custom: leaked")
	if _, err := ask(t.Context(), anthropic.Model("m", nil), hello()); err != nil {
		t.Fatal(err)
	}
	if h := server.Requests()[0].Header; h.Get("X-Custom") != "" || h.Get("Authorization") != "" {
		t.Errorf("a header that the test did not ask for was sent: %v", h)
	}
	t.Setenv("ANTHROPIC_API_KEY", "sk-wrong")
	if _, err := ask(t.Context(), anthropic.Model("m", &anthropic.Options{APIKey: "sk-env"}), hello()); err != nil {
		t.Errorf("the option's key does not win over the environment's: %v", err)
	}
}

// TestCancel stops a call in its stream and before its answer: the provider's request ends with it.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, gated := range []bool{true, false} {
		arrived, ended := make(chan struct{}, 1), make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			if gated {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, "event: message_start\ndata: {\"type\":\"message_start\"}\n\n")
				_ = http.NewResponseController(w).Flush()
			}
			arrived <- struct{}{}
			<-r.Context().Done()
			close(ended)
		}))
		t.Cleanup(server.Close)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		_, err := ask(ctx, anthropic.Model("m", &anthropic.Options{BaseURL: server.URL}), hello())
		if e := cairn.AsError(err); e == nil || e.Code != cairn.CodeAborted || !errors.Is(err, context.Canceled) {
			t.Errorf("gated %t: %+v", gated, e)
		}
		<-ended
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	m, server := serve(t, anthropictest.Text("no"))
	_, err := ask(ctx, m, hello())
	if e := cairn.AsError(err); e.Code != cairn.CodeTimeout || !errors.Is(err, context.DeadlineExceeded) || len(server.Requests()) > 0 {
		t.Errorf("a context that ended before: %+v", e)
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

// slow answers with a slowBody.
func slow(pause time.Duration, pieces ...string) transport {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
			Body: &slowBody{r.Context(), pause, pieces}, Request: r}, nil
	}
}

const (
	piece = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"x\"}}\n\n"
	last  = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n"
	done  = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pieces []string
		idle   time.Duration // 0 is the default of 2 minutes
		fails  bool
		took   time.Duration
	}{
		"silent from the start": {nil, 0, true, 2 * time.Minute},
		"silent after a while":  {[]string{piece, piece}, time.Minute, true, 40*time.Second + time.Minute},
		"slow but steady":       {[]string{piece, piece, piece, "event: ping\ndata: {}\n\n", last, done}, 30 * time.Second, false, 2 * time.Minute},
		"silent after the end":  {[]string{piece, last}, time.Minute, false, 100 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				chunks, err := ask(t.Context(), through(slow(20*time.Second, c.pieces...), anthropic.Options{IdleTimeout: c.idle}), hello())
				if e := cairn.AsError(err); c.fails != (e != nil) || e != nil && (e.Code != cairn.CodeOverloaded || !strings.Contains(e.Message, "no byte")) {
					t.Errorf("%+v", e)
				}
				if !c.fails && chunks[len(chunks)-1].Type != cairn.ChunkFinish {
					t.Errorf("got\n%s", lines(chunks, err))
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
			})
		})
	}
}

// TestStopTakesNoTime cancels a call while its stream is silent: it ends at that moment of the bubble's clock.
func TestStopTakesNoTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		began := time.Now()
		_, err := ask(ctx, through(slow(time.Second, piece), anthropic.Options{}), hello())
		if took := time.Since(began); took != 30*time.Second || cairn.AsError(err).Code != cairn.CodeTimeout {
			t.Errorf("the call ended after %v, %v", took, err)
		}
	})
}
