package anthropictest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
)

// post sends a body and returns the status and the response.
func post(base, body string) (int, string, error) {
	req, err := http.NewRequest(http.MethodPost, base+"/v1/messages", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Anthropic-Version", "2023-06-01")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, string(answer), err
}

const hello = `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}`

func ExampleNewServer() {
	server := anthropictest.NewServer(anthropictest.Text("Hello."))
	defer server.Close()
	status, stream, err := post(server.BaseURL, hello)
	fmt.Println(status, strings.Contains(stream, `"text":"Hello."`), err)
	fmt.Println(server.Requests()[0].Last().Text())
	// Output:
	// 200 true <nil>
	// Hi
}

func ExampleNewFunc() {
	server := anthropictest.NewFunc(func(r *anthropictest.Request) anthropictest.Reply {
		return anthropictest.Text("You said " + r.Last().Text())
	})
	defer server.Close()
	status, stream, err := post(server.BaseURL, hello)
	fmt.Println(status, strings.Contains(stream, `"text":"Hi"`), err)
	// Output:
	// 200 true <nil>
}

// TestRefusals sends what Anthropic rejects.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const (
		user = `{"role":"user","content":[{"type":"text","text":"Hi"}]}`
		use  = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{}}]}`
	)
	said := func(block string) string {
		return user + `,{"role":"assistant","content":[` + block + `]},` + user
	}
	results := func(blocks string) string { return user + "," + use + `,{"role":"user","content":[` + blocks + `]}` }
	for messages, want := range map[string]string{
		``:                "at least one message",
		use:               "first message must use the user role",
		user + "," + user: "roles must alternate",
		user + "," + use:  "without `tool_result`",
		user + `,{"role":"assistant","content":[{"type":"text","text":"So"}]}`:                                           "prefill",
		`{"role":"system","content":[]}`:                                                                                 "unexpected role",
		`{"role":"user","content":[]}`:                                                                                   "non-empty content",
		`{"role":"user","content":[{"type":"text","text":" "}]}`:                                                         "non-whitespace",
		`{"role":"user","content":[{"type":"thinking","thinking":"x"}]}`:                                                 "not allowed in user messages",
		`{"role":"user","content":[{"type":"image"}]}`:                                                                   "source",
		`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"!"}}]}`:    "base64",
		`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/bmp","data":"aaaa"}}]}`: "media_type",
		`{"role":"user","content":[{"type":"image","source":{"type":"url","url":"http://x"}}]}`:                          "HTTPS",
		results(`{"type":"text","text":"x"}`):                                                                            "without `tool_result`",
		results(`{"type":"tool_result","tool_use_id":"b","content":"x"}`):                                                "unexpected `tool_use_id`",
		results(`{"type":"tool_result","tool_use_id":"a","is_error":true}`):                                              "cannot be empty",
		results(`{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"a"}`):                                   "must come first",
		said(`{"type":"thinking","thinking":"x","signature":"forged"}`):                                                  "invalid `signature`",
		said(`{"type":"thinking","signature":"forged"}`):                                                                 "field required",
		said(`{"type":"redacted_thinking","data":"forged"}`):                                                             "invalid `data`",
		said(`{"type":"tool_use","id":"a:b","name":"t","input":{}}`):                                                     "malformed",
		said(`{"type":"tool_use","id":"a","name":"t","input":"x"}`):                                                      "should be an object",
		said(`{"type":"server_tool_use","id":"s","name":"t","input":{}}`):                                                "without its result",
		said(`{"type":"x_tool_result","tool_use_id":"s"}`):                                                               "unexpected block",
		said(`{"type":"image","source":{"type":"url","url":"https://x"}}`):                                               "not allowed in assistant messages",
	} {
		server := anthropictest.NewServer(anthropictest.Text("no"))
		t.Cleanup(server.Close)
		status, answer, err := post(server.BaseURL, `{"model":"m","max_tokens":9,"stream":true,"messages":[`+messages+`]}`)
		var said struct {
			Error struct{ Type, Message string }
		}
		if err == nil {
			err = json.Unmarshal([]byte(answer), &said)
		}
		if err != nil || status != 400 || said.Error.Type != "invalid_request_error" || !strings.Contains(said.Error.Message, want) {
			t.Errorf("%s\nis answered with %d %s, %v; want %q", messages, status, answer, err, want)
		}
	}
}

func TestRefusalsOfTheRest(t *testing.T) {
	t.Parallel()
	for with, want := range map[string]string{
		`"model":""`:                                 "model",
		`"max_tokens":0`:                             "max_tokens",
		`"stream":false`:                             "stream",
		`"messages":null`:                            "at least one message",
		`"system":[{"type":"text","text":""}]`:       "system",
		`"tools":[{"name":"a b","input_schema":{}}]`: "pattern",
		`"tools":[{"name":"a","input_schema":{}},{"name":"a","input_schema":{}}]`: "unique",
		`"tools":[{"name":"a"}]`:        "input_schema",
		`"tool_choice":{"type":"none"}`: "while providing tools",
		`"tools":[{"name":"a","input_schema":{}}],"tool_choice":{"type":"tool","name":"b"}`:                                  "not found",
		`"tools":[{"name":"a","input_schema":{}}],"tool_choice":{"type":"tool","name":"a"},"thinking":{"type":"adaptive"}`:   "thinking",
		`"tools":[` + strings.TrimSuffix(strings.Repeat(`{"name":"N","input_schema":{},"cache_control":{}},`, 5), ",") + `]`: "maximum of 4",
	} {
		for i := range 5 {
			with = strings.Replace(with, `"N"`, fmt.Sprintf(`"n%d"`, i), 1)
		}
		server := anthropictest.NewServer(anthropictest.Text("no"))
		t.Cleanup(server.Close)
		status, answer, err := post(server.BaseURL, strings.TrimSuffix(hello, "}")+","+with+"}")
		if err != nil || status != 400 || !strings.Contains(answer, want) {
			t.Errorf("%s is answered with %d %s, %v; want %q", with, status, answer, err, want)
		}
	}
	server := anthropictest.NewServer()
	t.Cleanup(server.Close)
	server.RequireKey("k")
	if status, answer, err := post(server.BaseURL, hello); status != 401 || err != nil {
		t.Errorf("a request without the key: %d %s, %v", status, answer, err)
	}
	server.RequireKey("")
	if status, answer, err := post(server.BaseURL, hello); status != 400 || err != nil || !strings.Contains(answer, "beyond the script") {
		t.Errorf("a request beyond the script: %d %s, %v", status, answer, err)
	}
	server.Add(anthropictest.Text("one"), anthropictest.Text("two"))
	if status, stream, err := post(server.BaseURL, hello); status != 200 || err != nil || !strings.HasSuffix(stream, "data: {\"type\":\"message_stop\"}\n\n") {
		t.Errorf("a request of the script: %d %s, %v", status, stream, err)
	}
}
