package openaitest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/model/openai/openaitest"
)

// post sends input and returns the status and the response.
func post(base, input, more string) (int, string, error) {
	body := `{"model":"m","store":false,"stream":true,"input":[` + input + `]` + more + `}`
	res, err := http.Post(base+"/responses", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, string(answer), err
}

const hello = `{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]}`

func ExampleNewServer() {
	server := openaitest.NewServer(openaitest.Text("Hello."))
	defer server.Close()
	status, stream, err := post(server.BaseURL, hello, "")
	fmt.Println(status, strings.Contains(stream, `"delta":"Hello."`), err)
	fmt.Println(server.Requests()[0].Last().Text())
	// Output:
	// 200 true <nil>
	// Hi
}

func ExampleNewFunc() {
	server := openaitest.NewFunc(func(r *openaitest.Request) openaitest.Reply { return openaitest.Text("You said " + r.Last().Text()) })
	defer server.Close()
	status, stream, err := post(server.BaseURL, hello, "")
	fmt.Println(status, strings.Contains(stream, `"delta":"Hi"`), err)
	// Output: 200 true <nil>
}

// TestRefusals sends what OpenAI rejects.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const call = `{"type":"function_call","call_id":"a","name":"t","arguments":"{}"}`
	for input, want := range map[string]string{
		``:                 "'input'",
		hello + "," + call: "no tool output found",
		hello + `,{"type":"function_call_output","call_id":"a","output":""}`: "no tool call found",
		call + "," + call: "repeated",
		`{"type":"reasoning","id":"rs","encrypted_content":"forged"}`:                                "could not be verified",
		`{"type":"message","role":"assistant","content":[{"type":"input_text","text":"x"}]}`:         "invalid value",
		`{"type":"message","role":"user","content":[{"type":"output_text","text":"x"}]}`:             "invalid value",
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]}`:        "annotations",
		`{"type":"message","role":"user","content":[{"type":"input_image","image_url":"http://x"}]}`: "image_url",
		`{"type":"message","role":"user","content":[{"type":"input_file","file_data":"data:"}]}`:     "input_file",
		`{"type":"message","role":"tool","content":[{"type":"input_text","text":"x"}]}`:              "role",
		`{"type":"hologram"}`: "invalid value",
	} {
		server := openaitest.NewServer(openaitest.Text("no"))
		t.Cleanup(server.Close)
		status, answer, err := post(server.BaseURL, input, "")
		if err != nil || status != 400 || !strings.Contains(answer, want) {
			t.Errorf("%s\nis answered with %d %s, %v; want %q", input, status, answer, err, want)
		}
	}
	for more, want := range map[string]string{
		`,"store":true`: "stores nothing", `,"previous_response_id":"r"`: "previous response", `,"stop":["x"]`: "stop", `,"stream":false`: "streams",
		`,"tools":[{"type":"function","name":"a b","parameters":{}}]`:                            "pattern",
		`,"tools":[{"type":"function","name":"a"}]`:                                              "parameters",
		`,"tools":[{"type":"function","name":"a","parameters":{"type":"object"},"strict":true}]`: "additionalProperties",
		`,"tool_choice":"none"`: "not found",
	} {
		server := openaitest.NewServer(openaitest.Text("no"))
		t.Cleanup(server.Close)
		if status, answer, err := post(server.BaseURL, hello, more); err != nil || status != 400 || !strings.Contains(answer, want) {
			t.Errorf("%s is answered with %d %s, %v; want %q", more, status, answer, err, want)
		}
	}
}
