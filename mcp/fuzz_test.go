package mcp

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// FuzzResult decodes results of servers. A session must be able to keep what comes of them.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="}],"structuredContent":{"a":1}}`))
	f.Add([]byte(`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"form","message":"m","requestedSchema":{"type":"object"}}}},"requestState":"s"}`))
	f.Add([]byte(`{"content":[{"type":"resource","resource":{"uri":"u","blob":"AA=="}},{"type":"resource_link","uri":"\u0000"}],"isError":true}`))
	s := &Server{endpoint: endpoint{name: "fuzz"}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := decodeResult(raw)
		if err != nil {
			return
		}
		for _, q := range r.Requests {
			if question, err := s.question(q.Params); err == nil && (question.Prompt == "" || cairn.CheckText("prompt", question.Prompt) != nil || cairn.CheckJSON("payload", question.Payload) != nil) {
				t.Errorf("the question %+v cannot be asked", question)
			}
		}
		if r.Type != complete {
			return
		}
		out, files, err := r.output(1 << 16)
		if err != nil {
			return
		}
		if !json.Valid(out) || len(files) > maxFiles {
			t.Errorf("the result is %s with %d files", out, len(files))
		}
		for i := range files {
			if m := cairn.User(cairn.FilePart(files[i])); m.Validate() != nil {
				t.Errorf("the file %q cannot be kept", files[i].MediaType)
			}
		}
	})
}

// FuzzSchema checks schemas of servers.
func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}`))
	f.Add([]byte(`{"type":"object","allOf":[{"$ref":"#"}]}`))
	f.Fuzz(func(_ *testing.T, raw []byte) { _ = checkSchema(raw) })
}

// FuzzToolName derives the model's names for servers' tools.
func FuzzToolName(f *testing.F) {
	f.Add("bench_", "a.b")
	f.Add("", "9 lives\n")
	f.Fuzz(func(t *testing.T, prefix, remote string) {
		if remote == "" || prefix != plainName(prefix) || len(prefix) > maxPrefix || !utf8.ValidString(remote) {
			return
		}
		seen := map[string]bool{}
		first := toolName(prefix, remote, seen)
		seen[first] = true
		if second := toolName(prefix, remote, seen); !ids.Tool(first) || !ids.Tool(second) {
			t.Errorf("%q becomes %q and %q", remote, first, second)
		}
	})
}
