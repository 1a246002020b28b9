package cairn_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/cairn-agents/cairn"
)

func TestInputMistakes(t *testing.T) {
	t.Parallel()
	file := func(f cairn.File) cairn.Input { return cairn.Messages(cairn.User(cairn.FilePart(f))) }
	for name, good := range map[string]cairn.Input{
		"text":    cairn.Text("hello"),
		"context": cairn.Messages(cairn.Context("c"), cairn.User(cairn.TextPart("t"))),
		"data":    file(cairn.File{MediaType: "a/b", Data: []byte{0xff}}),
		"address": file(cairn.File{MediaType: "a/b", URL: "https://example.com"}),
		"for pages": cairn.Messages(cairn.Message{Role: cairn.RoleUser, Metadata: []byte(`{"a":1}`),
			Parts: []cairn.Part{cairn.DataPart(cairn.Data{Name: "choice", ID: "c", Value: []byte(`null`)})}}),
		"own id":   cairn.Messages(cairn.Message{ID: "m-1", Role: cairn.RoleUser, Parts: []cairn.Part{cairn.TextPart("t")}}),
		"the most": cairn.Text(strings.Repeat("x", cairn.MaxInputBytes)),
	} {
		if err := good.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	ok := cairn.User(cairn.TextPart("ok"))
	for name, test := range map[string]struct {
		input cairn.Input
		field string
		code  cairn.Code
	}{
		"nothing":       {cairn.Input{}, "input", cairn.ErrInvalid},
		"empty text":    {cairn.Text(""), "input", cairn.ErrInvalid},
		"not UTF-8":     {cairn.Text("\xff"), "input", cairn.ErrInvalid},
		"no parts":      {cairn.Messages(ok, cairn.User()), "input.messages[1]", cairn.ErrInvalid},
		"role":          {cairn.Messages(ok, cairn.Message{Role: cairn.RoleAssistant, Parts: ok.Parts}), "input.messages[1].role", cairn.ErrInvalid},
		"no role":       {cairn.Messages(cairn.Message{Parts: ok.Parts}), "input.role", cairn.ErrInvalid},
		"id":            {cairn.Messages(cairn.Message{ID: "a\n", Role: cairn.RoleUser, Parts: ok.Parts}), "input.id", cairn.ErrInvalid},
		"tool use":      {cairn.Messages(cairn.User(cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{}})), "input", cairn.ErrInvalid},
		"no type":       {cairn.Messages(cairn.User(cairn.Part{Text: "x"})), "input", cairn.ErrInvalid},
		"no file":       {cairn.Messages(cairn.User(cairn.Part{Type: cairn.PartFile})), "input.file", cairn.ErrInvalid},
		"no media type": {file(cairn.File{Data: []byte("x")}), "input.file.media_type", cairn.ErrInvalid},
		"file name":     {file(cairn.File{MediaType: "a/b", Name: "\xff", Data: []byte("x")}), "input.file.name", cairn.ErrInvalid},
		"empty file":    {file(cairn.File{MediaType: "a/b"}), "input.file", cairn.ErrInvalid},
		"two sources":   {file(cairn.File{MediaType: "a/b", Data: []byte("x"), URL: "u"}), "input.file", cairn.ErrInvalid},
		"no data":       {cairn.Messages(cairn.User(cairn.Part{Type: cairn.PartData})), "input.data", cairn.ErrInvalid},
		"no name":       {cairn.Messages(cairn.User(cairn.DataPart(cairn.Data{Value: []byte("1")}))), "input.data.name", cairn.ErrInvalid},
		"no value":      {cairn.Messages(cairn.User(cairn.DataPart(cairn.Data{Name: "n"}))), "input.data.value", cairn.ErrInvalid},
		"bad value":     {cairn.Messages(cairn.User(cairn.DataPart(cairn.Data{Name: "n", Value: []byte("{")}))), "input.data.value", cairn.ErrInvalid},
		"text and data": {cairn.Messages(cairn.User(cairn.Part{Type: cairn.PartText, Text: "x", Data: &cairn.Data{}})), "input", cairn.ErrInvalid},
		"metadata":      {cairn.Messages(cairn.Message{Role: cairn.RoleUser, Parts: ok.Parts, Metadata: []byte("{")}), "input.metadata", cairn.ErrInvalid},
		"much metadata": {cairn.Messages(cairn.Message{Role: cairn.RoleUser, Parts: ok.Parts, Metadata: []byte(`"` + strings.Repeat("x", cairn.MaxMetadataBytes) + `"`)}),
			"input.metadata", cairn.ErrTooLarge},
		"too large": {cairn.Messages(ok, cairn.User(cairn.FilePart(cairn.File{MediaType: "a/b", Data: make([]byte, cairn.MaxInputBytes)}))), "input", cairn.ErrTooLarge},
	} {
		var e *cairn.Error
		if err := test.input.Validate(); !errors.As(err, &e) || e.Code != test.code || e.Field != test.field || !strings.HasPrefix(e.Message, test.field) {
			t.Errorf("%s: error %v, want one in %s", name, err, test.field)
		}
	}
}

func TestMessageParts(t *testing.T) {
	t.Parallel()
	use, result := &cairn.ToolUse{CallID: "1"}, &cairn.ToolResult{CallID: "1"}
	m := cairn.Message{Parts: []cairn.Part{{Type: cairn.PartReasoning, Text: "hm"}, cairn.TextPart("a"), {Type: cairn.PartToolUse, ToolUse: use},
		cairn.TextPart("b"), {Type: cairn.PartToolResult, Result: result}}}
	if m.Text() != "ab" {
		t.Errorf("text %q", m.Text())
	}
	if uses := m.ToolUses(); len(uses) != 1 || uses[0] != use {
		t.Errorf("tool uses %v", uses)
	}
	if results := m.ToolResults(); len(results) != 1 || results[0] != result {
		t.Errorf("tool results %v", results)
	}
	one, none := cairn.User(cairn.TextPart("only")), cairn.Message{}
	if one.Text() != "only" || none.Text() != "" || none.ToolUses() != nil || none.ToolResults() != nil {
		t.Errorf("texts %q and %q", one.Text(), none.Text())
	}
}

func TestDataURL(t *testing.T) {
	t.Parallel()
	given := cairn.File{Name: "a.bin", MediaType: "image/png", Data: []byte{0, 1, 254, 255}}
	got, err := cairn.FileFromDataURL("a.bin", given.DataURL())
	if err != nil || got.Name != given.Name || got.MediaType != given.MediaType || string(got.Data) != string(given.Data) || got.URL != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := cairn.FileFromDataURL("", "data:;base64,aGk="); err != nil || got.MediaType != "text/plain" || string(got.Data) != "hi" {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "https://example.com", "data:text/plain", "data:text/plain,hi", "data:a/b;base64,?", "data:a/b;base64;x,aGk="} {
		if _, err := cairn.FileFromDataURL("", bad); !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}

func TestSessionContext(t *testing.T) {
	t.Parallel()
	good := &cairn.Session{UserID: "u", Tags: []string{"a"}, Metadata: cairn.Metadata{"k": "any\nvalue", "empty": ""}}
	if err := good.ValidateContext(); err != nil {
		t.Error(err)
	}
	for name, test := range map[string]struct {
		session cairn.Session
		field   string
		code    cairn.Code
	}{
		"user":      {cairn.Session{UserID: "\xff"}, "user_id", cairn.ErrInvalid},
		"empty tag": {cairn.Session{Tags: []string{"a", ""}}, "tags", cairn.ErrInvalid},
		"key":       {cairn.Session{Metadata: cairn.Metadata{"a\n": "x"}}, "metadata", cairn.ErrInvalid},
		"value":     {cairn.Session{Metadata: cairn.Metadata{"a": "\xff"}}, "metadata", cairn.ErrInvalid},
		"too large": {cairn.Session{Metadata: cairn.Metadata{"a": strings.Repeat("x", cairn.MaxMetadataBytes)}}, "metadata", cairn.ErrTooLarge},
	} {
		var e *cairn.Error
		if err := test.session.ValidateContext(); !errors.As(err, &e) || e.Field != test.field || e.Code != test.code {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if err := cairn.CheckSessionID("session-1"); err != nil {
		t.Error(err)
	}
	var e *cairn.Error
	if err := cairn.CheckSessionID(""); !errors.As(err, &e) || e.Field != "session" || e.Code != cairn.ErrInvalid {
		t.Errorf("empty id: %v", err)
	}
}

func TestUsageAdd(t *testing.T) {
	t.Parallel()
	one := cairn.Usage{InputTokens: 1, OutputTokens: 2, ReasoningTokens: 3, CachedTokens: 4, CacheWriteTokens: 5, ModelCalls: 6, ToolCalls: 7, ToolErrors: 8,
		Custom: map[string]float64{"a": 1, "b": 2}}
	two := cairn.Usage{InputTokens: 10, OutputTokens: 20, ReasoningTokens: 30, CachedTokens: 40, CacheWriteTokens: 50, ModelCalls: 60, ToolCalls: 70, ToolErrors: 80,
		Custom: map[string]float64{"b": 0.5}}
	got, err := json.Marshal(one.Add(two))
	want := `{"input_tokens":11,"output_tokens":22,"reasoning_tokens":33,"cached_tokens":44,"cache_write_tokens":55,"model_calls":66,"tool_calls":77,"tool_errors":88,"custom":{"a":1,"b":2.5}}`
	if err != nil || string(got) != want {
		t.Errorf("sum %s, want %s", got, want)
	}
	if one.Custom["b"] != 2 || len(two.Custom) != 1 {
		t.Error("adding changed what was added")
	}
	if sum := (cairn.Usage{}).Add(cairn.Usage{}); sum.Custom != nil {
		t.Errorf("nothing and nothing is %+v", sum)
	}
}

// A file is kept without the text that it was decoded from, which is larger.
func TestFileDoesNotKeepItsDataURL(t *testing.T) {
	t.Parallel()
	url := "data:image/png;base64," + strings.Repeat("AAAA", 100)
	f, err := cairn.FileFromDataURL("name", url)
	if err != nil || f.MediaType != "image/png" {
		t.Fatal(f.MediaType, err)
	}
	first, last := uintptr(unsafe.Pointer(unsafe.StringData(url))), uintptr(len(url))
	if at := uintptr(unsafe.Pointer(unsafe.StringData(f.MediaType))); at >= first && at < first+last {
		t.Error("the media type is a part of the URL's memory")
	}
}
