package geminitest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/model/gemini/geminitest"
)

// post sends contents and returns the status and the response.
func post(base, contents string) (int, string, error) {
	res, err := http.Post(base+"/v1beta/models/m:streamGenerateContent?alt=sse", "application/json", strings.NewReader(`{"contents":[`+contents+`]}`))
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, string(answer), err
}

const hello = `{"role":"user","parts":[{"text":"Hi"}]}`

func ExampleNewServer() {
	server := geminitest.NewServer(geminitest.Text("Hello."))
	defer server.Close()
	status, stream, err := post(server.BaseURL, hello)
	fmt.Println(status, strings.Contains(stream, `"text":"Hello."`), err)
	fmt.Println(server.Requests()[0].Last().Text())
	// Output:
	// 200 true <nil>
	// Hi
}

func ExampleNewFunc() {
	server := geminitest.NewFunc(func(r *geminitest.Request) geminitest.Reply { return geminitest.Text("You said " + r.Last().Text()) })
	defer server.Close()
	status, stream, err := post(server.BaseURL, hello)
	fmt.Println(status, strings.Contains(stream, `"text":"Hi"`), err)
	// Output: 200 true <nil>
}

// TestRefusals sends what Google rejects.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const call = `{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]}`
	for contents, want := range map[string]string{
		``:                             "not specified",
		`{"role":"system","parts":[]}`: "valid role",
		`{"role":"user","parts":[]}`:   "must not be empty",
		`{"role":"model","parts":[{"text":"x"}]}`:          "comes after one of the user",
		hello + `,{"role":"model","parts":[{"text":"x"}]}`: "last turn",
		hello + "," + call + "," + hello:                   "number of function response",
		hello + "," + call:                                 "are open",
		hello + `,{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},` + hello:                               "missing a thought_signature",
		hello + `,{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"Zm9yZ2Vk"}]},` + hello: "not valid",
		hello + `,{"role":"model","parts":[{"text":"x","thoughtSignature":"Zm9yZ2Vk"}]},` + hello:                            "not valid",
		hello + `,{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}`:                                 "number of function response",
		`{"role":"user","parts":[{"inlineData":{"mimeType":"image/png"}}]}`:                                                  "inline_data",
	} {
		server := geminitest.NewServer(geminitest.Text("no"))
		t.Cleanup(server.Close)
		status, answer, err := post(server.BaseURL, contents)
		if err != nil || status != 400 || !strings.Contains(answer, want) {
			t.Errorf("%s\nis answered with %d %s, %v; want %q", contents, status, answer, err, want)
		}
	}
}
