package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/cairn-agents/cairn"
)

// RunCounts runs the tests of adapters whose models count tokens.
func (a Adapter[Q, R]) RunCounts(t *testing.T) {
	for name, f := range map[string]func(*testing.T){
		"counted": a.counted, "refused": a.countRefused, "busy": a.countBusy, "hostile": a.countHostile, "gone": a.countGone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t)
		})
	}
}

func count(ctx context.Context, m cairn.Model, req *cairn.Request) (int64, error) {
	return m.(cairn.TokenCounter).CountTokens(ctx, req)
}

// whole returns a request in which everything optional is set.
func whole() *cairn.Request {
	req := Hello()
	half := 0.5
	use := cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: "call_1", Tool: "lookup", Input: json.RawMessage(`{"order":1}`)}}
	result := cairn.Part{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: "call_1", Tool: "lookup", Output: json.RawMessage(`"a lamp"`)}}
	req.System = "You help."
	req.Settings = cairn.Settings{Temperature: &half, TopP: &half, MaxOutputTokens: 100, ReasoningEffort: "low", Options: map[string]any{"metadata": map[string]string{"a": "b"}}}
	req.Tools = []cairn.ToolSpec{{Name: "lookup", Description: "Look up an order.", Schema: json.RawMessage(`{"type":"object","properties":{"order":{"type":"integer"}},"required":["order"],"additionalProperties":false}`)}}
	req.Messages = append(req.Messages, cairn.Message{Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart("Let me look."), use}},
		cairn.Message{Role: cairn.RoleTool, Parts: []cairn.Part{result}}, cairn.User(cairn.TextPart("And?")))
	req.Choice = cairn.ToolChoice{Tool: "lookup"}
	return req
}

// counted counts small and large requests. None of them may ask for a reply.
func (a Adapter[Q, R]) counted(t *testing.T) {
	m, server := a.serve(t)
	var before int64
	for i, req := range []*cairn.Request{Hello(), whole()} {
		n, err := count(t.Context(), m, req)
		if err != nil || n <= before || server.Counts() != i+1 || len(server.Requests()) > 0 {
			t.Fatalf("%d tokens after %d, %v; %d counts, %d requests", n, before, err, server.Counts(), len(server.Requests()))
		}
		before = n
	}
}

// answering returns a model whose requests all get the same response, and a counter of these requests.
func (a Adapter[Q, R]) answering(status int, body string) (cairn.Model, *atomic.Int32) {
	var asked atomic.Int32
	return a.through(func(r *http.Request) (*http.Response, error) {
		asked.Add(1)
		return Answering(status, body, new([]byte))(r)
	}), &asked
}

// countRefused tests that a server that cannot count is asked only once.
func (a Adapter[Q, R]) countRefused(t *testing.T) {
	for status, body := range map[int]string{404: `{"error":{"message":"no such path"}}`, 405: ``, 200: `{}`} {
		m, asked := a.answering(status, body)
		code := cairn.ErrModelRequest
		if status == 404 {
			code = cairn.ErrModelNotFound
		}
		if n, err := count(t.Context(), m, Hello()); !errors.Is(err, &cairn.Error{Code: code}) {
			t.Errorf("status %d: %d tokens, %v", status, n, err)
		}
		if _, err := count(t.Context(), m, Hello()); !errors.Is(err, errors.ErrUnsupported) || asked.Load() != 1 {
			t.Errorf("status %d: then %v after %d requests", status, err, asked.Load())
		}
	}
}

// countBusy tests that a server that was busy is asked again.
func (a Adapter[Q, R]) countBusy(t *testing.T) {
	m, asked := a.answering(429, `{"error":{"message":"slow down"}}`)
	for i := range 2 {
		if _, err := count(t.Context(), m, Hello()); !errors.Is(err, &cairn.Error{Code: cairn.ErrRateLimited}) || asked.Load() != int32(i+1) {
			t.Errorf("%v after %d requests", err, asked.Load())
		}
	}
}

// countHostile tests responses that no provider gives.
func (a Adapter[Q, R]) countHostile(t *testing.T) {
	for _, body := range []string{"", "null", "[]", `{"input_tokens":"x","totalTokens":"x"}`, `{"input_tokens":-5,"totalTokens":-5}`, "<html>", `{"input_tokens":1e99,"totalTokens":1e99}`} {
		m, _ := a.answering(200, body)
		if n, err := count(t.Context(), m, Hello()); err == nil && n <= 0 {
			t.Errorf("%q counts %d tokens", body, n)
		}
	}
}

// countGone tests a context that ends before and during a request.
func (a Adapter[Q, R]) countGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := a.through(func(r *http.Request) (*http.Response, error) {
		cancel()
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	for range 2 {
		if _, err := count(ctx, m, Hello()); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped: %v", err)
		}
	}
	if _, err := count(t.Context(), a.Model("m", Endpoint{BaseURL: "http://a b"}), Hello()); !errors.Is(err, &cairn.Error{Code: cairn.ErrModelRequest}) {
		t.Errorf("a bad address: %v", err)
	}
}
