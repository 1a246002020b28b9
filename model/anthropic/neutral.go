package anthropic

import (
	"encoding/json"
	"mime"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// How the API represents the parts that every model has.

// blank reports whether the API rejects a text as empty.
func blank(text string) bool { return strings.TrimSpace(text) == "" }

func appendText(list []any, text string) []any {
	if blank(text) {
		return list
	}
	return append(list, &block{Type: "text", Text: text})
}

func use(u *cairn.ToolUse, ids provider.CallIDs) *block {
	input := u.Input
	if !json.Valid(input) {
		input, _ = json.Marshal(string(input))
	}
	return &block{Type: "tool_use", ID: ids.Of(u.CallID), Name: provider.ToolName(u.Tool), Input: provider.Arguments(input)}
}

// result returns the result of a call, with the files that are sent in it.
func result(r *cairn.ToolResult, files []*cairn.File, ids provider.CallIDs) *block {
	b := &block{Type: "tool_result", ToolUseID: ids.Of(r.CallID), IsError: r.IsError}
	text := provider.Text(r.Output)
	switch {
	case len(files) > 0:
		list := appendText(nil, text)
		for _, f := range files {
			list = append(list, file(f))
		}
		b.Content = list
	case r.IsError && blank(text): // the API rejects an error without text
		b.Content = "The tool failed."
	case text != "":
		b.Content = text
	}
	return b
}

// file returns a file in a form that the model can read.
func file(f *cairn.File) *block {
	media, _, err := mime.ParseMediaType(f.MediaType)
	if err != nil {
		media = f.MediaType
	}
	from := &source{Type: "base64", MediaType: media, Data: f.Data}
	if len(f.Data) == 0 {
		from = &source{Type: "url", URL: f.URL}
	}
	switch {
	case media == "image/jpeg" || media == "image/png" || media == "image/gif" || media == "image/webp":
		return &block{Type: "image", Source: from}
	case media == "application/pdf":
		return &block{Type: "document", Source: from, Title: f.Name}
	case provider.Readable(media, f):
		return &block{Type: "document", Source: &source{Type: "text", MediaType: "text/plain", Data: string(f.Data)}, Title: f.Name}
	}
	return described(f)
}

// described returns a block that describes a file that cannot be sent: one of a type that the API does not read, or
// one of a reply.
func described(f *cairn.File) *block {
	return &block{Type: "text", Text: provider.Described(f)}
}
