package providertest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
)

// Attaching says how an API is sent the files in the results of calls.
type Attaching struct {
	// In is a model that is sent them in the results, and After one that is sent them in messages after the results.
	// Either is empty if the API has no such model.
	In, After string
	// NotInErrors reports that a result that is an error has no files.
	NotInErrors bool
}

// Results returns the results of calls in a request's body, in order, as JSON without breakpoints of a cache.
func Results(t testing.TB, body string) []string {
	t.Helper()
	var list []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		case map[string]any:
			kind := fmt.Sprint(v["type"])
			if kind == "tool_result" || strings.HasSuffix(kind, "_call_output") || v["functionResponse"] != nil || v["role"] == "tool" {
				delete(v, "cache_control")
				raw, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, string(raw))
				return
			}
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	var whole any
	if err := json.Unmarshal([]byte(body), &whole); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	walk(whole)
	return list
}

// filesOf returns a message with the files of a call's result, each of the media type and with the data that are given.
func filesOf(call string, typed ...string) cairn.Message {
	m := cairn.Context("Files in the result of look (call " + call + "):")
	m.CallID = call
	for i := 0; i < len(typed); i += 2 {
		m.Parts = append(m.Parts, cairn.FilePart(cairn.File{MediaType: typed[i], Data: []byte(typed[i+1])}))
	}
	return m
}

// looked is a conversation with three parallel calls, the last of which failed, and files in all of their results.
func looked() []cairn.Message {
	reply, results := cairn.Message{Role: cairn.RoleAssistant}, cairn.Message{Role: cairn.RoleTool}
	for i, output := range []string{`[{"type":"image"}]`, `{"pages":2}`, `"out of paper"`} {
		id := fmt.Sprint("c", i+1)
		reply.Parts = append(reply.Parts, cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: id, Tool: "look", Input: json.RawMessage(`{}`)}})
		results.Parts = append(results.Parts, cairn.Part{Type: cairn.PartToolResult,
			Result: &cairn.ToolResult{CallID: id, Tool: "look", Output: json.RawMessage(output), IsError: i == 2}})
	}
	return append(Hello().Messages, reply, results, filesOf("c1", "image/png", "the first image", "image/jpeg", "the second image"),
		filesOf("c2", "application/pdf", "the document"), filesOf("c3", "image/png", "the image of the error"))
}

// shows reports whether a text has the data of a file.
func shows(text, data string) bool {
	return strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(data)))
}

// recorded returns a model, and the bodies of the requests that its server has received. The server answers with what
// refuse returns, if that is a status, else with a reply.
func (a Adapter[Q, R]) recorded(name string, refuse func(body string) (status int, says string)) (cairn.Model, *[]string) {
	bodies := new([]string)
	client := Transport(func(r *http.Request) (*http.Response, error) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		*bodies = append(*bodies, string(raw))
		if refuse != nil {
			if status, says := refuse(string(raw)); status != 0 {
				answer, err := json.Marshal(map[string]any{"error": map[string]any{"message": says, "type": "invalid_request_error"}})
				if err != nil {
					return nil, err
				}
				return Answering(status, string(answer), new([]byte))(&http.Request{Body: http.NoBody})
			}
		}
		return Plays(a.Piece + a.Last + a.Done)(r)
	}).Client()
	return a.Model(name, Endpoint{BaseURL: "https://model.example/v1", APIKey: "k-1234", Client: client}), bodies
}

// sent returns the body of the request for some messages, which must get a reply at once.
func (a Adapter[Q, R]) sent(t *testing.T, name string, messages ...cairn.Message) string {
	t.Helper()
	m, bodies := a.recorded(name, nil)
	req := Hello()
	req.Messages = messages
	if _, err := Ask(t.Context(), m, req); err != nil || len(*bodies) != 1 {
		t.Fatalf("%v after %d requests", err, len(*bodies))
	}
	return (*bodies)[0]
}

// attachedFiles tests where the files of results are sent, and that later requests send them in the same way.
func (a Adapter[Q, R]) attachedFiles(t *testing.T) {
	files := []struct {
		data   string
		result int
	}{{"the first image", 0}, {"the second image", 0}, {"the document", 1}, {"the image of the error", 2}}
	for _, name := range []string{a.Attaching.In, a.Attaching.After} {
		if name == "" {
			continue
		}
		body := a.sent(t, name, looked()...)
		results := Results(t, body)
		if len(results) != 3 {
			t.Fatalf("%s: the results are %s", name, results)
		}
		for _, f := range files {
			in := name == a.Attaching.In && (f.result != 2 || !a.Attaching.NotInErrors)
			for i, r := range results {
				if shows(r, f.data) != (in && i == f.result) {
					t.Errorf("%s: result %d has %s: %t", name, i, f.data, shows(r, f.data))
				}
			}
			if n := strings.Count(body, base64.StdEncoding.EncodeToString([]byte(f.data))); n != 1 {
				t.Errorf("%s: the request has %s %d times", name, f.data, n)
			}
			if named := strings.Contains(body, fmt.Sprintf("(call c%d)", f.result+1)); named == in {
				t.Errorf("%s: a message names the call of %s: %t", name, f.data, named)
			}
		}
		for _, text := range []string{"pages", "out of paper"} {
			if !strings.Contains(strings.Join(results, ""), text) {
				t.Errorf("%s: no result has %q", name, text)
			}
		}
		later := append(looked(), cairn.Message{Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart("Seen.")}}, cairn.User(cairn.TextPart("And?")))
		if again := Results(t, a.sent(t, name, later...)); !slices.Equal(again, results) {
			t.Errorf("%s: the results were\n%s\nand are later\n%s", name, results, again)
		}
	}
}

// detachedFiles tests files of results that cannot be sent in them: the message names no call, the result is not sent
// or belongs to an earlier reply, or the file was left out, for which there is a text.
func (a Adapter[Q, R]) detachedFiles(t *testing.T) {
	name := a.Attaching.In + a.Attaching.After
	if a.Attaching.In != "" {
		name = a.Attaching.In
	}
	late := filesOf("c1", "image/png", "a late image")
	unnamed := late // as sessions had it before messages named the call
	unnamed.CallID = ""
	out := filesOf("c1")
	out.Parts = append(out.Parts, cairn.TextPart("[left out]"))
	for what, messages := range map[string][]cairn.Message{
		"no result":     {Hello().Messages[0], late},
		"no call":       append(looked()[:3], unnamed),
		"another reply": append(looked(), cairn.Message{Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart("Seen.")}}, late),
		"left out":      append(looked()[:3], out),
	} {
		body := a.sent(t, name, messages...)
		left := what == "left out"
		if strings.Contains(body, "[left out]") != left || shows(body, "a late image") == left || !strings.Contains(body, "(call c1)") {
			t.Errorf("%s: the request is %s", what, body)
		}
		if in := strings.Join(Results(t, body), ""); shows(in, "a late image") {
			t.Errorf("%s: the file is in a result: %s", what, in)
		}
	}
}

// refusedFiles tests servers that do not accept files in results, though the API of the provider does.
func (a Adapter[Q, R]) refusedFiles(t *testing.T) {
	if a.Attaching.In == "" {
		return
	}
	req := Hello()
	req.Messages = looked()
	in := func(body string) bool { return shows(strings.Join(Results(t, body), ""), "the first image") }
	for _, says := range []string{"Invalid type for 'input'.", "Output of tool call should be 'Input text'", "Input should be a valid string", "Invalid input",
		"Unable to submit request because `function_response.parts` is not supported for this model."} {
		m, bodies := a.recorded(a.Attaching.In, func(body string) (int, string) { return map[bool]int{true: 400}[in(body)], says })
		for range 2 {
			if _, err := Ask(t.Context(), m, req); err != nil {
				t.Fatalf("%s: %v", says, err)
			}
		}
		if len(*bodies) != 3 || in((*bodies)[1]) || (*bodies)[2] != (*bodies)[1] || !shows((*bodies)[1], "the first image") {
			t.Errorf("%s: %d requests: %s", says, len(*bodies), *bodies)
		}
	}
	for _, c := range []struct {
		status   int
		says     string
		requests int
	}{{400, "image exceeds 5 MB maximum", 1}, {429, "Too many requests", 1}, {500, "Internal", 1}, {400, "tools.0: bad schema", 2}} {
		refuses := true
		m, bodies := a.recorded(a.Attaching.In, func(string) (int, string) { return map[bool]int{true: c.status}[refuses], c.says })
		if _, err := Ask(t.Context(), m, req); err == nil || !strings.Contains(err.Error(), c.says) || len(*bodies) != c.requests {
			t.Errorf("%s: %v after %d requests", c.says, err, len(*bodies))
		}
		refuses = false
		if _, err := Ask(t.Context(), m, req); err != nil || !in((*bodies)[c.requests]) {
			t.Errorf("%s: the next request: %v, files in results: %t", c.says, err, in((*bodies)[c.requests]))
		}
	}
}
