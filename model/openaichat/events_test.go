package openaichat_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/openaichat"
)

// streaming returns a model that receives body as the response, with the content type of an event stream.
func streaming(body io.Reader) *openaichat.ChatModel {
	return through(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
			Body: io.NopCloser(body), Request: r}, nil
	}, openaichat.Options{})
}

func TestFramesOfTheStream(t *testing.T) {
	t.Parallel()
	const text = `data: {"choices":[{"delta":{"content":"x"}}]}`
	const end = `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	for name, c := range map[string]struct{ stream, want string }{
		"an event's name ends with it":      {"event: error\n\n" + text + "\n\n" + end, "text \"x\"\nfinish end\n"},
		"no blank line at the end":          {text + "\n\n" + text, "text \"x\"\nerror model_failed retryable=true: openai-chat: model \"m\": the stream ended before the reply was complete\n"},
		"other fields":                      {"id: 1\nretry: 2\nnonsense\ndatum: 3\n" + text + "\n\n" + end, "text \"x\"\nfinish end\n"},
		"nothing is read after [DONE]":      {text + "\n\ndata: [DONE]\n\ndata: {oops\n\n", "text \"x\"\nfinish end\n"},
		"lines of data, less one space":     {"data:  {oops\ndata:  x\n\n", "error model_failed retryable=true: openai-chat: model \"m\": invalid event in the stream: {oops\n x\n"},
		"fields of other types than agreed": {`data: {"choices":[{"delta":{"content":"x","reasoning":{},"refusal":5}}],"usage":{"prompt_tokens":12.0}}` + "\n\n" + end, "text \"x\"\nusage in=12 out=0 reasoning=0 cached=0 written=0\nfinish end\n"},
		"a message that is no object":       {`data: {"choices":[{"message":"x","finish_reason":"stop"}]}` + "\n\n", "error model_failed retryable=true: openai-chat: model \"m\": invalid message in the reply: not an object\n"},
	} {
		if got := lines(ask(t.Context(), streaming(strings.NewReader(c.stream)), hello())); got != c.want {
			t.Errorf("%s: got\n%swant\n%s", name, got, c.want)
		}
	}
}

// endless repeats a text forever, and counts how much of it was read.
type endless struct {
	text string
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.text[(e.read+n)%len(e.text):])
	}
	e.read += n
	return n, nil
}

func TestEventThatNeverEnds(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"one line":   "data: ",
		"many lines": "data: " + strings.Repeat("x", 1<<16) + "\n",
	} {
		body := &endless{text: text}
		_, err := ask(t.Context(), streaming(body), hello())
		if e := cairn.AsError(err); e == nil || e.Code != cairn.ErrModel || !strings.Contains(e.Message, "too large (max 32 MiB)") {
			t.Errorf("%s: %v", name, err)
		}
		if body.read > 40<<20 {
			t.Errorf("%s: %d bytes were read", name, body.read)
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"http://localhost:1":       "http://localhost:1/chat/completions",
		"http://localhost:1/":      "http://localhost:1/chat/completions",
		"https://h.example/v1":     "https://h.example/v1/chat/completions",
		"https://h.example/v1/":    "https://h.example/v1/chat/completions",
		"https://h.example/a%2Fb/": "https://h.example/a%2Fb/chat/completions",
	} {
		var got string
		client := &http.Client{Transport: providertest.Transport(func(r *http.Request) (*http.Response, error) {
			got = r.Method + " " + r.URL.String()
			return nil, io.EOF
		})}
		_, err := ask(t.Context(), openaichat.Model("m", &openaichat.Options{BaseURL: base, HTTPClient: client}), hello())
		if got != "POST "+want || err == nil {
			t.Errorf("%s: asked %s, error %v", base, got, err)
		}
	}
}
