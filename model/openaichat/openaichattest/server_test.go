package openaichattest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
)

const hello = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hello"}]}`

// post sends a body and returns the status and the response.
func post(t testing.TB, s *openaichattest.Server, body string) (status int, answer string) {
	t.Helper()
	res, err := http.Post(s.BaseURL+"/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return res.StatusCode, string(data) + "!" + err.Error()
	}
	return res.StatusCode, string(data)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := openaichattest.NewServer()
	t.Cleanup(s.Close)
	with := func(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }
	const call = `{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"t","arguments":"{}"}}]}`
	for body, says := range map[string]string{
		`{`:                          "could not parse",
		`{"model":5}`:                "could not parse",
		`{"messages":[]}`:            "model",
		with(``):                     "empty array",
		with(`{"role":"user"}`):      "content",
		with(`{"role":"poet"}`):      "poet",
		with(`{"role":"assistant"}`): "content or tool calls",
		with(call):                   "must be followed by tool messages",
		with(call + `,{"role":"user","content":"x"}`):                                                                       "must be followed by tool messages",
		with(call + `,{"role":"tool","tool_call_id":"b","content":"x"}`):                                                    `"b"`,
		with(call + `,{"role":"tool","tool_call_id":"a","content":"x"},{"role":"tool","tool_call_id":"a","content":"x"}`):   `"a"`,
		with(`{"role":"assistant","tool_calls":[{"id":"a","function":{}},{"id":"a","function":{}}]}`):                       "repeated",
		with(call + `,{"role":"tool","tool_call_id":"a","content":"x"},{"role":"user","content":"y"},` + `{"role":"user"}`): "messages.[4]",
	} {
		status, answer := post(t, s, body)
		var failed struct {
			Error struct{ Message, Type string }
		}
		err := json.Unmarshal([]byte(answer), &failed)
		if status != 400 || err != nil || failed.Error.Type != "invalid_request_error" || !strings.Contains(failed.Error.Message, says) {
			t.Errorf("%s\n%d %s, want %q", body, status, answer, says)
		}
	}
	if n := len(s.Requests()); n != 0 {
		t.Errorf("%d refused requests were recorded", n)
	}
	status, answer := post(t, s, hello)
	if status != 400 || !strings.Contains(answer, "beyond the script") {
		t.Errorf("a request beyond the script: %d %s", status, answer)
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	s := openaichattest.NewServer(openaichattest.Text("ok"))
	t.Cleanup(s.Close)
	s.RequireKey("sk-1")
	if status, answer := post(t, s, hello); status != 401 || !strings.Contains(answer, "invalid_api_key") {
		t.Errorf("without a key: %d %s", status, answer)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.BaseURL+"/chat/completions", strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer sk-1")
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
}

func TestStreamOfEverything(t *testing.T) {
	t.Parallel()
	s := openaichattest.NewServer()
	t.Cleanup(s.Close)
	s.Add(openaichattest.Reply{Reasoning: "I see.", Text: "Wait a bit.", Refusal: "No.",
		Calls: []openaichattest.Call{{ID: "x", Tool: "one", Arguments: `{"größe":"12345"}`}, {Tool: "two"}}})
	_, answer := post(t, s, hello)
	type chunk struct {
		Object  string
		Choices []struct {
			Delta struct {
				Content, Refusal string
				Reasoning        string `json:"reasoning_content"`
				ToolCalls        []struct {
					Index    int
					ID       string
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
			FinishReason *string `json:"finish_reason"`
		}
		Usage *struct {
			Prompt int `json:"prompt_tokens"`
			Output int `json:"completion_tokens"`
			Total  int `json:"total_tokens"`
		}
	}
	var got strings.Builder
	events := strings.Split(strings.TrimSuffix(answer, "\n\n"), "\n\n")
	for _, event := range events[:len(events)-1] {
		var c chunk
		if err := json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &c); err != nil || c.Object != "chat.completion.chunk" {
			t.Fatal(event, err)
		}
		for _, choice := range c.Choices {
			got.WriteString(choice.Delta.Reasoning + choice.Delta.Content + choice.Delta.Refusal)
			for _, call := range choice.Delta.ToolCalls {
				if call.ID != "" {
					fmt.Fprintf(&got, " %d:%s:%s ", call.Index, call.ID, call.Function.Name)
				}
				got.WriteString(call.Function.Arguments)
			}
			if choice.FinishReason != nil {
				got.WriteString(" " + *choice.FinishReason)
			}
		}
		if u := c.Usage; u != nil {
			if u.Prompt == 0 || u.Output == 0 || u.Total != u.Prompt+u.Output {
				t.Errorf("usage %+v", u)
			}
			got.WriteString(" usage")
		}
	}
	want := `I see.Wait a bit.No. 0:x:one {"größe":"12345"} 1:call_1_2:two  tool_calls usage`
	if got.String() != want || events[len(events)-1] != "data: [DONE]" {
		t.Errorf("got  %s\nwant %s\nlast %s", got.String(), want, events[len(events)-1])
	}
}

func TestUsageOnlyIfAskedFor(t *testing.T) {
	t.Parallel()
	s := openaichattest.NewServer(openaichattest.Text("ok"))
	t.Cleanup(s.Close)
	if _, answer := post(t, s, strings.Replace(hello, "true}", "false}", 1)); strings.Contains(answer, "usage") || !strings.Contains(answer, "[DONE]") {
		t.Error(answer)
	}
}

func TestPiecesAddUp(t *testing.T) {
	t.Parallel()
	reply := openaichattest.Text("one two three")
	small := reply
	small.Piece = 3
	a, b := openaichattest.NewServer(reply), openaichattest.NewServer(small)
	t.Cleanup(a.Close)
	t.Cleanup(b.Close)
	_, whole := post(t, a, hello)
	if _, pieces := post(t, b, hello); whole != pieces || whole == "" {
		t.Errorf("%s\n%s", whole, pieces)
	}
}

func TestBreakAfterDropsTheConnection(t *testing.T) {
	t.Parallel()
	s := openaichattest.NewServer(openaichattest.Reply{Text: "one two", Wire: openaichattest.Wire{BreakAfter: 2}})
	t.Cleanup(s.Close)
	if _, answer := post(t, s, hello); !strings.HasSuffix(answer, "!unexpected EOF") || strings.Count(answer, "data:") != 2 {
		t.Error(answer)
	}
}

func TestGateHoldsUntilItOpens(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	s := openaichattest.NewServer(openaichattest.Reply{Text: "one", Wire: openaichattest.Wire{Gate: gate}})
	t.Cleanup(s.Close)
	res, err := http.Post(s.BaseURL+"/chat/completions", "application/json", strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first := make([]byte, 4096)
	n, err := res.Body.Read(first)
	if err != nil || bytes.Contains(first[:n], []byte("one")) {
		t.Errorf("before the gate opens: %s %v", first[:n], err)
	}
	close(gate)
	rest, err := io.ReadAll(res.Body)
	if err != nil || !bytes.Contains(rest, []byte("one")) {
		t.Errorf("after: %s %v", rest, err)
	}
}

func TestCloseEndsHeldReplies(t *testing.T) {
	t.Parallel()
	s := openaichattest.NewServer(openaichattest.Reply{Text: "one", Wire: openaichattest.Wire{Gate: make(chan struct{})}})
	res, err := http.Post(s.BaseURL+"/chat/completions", "application/json", strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	s.Close()
	s.Close()
	if rest, _ := io.ReadAll(res.Body); bytes.Contains(rest, []byte("[DONE]")) {
		t.Errorf("%s", rest)
	}
}

func ExampleNewServer() {
	server := openaichattest.NewServer(
		openaichattest.CallTool("lookup", map[string]int{"order": 42}),
		openaichattest.Fail(429, "rate_limit_exceeded", "Slow down.").RetryAfter("1"),
	)
	defer server.Close()
	const body = `{"model":"m","messages":[{"role":"user","content":"Where is it?"}]}`
	for range 2 {
		res, err := http.Post(server.BaseURL+"/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		var answer struct {
			Choices []struct {
				Message openaichattest.Message `json:"message"`
			} `json:"choices"`
			Error *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		err = json.NewDecoder(res.Body).Decode(&answer)
		_ = res.Body.Close()
		switch {
		case err != nil:
			fmt.Println(err)
		case answer.Error != nil:
			fmt.Println(res.Status, res.Header.Get("Retry-After"), answer.Error.Message)
		default:
			fmt.Println(answer.Choices[0].Message.ToolCalls[0].Function)
		}
	}
	fmt.Println(server.Requests()[1].Last().Text())
	// Output:
	// {lookup {"order":42}}
	// 429 Too Many Requests 1 Slow down.
	// Where is it?
}

func ExampleNewFunc() {
	server := openaichattest.NewFunc(func(req *openaichattest.Request) openaichattest.Reply {
		return openaichattest.Text("You said " + req.Last().Text())
	})
	defer server.Close()
	const body = `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}]}`
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.BaseURL+"/chat/completions", strings.NewReader(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	var answer struct {
		Choices []struct {
			Message openaichattest.Message `json:"message"`
		} `json:"choices"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Choices[0].Message.Text())
	// Output: You said hello
}
