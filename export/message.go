package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

// message is a message as it is exported: in the shape of chat completions, with further fields of Cairn's.
type message struct {
	Role string `json:"role"`
	// Content is a text, or a list of parts if there is a file; null for a reply that only calls tools.
	Content any `json:"content"`
	// Reasoning is what the provider shows of the model's reasoning.
	Reasoning string     `json:"reasoning,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
	// ToolCallID and Name are the call and the tool of a result.
	ToolCallID string `json:"tool_call_id,omitempty"`
	Name       string `json:"name,omitempty"`
	// IsError and Code are set on the result of a call that failed, was denied or was not executed.
	IsError bool       `json:"is_error,omitempty"`
	Code    cairn.Code `json:"code,omitempty"`
	// EditedArguments are the arguments that a reviewer had the tool run with.
	EditedArguments json.RawMessage `json:"edited_arguments,omitempty"`
	// Artifacts are the files that the call made for the user.
	Artifacts []file `json:"artifacts,omitempty"`
	// Sources are the citations of the reply.
	Sources []cairn.Source `json:"sources,omitempty"`
	// Hidden marks context that chats do not show. SummaryFrom is the index of the first message that a summary does not
	// replace.
	Hidden      bool `json:"hidden,omitempty"`
	SummaryFrom int  `json:"summary_from,omitempty"`
	// Index is the place in the transcript. Results of one message of it have the same one.
	Index     int             `json:"index"`
	ID        string          `json:"id,omitempty"`
	RunID     string          `json:"run_id,omitempty"`
	Model     string          `json:"model,omitempty"`
	Cut       string          `json:"cut,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	CreatedAt time.Time       `json:"created_at,omitzero"`

	parts []part
}

// part is a piece of a message's content: a text or a file.
type part struct {
	text string
	file *file
}

// file is a file, with its bytes or its address unless it is left out.
type file struct {
	Name      string `json:"name,omitempty"`
	MediaType string `json:"media_type"`
	Size      int64  `json:"size"`

	url  string
	data []byte
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"` // "function"
	Function called `json:"function"`
}

type called struct {
	Name string `json:"name"`
	// Arguments is JSON as a text, as the model wrote it.
	Arguments string `json:"arguments"`
}

// exported returns the messages that a message of a transcript is exported as: one, or one for each result of a call. It
// returns none for a message that has nothing to say, or that the readers of a public export may not see.
func (x *exporter) exported(index int, m *cairn.Message) ([]message, error) {
	if x.opts.Public {
		if m.Hidden {
			return nil, nil
		}
		own := m.Public()
		m = &own
	}
	r := x.redacting()
	base := message{Role: string(m.Role), Hidden: m.Hidden, Index: index, ID: m.ID, RunID: m.RunID, Model: m.Model, Cut: string(m.Cut), Metadata: r.json(m.Metadata), CreatedAt: m.CreatedAt}
	if m.Summary != nil {
		base.SummaryFrom = m.Summary.From
	}
	if m.Role == cairn.RoleTool {
		var list []message
		for _, result := range m.ToolResults() {
			list = append(list, resultMessage(base, r, result))
		}
		return list, r.err
	}
	for i := range m.Parts {
		x.add(&base, r, &m.Parts[i])
	}
	if len(base.parts) == 0 && len(base.ToolCalls) == 0 && base.Reasoning == "" {
		return nil, r.err
	}
	base.Content = base.content()
	return []message{base}, r.err
}

// resultMessage returns the message of a result.
func resultMessage(out message, r *redacting, result *cairn.ToolResult) message {
	text := textOf(r.json(result.Output))
	out.parts, out.Content = []part{{text: text}}, text
	out.ToolCallID, out.Name, out.IsError, out.Code, out.EditedArguments = result.CallID, r.text(result.Tool), result.IsError, result.Code, r.json(result.Edited)
	for _, a := range result.Artifacts {
		out.Artifacts = append(out.Artifacts, file{Name: r.text(a.Name), MediaType: a.MediaType, Size: a.Size})
	}
	return out
}

// textOf returns a JSON value as a text: that of a text itself.
func textOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// add adds a part of a message.
func (x *exporter) add(to *message, r *redacting, p *cairn.Part) {
	switch p.Type {
	case cairn.PartText:
		to.parts = append(to.parts, part{text: r.text(p.Text)})
		for _, s := range p.Sources {
			to.Sources = append(to.Sources, cairn.Source{URL: r.text(s.URL), Title: r.text(s.Title), Quote: r.text(s.Quote)})
		}
	case cairn.PartReasoning:
		to.Reasoning += r.text(p.Text)
	case cairn.PartToolUse:
		to.ToolCalls = append(to.ToolCalls, toolCall{ID: p.ToolUse.CallID, Type: "function",
			Function: called{Name: r.text(p.ToolUse.Tool), Arguments: textOf(r.json(p.ToolUse.Input))}})
	case cairn.PartData:
		to.parts = append(to.parts, part{text: string(r.json(p.Data.Value))})
	case cairn.PartFile:
		to.parts = append(to.parts, part{file: x.file(r, p.File)})
	case cairn.PartProvider:
		for _, s := range p.Sources {
			to.Sources = append(to.Sources, cairn.Source{URL: r.text(s.URL), Title: r.text(s.Title), Quote: r.text(s.Quote)})
		}
	}
}

// file returns a file, without its bytes if there are too many.
func (x *exporter) file(r *redacting, f *cairn.File) *file {
	out := &file{Name: r.text(f.Name), MediaType: f.MediaType, Size: int64(len(f.Data))}
	if cairn.IsDataURL(f.URL) {
		if own, err := cairn.FileFromDataURL(f.Name, f.URL); err == nil {
			f, out.Size = &own, int64(len(own.Data))
		}
	}
	switch {
	case len(f.Data) == 0 && !cairn.IsDataURL(f.URL):
		out.url = r.text(f.URL)
	case r.redact == nil && len(f.Data) <= min(x.opts.MaxFile, x.files):
		x.files -= len(f.Data)
		out.data = f.Data
	}
	return out
}

// note describes a file that is not included.
func (f *file) note() string {
	return fmt.Sprintf("[%s, %s, %d bytes, is not part of this export]", cmp.Or(f.Name, "a file"), f.MediaType, f.Size)
}

// contentPart is a part of a content that has files.
type contentPart struct {
	Type     string      `json:"type"` // "text", "image_url" or "file"
	Text     string      `json:"text,omitempty"`
	ImageURL *imageURL   `json:"image_url,omitempty"`
	File     *namedBytes `json:"file,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

type namedBytes struct {
	Filename string `json:"filename,omitempty"`
	FileData string `json:"file_data,omitempty"`
	FileURL  string `json:"file_url,omitempty"`
}

// content returns the content of a message: a text if it has no files.
func (m *message) content() any {
	var texts strings.Builder
	files := false
	for _, p := range m.parts {
		texts.WriteString(p.text)
		files = files || p.file != nil
	}
	switch {
	case len(m.parts) == 0:
		return nil
	case !files:
		return texts.String()
	}
	var list []contentPart
	for _, p := range m.parts {
		f := p.file
		switch {
		case f == nil:
			list = append(list, contentPart{Type: "text", Text: p.text})
		case f.data == nil && f.url == "":
			list = append(list, contentPart{Type: "text", Text: f.note()})
		default:
			list = append(list, f.part())
		}
	}
	return list
}

// part returns a file as a part of a content.
func (f *file) part() contentPart {
	address := f.url
	if f.data != nil {
		address = (&cairn.File{MediaType: f.MediaType, Data: f.data}).DataURL()
	}
	switch {
	case strings.HasPrefix(f.MediaType, "image/"):
		return contentPart{Type: "image_url", ImageURL: &imageURL{address}}
	case f.data != nil:
		return contentPart{Type: "file", File: &namedBytes{Filename: f.Name, FileData: address}}
	}
	return contentPart{Type: "file", File: &namedBytes{Filename: f.Name, FileURL: address}}
}
