package openaichat_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/modeltest"
	"github.com/cairn-agents/cairn/model/openaichat"
	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
)

// TestConformance runs the suite of models over HTTP. The server repeats what it was asked, and stalls and fails on request.
func TestConformance(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	failures := map[cairn.Code]openaichattest.Reply{
		cairn.ErrRateLimited:   openaichattest.Fail(http.StatusTooManyRequests, "rate_limit_exceeded", ""),
		cairn.ErrOverloaded:    openaichattest.Fail(http.StatusServiceUnavailable, "", ""),
		cairn.ErrModelRequest:  openaichattest.Fail(http.StatusBadRequest, "invalid_value", "bad temperature"),
		cairn.ErrContextLength: openaichattest.Fail(http.StatusBadRequest, "context_length_exceeded", "too many tokens"),
		cairn.ErrModelNotFound: openaichattest.Fail(http.StatusNotFound, "model_not_found", "no such model"),
		cairn.ErrAuth:          openaichattest.Fail(http.StatusUnauthorized, "invalid_api_key", "bad key"),
		cairn.ErrModel:         {Text: "It broke off.", Wire: openaichattest.Wire{BreakAfter: 2}},
		cairn.ErrFiltered:      {Refusal: "I must not."},
	}
	server := openaichattest.NewFunc(func(req *openaichattest.Request) openaichattest.Reply {
		said := req.Last().Text()
		code, fails := strings.CutPrefix(said, "fail ")
		var choice struct {
			ToolChoice any `json:"tool_choice"`
		}
		_ = json.Unmarshal(req.Body, &choice) // it was decoded before
		_, forced := choice.ToolChoice.(map[string]any)
		switch {
		case fails:
			return failures[cairn.Code(code)]
		case said == "stall":
			return openaichattest.Reply{Text: "It stalls.", Wire: openaichattest.Wire{Gate: gate}}
		case forced:
			return openaichattest.CallTool(req.Tools[0].Function.Name, map[string]string{"words": said})
		}
		return openaichattest.Text(said)
	})
	t.Cleanup(server.Close)
	say := func(text string) *cairn.Request {
		return &cairn.Request{Messages: []cairn.Message{cairn.User(cairn.TextPart(text))}}
	}
	modeltest.Run(t, func(testing.TB) cairn.Model {
		return openaichat.Model("test-model", &openaichat.Options{BaseURL: server.BaseURL, APIKey: "sk-secret"})
	}, &modeltest.Options{
		Stall: func() *cairn.Request { return say("stall") },
		Fail: func(code cairn.Code) *cairn.Request {
			if _, ok := failures[code]; !ok {
				return nil
			}
			return say("fail " + string(code))
		},
	})
}
