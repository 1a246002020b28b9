package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
)

// result is a server's response to a call, in the protocol's form.
type result struct {
	Type     string          `json:"resultType,omitempty"`
	Content  []content       `json:"content,omitempty"`
	Data     json.RawMessage `json:"structuredContent,omitempty"`
	IsError  bool            `json:"isError,omitempty"`
	Requests map[string]struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params,omitempty"`
	} `json:"inputRequests,omitempty"`
	State string `json:"requestState,omitempty"`
}

// The types of results. Others belong to extensions, which are not offered to servers.
const (
	complete      = "complete"
	inputRequired = "input_required"
	// mustConnect is not part of the protocol: the server demands an authorisation that the user has not given.
	mustConnect = "cairn/connect"
)

// content is a block of a result.
type content struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	Data     string `json:"data,omitempty"` // base64
	MIMEType string `json:"mimeType,omitempty"`
	// Of a resource_link.
	URI         string `json:"uri,omitempty"`
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	Resource    *struct {
		URI      string `json:"uri"`
		MIMEType string `json:"mimeType,omitempty"`
		Text     string `json:"text,omitempty"`
		Blob     string `json:"blob,omitempty"` // base64
	} `json:"resource,omitempty"`
}

// decodeResult decodes a result. Its error is meant for the model.
func decodeResult(raw []byte) (*result, error) {
	r := new(result)
	raw, _ = limits.CleanJSON(raw)
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, cairn.Errorf(cairn.ErrTool, "decode the server's result: %w", err)
	}
	switch r.Type {
	case "", complete:
		r.Type = complete
		r.Requests, r.State = nil, ""
	case inputRequired:
		r.Content, r.Data = nil, nil
	default:
		return nil, cairn.Errorf(cairn.ErrTool, "unsupported result type %q of the server: the operation, such as a task, may still be under way", clean(r.Type, 64))
	}
	return r, nil
}

// maxFiles is how many files of a result a model is shown, maxFile and maxImage how large one may be in bytes. A
// model's provider refuses an image larger than 5 MiB of base64, and with it the conversation.
const (
	maxFiles = 8
	maxFile  = 8 << 20
	maxImage = 5 << 20 / 4 * 3
)

// shown is what a model reads instead of a block that is not text.
type shown struct {
	Type     string `json:"type"`
	URI      string `json:"uri,omitempty"`
	Name     string `json:"name,omitempty"`
	MIMEType string `json:"media_type,omitempty"`
	Text     string `json:"text,omitempty"`
	// Note says where the block's bytes are.
	Note string `json:"note,omitempty"`
}

// output returns a result as the model reads it, and the files that it is shown in addition, also with the tool's
// error.
func (r *result) output(most int) (out json.RawMessage, files []cairn.File, err error) {
	var blocks []shown
	var texts []string
	size := len(r.Data)
	for i := range r.Content {
		b, file := r.Content[i].show(len(files))
		if file != nil {
			files = append(files, *file)
		}
		size += len(b.Text) + len(b.URI) + len(b.Name) + len(b.Note)
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
		blocks = append(blocks, b)
		if size > most {
			break
		}
	}
	if size > most {
		return nil, nil, fmt.Errorf("the server's result is too large (max %d bytes); request less", most)
	}
	if r.IsError {
		text := strings.Join(texts, "\n")
		if text == "" {
			text = "the server's tool failed without a reason"
		}
		return nil, files, fmt.Errorf("%s", text)
	}
	switch {
	case len(r.Data) > 0 && string(r.Data) != "null" && len(texts) == len(blocks): // the texts are a copy of the data
		out = r.Data
	case len(r.Data) > 0 && string(r.Data) != "null":
		out, err = json.Marshal(map[string]any{"structured": r.Data, "content": blocks})
	case len(blocks) == len(texts):
		out, err = json.Marshal(strings.Join(texts, "\n"))
	default:
		out, err = json.Marshal(blocks)
	}
	return out, files, err
}

// show returns a block as the model reads it, and its file if it has one that can be shown. n is the number of
// files before it.
func (c *content) show(n int) (shown, *cairn.File) {
	b := shown{Type: clean(c.Type, 64), URI: clean(c.URI, 2048), Name: clean(c.Name, 256)}
	media, data := c.MIMEType, c.Data
	switch c.Type {
	case "text":
		return shown{Type: "text", Text: limits.Clean(c.Text)}, nil
	case "resource_link":
		b.MIMEType, b.Text = clean(c.MIMEType, 256), clean(c.Description, maxDescription)
		return b, nil
	case "resource":
		if c.Resource == nil {
			b.Note = "empty"
			return b, nil
		}
		b.URI, media, data = clean(c.Resource.URI, 2048), c.Resource.MIMEType, c.Resource.Blob
		if data == "" {
			b.MIMEType, b.Text = clean(media, 256), limits.Clean(c.Resource.Text)
			return b, nil
		}
	}
	b.MIMEType = clean(media, 256)
	file, why := fileOf(media, data, n)
	if file == nil {
		b.Note = why
		return b, nil
	}
	b.Note = "attached to this result"
	return b, file
}

// fileOf returns a file that models can read, or why there is none.
func fileOf(media, data string, n int) (*cairn.File, string) {
	kind, _, err := mime.ParseMediaType(media)
	most := maxFile
	if strings.HasPrefix(kind, "image/") {
		most = maxImage
	}
	switch {
	case err != nil || !strings.HasPrefix(kind, "image/") && kind != "application/pdf":
		return nil, "left out: not an image or a PDF"
	case n == maxFiles:
		return nil, "left out: too many files"
	case len(data) > base64.StdEncoding.EncodedLen(most):
		return nil, "left out: too large"
	}
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil || len(raw) == 0 {
		return nil, "left out: not base64"
	}
	// The file's content decides, not the server's type: a provider refuses a file of the wrong type with every
	// later request.
	switch kind = http.DetectContentType(raw); kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf":
		return &cairn.File{MediaType: kind, Data: raw}, ""
	}
	return nil, "left out: unsupported image format"
}
