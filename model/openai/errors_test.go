package openai_test

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
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/openai"
	"github.com/cairn-agents/cairn/model/openai/openaitest"
)

func TestAnswersThatAreErrors(t *testing.T) {
	t.Parallel()
	fail := openaitest.Fail
	raw := func(status int, body string) openaitest.Reply { return openaitest.Reply{Status: status, Raw: body} }
	for name, c := range map[string]struct {
		reply openaitest.Reply
		code  cairn.Code
		says  string
	}{
		"malformed":        {fail(400, "", "Invalid value for 'x'."), cairn.CodeModelRequest, "Invalid value for 'x'. (status 400, invalid_request_error)"},
		"context code":     {fail(400, "context_length_exceeded", "Too long."), cairn.CodeContextLength, "Too long."},
		"context words":    {fail(400, "", "This model's maximum context length is 8192 tokens."), cairn.CodeContextLength, "8192"},
		"context llama":    {raw(400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`), cairn.CodeContextLength, "exceeds"},
		"context size":     {raw(500, `{"error":"input length 9000 exceeds the model's context size"}`), cairn.CodeContextLength, "9000"},
		"filter":           {fail(400, "content_filter", "The prompt was filtered."), cairn.CodeFiltered, "filtered"},
		"policy":           {fail(400, "content_policy_violation", "Not allowed."), cairn.CodeFiltered, "Not allowed."},
		"key":              {fail(401, "invalid_api_key", "Incorrect API key provided."), cairn.CodeAuth, "Incorrect"},
		"forbidden":        {fail(403, "", "No access."), cairn.CodeAuth, "No access."},
		"payment":          {fail(402, "", "Insufficient Balance"), cairn.CodeAuth, "Balance"},
		"unknown model":    {fail(404, "model_not_found", "The model does not exist."), cairn.CodeModelRequest, `model "test-model": The model does not exist.`},
		"request timeout":  {fail(408, "", ""), cairn.CodeOverloaded, "Request Timeout (status 408"},
		"conflict":         {fail(409, "", ""), cairn.CodeOverloaded, "Conflict"},
		"too large":        {fail(413, "", ""), cairn.CodeModelRequest, "Too Large"},
		"unprocessable":    {raw(422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`), cairn.CodeModelRequest, "field required"},
		"rate":             {fail(429, "rate_limit_exceeded", "Slow down."), cairn.CodeRateLimited, "Slow down. (status 429, rate_limit_exceeded)"},
		"rate of context":  {fail(429, "", "Your context window tokens per minute are used up."), cairn.CodeRateLimited, "per minute"},
		"quota":            {fail(429, "insufficient_quota", "You exceeded your current quota."), cairn.CodeAuth, "quota"},
		"server":           {fail(500, "", "Oops."), cairn.CodeOverloaded, "Oops. (status 500, server_error)"},
		"gateway":          {raw(502, "<html>Bad Gateway</html>"), cairn.CodeOverloaded, "<html>Bad Gateway</html> (status 502)"},
		"no body":          {raw(503, " "), cairn.CodeOverloaded, "Service Unavailable (status 503)"},
		"odd status":       {raw(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), cairn.CodeOverloaded, "Overloaded (status 529, overloaded_error)"},
		"array":            {raw(400, `[{"error":{"code":400,"message":"API key expired","status":"INVALID"}}]`), cairn.CodeModelRequest, "API key expired (status 400, 400)"},
		"error as text":    {raw(404, `{"error":"model not found, try pulling it"}`), cairn.CodeModelRequest, "try pulling it"},
		"null error":       {raw(400, `{"error":null}`), cairn.CodeModelRequest, "Bad Request"},
		"redirect nowhere": {raw(304, " "), cairn.CodeModelRequest, "Not Modified"},
		"endless message":  {fail(400, "", strings.Repeat("ü", 5000)), cairn.CodeModelRequest, "ü… (status 400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, server := serve(t, c.reply)
			chunks, err := ask(t.Context(), m, hello())
			e := cairn.AsError(err)
			if e == nil || e.Code != c.code || !strings.Contains(e.Message, c.says) || len(chunks) > 0 {
				t.Errorf("got %v, %+v\nwant %s, %q", chunks, e, c.code, c.says)
			}
			if e != nil && (!strings.HasPrefix(e.Message, `openai: model "test-model": `) || len(e.Message) > 1200) {
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
	for header, want := range map[string]time.Duration{
		"Retry-After: 7":       7 * time.Second,
		"Retry-After: 0.5":     500 * time.Millisecond,
		"Retry-After-Ms: 1500": 1500 * time.Millisecond,
		"Retry-After: -3":      0,
		"Retry-After: NaN":     0,
		"Retry-After: soon":    0,
		"Retry-After: 1e300":   24 * time.Hour,
		"Date: Fri, 13 Nov 2026 10:00:00 GMT|Retry-After: Fri, 13 Nov 2026 10:01:30 GMT": 90 * time.Second,
		"Date: Fri, 13 Nov 2026 10:00:00 GMT|Retry-After: Fri, 13 Nov 2026 09:00:00 GMT": 0,
		"X-Other: 1": 0,
	} {
		reply := openaitest.Fail(429, "", "")
		reply.Header = http.Header{}
		for line := range strings.SplitSeq(header, "|") {
			name, value, _ := strings.Cut(line, ": ")
			reply.Header.Set(name, value)
		}
		m, _ := serve(t, reply)
		_, err := ask(t.Context(), m, hello())
		if e := cairn.AsError(err); e == nil || e.RetryAfter != want {
			t.Errorf("%s: %+v, want %v", header, e, want)
		}
	}
}

// transport answers requests without a network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func through(f transport, o openai.Options) *openai.ChatModel {
	o.HTTPClient = &http.Client{Transport: f}
	o.BaseURL = "https://model.example/v1"
	return openai.Model("m", &o)
}

func TestKeyNeverLeaks(t *testing.T) {
	t.Parallel()
	const key = "sk-very-secret"
	echo := openaitest.Fail(401, "bad "+key, "Incorrect API key provided: "+key)
	server := openaitest.NewServer(echo, openaitest.Raw("data: "+key+"\n\n"), openaitest.Raw(`data: {"error":"key `+key+` is blocked"}`+"\n\n"))
	t.Cleanup(server.Close)
	m := openai.Model("m", &openai.Options{BaseURL: server.BaseURL, APIKey: key})
	broken := through(func(r *http.Request) (*http.Response, error) {
		return nil, fmt.Errorf("cannot send %v", r.Header)
	}, openai.Options{APIKey: key})
	for i, m := range []*openai.ChatModel{m, m, m, broken} {
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
	tls.Config.ErrorLog = nil
	t.Cleanup(tls.Close)
	for _, c := range []struct {
		base string
		code cairn.Code
		says string
	}{
		{"http://" + address, cairn.CodeOverloaded, "connection refused"},
		{tls.URL, cairn.CodeModelRequest, "certificate"},
	} {
		m := openai.Model("m", &openai.Options{BaseURL: c.base, APIKey: "k-1234"})
		_, err = ask(t.Context(), m, hello())
		e := cairn.AsError(err)
		if e == nil || e.Code != c.code || !strings.Contains(e.Message, c.says) || strings.Contains(e.Message, "chat/completions") {
			t.Errorf("%s: %+v", c.base, e)
		}
	}
}

func TestWebPage(t *testing.T) {
	t.Parallel()
	m := through(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}},
			Body: io.NopCloser(strings.NewReader("<html>")), Request: r}, nil
	}, openai.Options{})
	_, err := ask(t.Context(), m, hello())
	if e := cairn.AsError(err); e == nil || e.Code != cairn.CodeModelRequest || !strings.Contains(e.Message, "base URL") {
		t.Errorf("%+v", e)
	}
}

func TestDroppedConnection(t *testing.T) {
	t.Parallel()
	m, _ := serve(t, openaitest.Reply{Text: "one two three", BreakAfter: 2},
		openaitest.Reply{Text: "one", BreakAfter: 3}, openaitest.Reply{Text: "one", ErrorAfter: 2, Message: "crashed"})
	got := lines(ask(t.Context(), m, hello()))
	want := `text "one "
error model_failed retryable=true: openai: model "test-model": the stream broke off: unexpected EOF
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := lines(ask(t.Context(), m, hello())); got != "text \"one\"\nfinish end\n" {
		t.Errorf("a connection dropped after the finish reason: got\n%s", got)
	}
	if _, err := ask(t.Context(), m, hello()); cairn.AsError(err).Code != cairn.CodeOverloaded {
		t.Errorf("an error event: %v", err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for _, gated := range []bool{true, false} { // in the stream, and before the answer
		arrived := make(chan struct{}, 1)
		server := openaitest.NewFunc(func(*openaitest.Request) openaitest.Reply {
			arrived <- struct{}{}
			if !gated {
				<-t.Context().Done()
			}
			return openaitest.Reply{Text: "one", Gate: make(chan struct{})}
		})
		t.Cleanup(server.Close)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		_, err := ask(ctx, openai.Model("m", &openai.Options{BaseURL: server.BaseURL}), hello())
		if e := cairn.AsError(err); e == nil || e.Code != cairn.CodeAborted || !errors.Is(err, context.Canceled) {
			t.Errorf("gated %t: %+v", gated, e)
		}
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	m, server := serve(t, openaitest.Text("no"))
	_, err := ask(ctx, m, hello())
	if e := cairn.AsError(err); e.Code != cairn.CodeTimeout || !errors.Is(err, context.DeadlineExceeded) || len(server.Requests()) > 0 {
		t.Errorf("a context that ended before: %+v", e)
	}
}
