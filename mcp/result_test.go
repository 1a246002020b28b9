package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
)

// TestFilesOfResults has servers that describe their files wrongly. A file that a provider refuses would make it
// refuse the conversation from then on.
func TestFilesOfResults(t *testing.T) {
	t.Parallel()
	const png, jpeg, pdf = "\x89PNG\r\n\x1a\n", "\xff\xd8\xff", "%PDF-1.7"
	for name, c := range map[string]struct{ media, data, want string }{
		"an image":             {"image/png", png, "image/png"},
		"another image":        {"image/jpeg", png, "image/png"},
		"an image as a PDF":    {"application/pdf", jpeg, "image/jpeg"},
		"a PDF":                {"application/pdf; x=y", pdf, "application/pdf"},
		"no image":             {"image/png", "not found", "left out: unsupported image format"},
		"a drawing in XML":     {"image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg"/>`, "left out: unsupported image format"},
		"a large image":        {"image/png", png + strings.Repeat("x", maxImage), "left out: too large"},
		"the largest image":    {"image/png", png + strings.Repeat("x", maxImage-len(png)), "image/png"},
		"a PDF that is larger": {"application/pdf", pdf + strings.Repeat("x", maxImage), "application/pdf"},
	} {
		file, why := fileOf(c.media, base64.StdEncoding.EncodeToString([]byte(c.data)), 0)
		if file != nil {
			why = file.MediaType
		}
		if !strings.HasPrefix(why, c.want) || file != nil && string(file.Data) != c.data {
			t.Errorf("%s: %q, want %q", name, why, c.want)
		}
	}
}

// TestNULInResults has text of a server that a session cannot keep, in a result that an effect received.
func TestNULInResults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`a\u0000b\u0000`: "a\uFFFDb\uFFFD",
		`a\\u0000\"`:     `a\u0000"`,
		`a\\\u0000\n`:    "a\\\uFFFD\n",
		`a\ud83d`:        "a\uFFFD",
	} {
		r, err := decodeResult(fmt.Appendf(nil, `{"content":[{"type":"text","text":"%s"}],"structuredContent":{"a":"%[1]s"}}`, text))
		if err != nil {
			t.Fatal(err)
		}
		kept, err := json.Marshal(r)
		if err == nil {
			err = cairn.CheckJSON("result", kept)
		}
		var data struct{ A string }
		if json.Unmarshal(r.Data, &data) != nil || data.A != want || r.Content[0].Text != want || err != nil {
			t.Errorf("%s: %s, %v", text, kept, err)
		}
	}
}
