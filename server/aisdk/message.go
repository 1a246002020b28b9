package aisdk

import (
	"cmp"
	"encoding/json"
	"mime"
	"strconv"
	"strings"
	"unicode"

	"github.com/cairn-agents/cairn"
)

// Message is a message as clients hold it: what a user said, or everything that a turn showed.
type Message struct {
	// ID is the id of the message. That of a turn stays the same across its runs.
	ID string `json:"id"`
	// Role is "user" or "assistant".
	Role string `json:"role"`
	// Parts are the parts of the message, in order.
	Parts []Part `json:"parts"`
	// Metadata describes the run of a turn; absent for a user's message.
	Metadata *Metadata `json:"metadata,omitempty"`
}

// Metadata is what the message of a turn carries in addition to its parts.
type Metadata struct {
	// RunID is the last run that the client has seen. It is all that is read when a client sends metadata back.
	RunID string `json:"run_id,omitempty"`
	// Status is how that run has ended, and Usage what it used and cost. Both are absent while it is under way.
	Status cairn.RunStatus `json:"status,omitempty"`
	Usage  *cairn.Usage    `json:"usage,omitempty"`
}

// UnmarshalJSON reads the metadata that a client sends back.
func (m *Metadata) UnmarshalJSON(raw []byte) error {
	var back struct {
		RunID string `json:"run_id"`
	}
	err := json.Unmarshal(raw, &back)
	*m = Metadata{RunID: back.RunID}
	return err
}

// Part is a part of a message. The part of a tool call has the type "tool-" with the tool's name.
type Part struct {
	// Type is the kind of part, such as "text", "reasoning", "file" or "tool-NAME".
	Type string `json:"type"`
	// Text is the content of a text or of reasoning.
	Text string `json:"text,omitempty"`
	// State is the progress of a call, or whether a text is complete.
	State string `json:"state,omitempty"`
	// MediaType, Filename and URL describe a file.
	MediaType string `json:"mediaType,omitempty"`
	Filename  string `json:"filename,omitempty"`
	URL       string `json:"url,omitempty"`
	// SourceID and Title describe a source, which has a URL or, if it is a document, a MediaType. ProviderMetadata
	// has its details.
	SourceID         string          `json:"sourceId,omitempty"`
	Title            string          `json:"title,omitempty"`
	ProviderMetadata json.RawMessage `json:"providerMetadata,omitempty"`
	// CallID is the id of the call that the part shows.
	CallID string `json:"toolCallId,omitempty"`
	Tool   string `json:"toolName,omitempty"` // name of a dynamic tool
	// Input is the input of the call, Output its result, ErrorText the reason why there is none.
	Input     json.RawMessage `json:"input,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	ErrorText string          `json:"errorText,omitempty"`
	// Approval is the decision that the call needs, if any.
	Approval *Approval `json:"approval,omitempty"`
	// ID and Data belong to a data part, ID and Parts to a message that joined the turn.
	ID    string          `json:"id,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
	Parts []Part          `json:"parts,omitempty"`
}

// Approval is the decision that a call needs, as its part shows it.
type Approval struct {
	// ID is the id of the request. The decision has the same.
	ID string `json:"id"`
	// Approved is the decision; absent until there is one.
	Approved *bool `json:"approved,omitempty"`
	// Reason is the reason for the decision.
	Reason string `json:"reason,omitempty"`
	// RequestReason and Descriptor explain why a decision is needed.
	RequestReason string          `json:"requestReason,omitempty"`
	Descriptor    json.RawMessage `json:"descriptor,omitempty"`
}

// User returns a user's message in the engine's form. It keeps the client's id, so that a message posted twice is
// recognized.
func (m *Message) User() (cairn.Message, error) {
	var parts []cairn.Part
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Type {
		case "text":
			if p.Text != "" {
				parts = append(parts, cairn.TextPart(p.Text))
			}
		case "file":
			file := cairn.File{Name: p.Filename, MediaType: p.MediaType, URL: p.URL}
			if cairn.IsDataURL(p.URL) {
				var err error
				if file, err = cairn.FileFromDataURL(p.Filename, p.URL); err != nil {
					return cairn.Message{}, err
				}
			}
			parts = append(parts, cairn.FilePart(file))
		}
	}
	if len(parts) == 0 {
		return cairn.Message{}, cairn.Invalid("messages", "the last one has neither text nor files")
	}
	out := cairn.User(parts...)
	out.ID = m.ID
	return out, nil
}

// Answer returns a client's answer to a pending call, or false if the message has none.
func (m *Message) Answer(call cairn.CallRef) (cairn.Submission, bool) {
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.CallID != call.ID {
			continue
		}
		switch {
		case call.Kind == cairn.CallApproval && p.Approval != nil && p.Approval.Approved != nil && p.Approval.ID == call.ApprovalID:
			if *p.Approval.Approved {
				return cairn.Approve(call), true
			}
			return cairn.Deny(call, p.Approval.Reason), true
		case call.Kind == cairn.CallClientTool && p.State == "output-available":
			return cairn.Answer(call, orNull(p.Output)), true
		case call.Kind == cairn.CallClientTool && p.State == "output-error":
			return cairn.AnswerError(call, p.ErrorText), true
		}
	}
	return cairn.Submission{}, false
}

// Address returns the address at which a client reads the bytes of a file: the n-th file of a message, counted from
// 0. The message has the given index and id in a session.
type Address func(session string, index int, id string, n int) string

// Messages returns the transcript of a session as clients show it. list has all messages of the session, pending
// its open calls, and runs its runs in order. If a turn is under way, only what its user said is included: its
// stream shows the rest from the beginning. address makes the addresses of files with bytes; nil means "data:"
// URLs.
func Messages(v Version, row *cairn.Session, list []cairn.Message, pending []cairn.PendingCall, runs []cairn.Run, address Address) []Message {
	h := history{version: v, session: row.ID, address: address, runs: make(map[string]ran, len(runs)), calls: map[string]place{}}
	for i := range runs {
		h.add(&runs[i])
	}
	underWay := row.Status == cairn.SessionActive
	shown := false // the turn that is left out has begun to reply
	for i := range list {
		if list[i].Hidden {
			continue
		}
		m := list[i].Public()
		left := underWay && h.turn(m.RunID) == h.turn(row.RunID)
		switch {
		case left && (shown || m.Role != cairn.RoleUser):
			shown = true
		case m.Role == cairn.RoleUser:
			h.user(i, &m)
		case m.Role == cairn.RoleAssistant:
			h.assistant(i, &m)
		case m.Role == cairn.RoleTool:
			for _, r := range m.ToolResults() {
				h.result(m.RunID, r)
			}
		}
	}
	if !underWay {
		for i := range pending {
			h.pending(&pending[i])
		}
	}
	return h.list
}

// history converts a transcript into what clients show.
type history struct {
	version Version
	session string
	address Address
	runs    map[string]ran
	list    []Message
	calls   map[string]place
}

// ran describes a run: the first run of its turn, and the metadata that the message of the turn gets from it.
type ran struct {
	turn string
	meta *Metadata
}

func (h *history) add(r *cairn.Run) {
	one := ran{turn: r.ID, meta: &Metadata{RunID: r.ID}}
	if before, ok := h.runs[r.PreviousRunID]; ok {
		one.turn = before.turn
	}
	if r.Status != cairn.RunRunning {
		one.meta.Status, one.meta.Usage = r.Status, &r.Usage
	}
	h.runs[r.ID] = one
}

func (h *history) metadata(runID string) *Metadata {
	if one, ok := h.runs[runID]; ok {
		return one.meta
	}
	return &Metadata{RunID: runID}
}

// place is the position of the part of a call.
type place struct{ message, part int }

// turn returns the first run of the turn of a run.
func (h *history) turn(runID string) string {
	if one, ok := h.runs[runID]; ok {
		return one.turn
	}
	return runID
}

func (h *history) user(index int, m *cairn.Message) {
	out := Message{ID: m.ID, Role: "user", Parts: []Part{}}
	files := h.files(index, m)
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Type {
		case cairn.PartText:
			out.Parts = append(out.Parts, Part{Type: "text", Text: p.Text})
		case cairn.PartFile:
			out.Parts = append(out.Parts, files[0])
			files = files[1:]
		}
	}
	if n := len(h.list); n > 0 && h.list[n-1].ID == TurnID(h.turn(m.RunID)) { // the message joined the turn
		h.list[n-1].Parts = append(h.list[n-1].Parts, steering(h.version, m.ID, out.Parts))
		return
	}
	h.list = append(h.list, out)
}

// steering returns the part that shows a user's message that joined a turn. Clients before version 7 get a data
// part.
func steering(v Version, id string, parts []Part) Part {
	if v >= V7 {
		return Part{Type: "steering-message", ID: id, Parts: parts}
	}
	body, err := json.Marshal(map[string][]Part{"parts": parts})
	if err != nil { // of JSON from the log or the store
		panic("aisdk: " + err.Error())
	}
	return Part{Type: "data-steering", ID: id, Data: body}
}

// unsafeAddress replaces the address of a file that is not a web address, whoever named it: a model, or a user whose
// conversation others read. Pages show addresses as links and images.
const unsafeAddress = "about:blank"

// files returns the parts that show the files of a message, in their order.
func (h *history) files(index int, m *cairn.Message) (list []Part) {
	for i := range m.Parts {
		f := m.Parts[i].File
		if f == nil {
			continue
		}
		at := f.URL
		switch {
		case at == "" && h.address != nil:
			at = h.address(h.session, index, m.ID, len(list))
		case at == "":
			at = dataURL(f)
		case !ofWeb(at):
			at = unsafeAddress
		}
		list = append(list, Part{Type: "file", MediaType: f.MediaType, Filename: f.Name, URL: at})
	}
	return list
}

// dataURL returns the bytes of a file as an address. A file whose type may contain code is of no type there, so that a
// browser downloads it.
func dataURL(f *cairn.File) string {
	kind, _, err := mime.ParseMediaType(f.MediaType)
	family, _, _ := strings.Cut(kind, "/")
	if err != nil || kind != "application/pdf" && kind != "text/plain" && kind != "text/csv" &&
		(family != "image" && family != "audio" && family != "video" || kind == "image/svg+xml") {
		kind = "application/octet-stream"
	}
	return (&cairn.File{MediaType: kind, Data: f.Data}).DataURL()
}

// message returns the message of a turn. The first reply of the turn creates it.
func (h *history) message(runID string) *Message {
	id := TurnID(h.turn(runID))
	if n := len(h.list); n > 0 && h.list[n-1].ID == id {
		return &h.list[n-1]
	}
	h.list = append(h.list, Message{ID: id, Role: "assistant", Parts: []Part{}})
	return &h.list[len(h.list)-1]
}

func (h *history) assistant(index int, m *cairn.Message) {
	out := h.message(m.RunID)
	files := h.files(index, m)
	out.Metadata = h.metadata(m.RunID)
	out.Parts = append(out.Parts, Part{Type: "step-start"})
	text := -1 // index of the text under way, which citations do not interrupt
	for i := range m.Parts {
		if t := m.Parts[i].Type; t != cairn.PartText && t != cairn.PartProvider {
			text = -1
		}
		switch p := &m.Parts[i]; p.Type {
		case cairn.PartText:
			if text < 0 {
				text = len(out.Parts)
				out.Parts = append(out.Parts, Part{Type: "text", State: "done"})
			}
			out.Parts[text].Text += p.Text
			out.Parts = h.sources(out, p.Sources)
		case cairn.PartProvider:
			out.Parts = h.sources(out, p.Sources)
		case cairn.PartReasoning:
			out.Parts = append(out.Parts, Part{Type: "reasoning", Text: p.Text, State: "done"})
		case cairn.PartFile:
			out.Parts = append(out.Parts, files[0])
			files = files[1:]
		case cairn.PartToolUse:
			if p.ToolUse.Tool == cairn.FinishTool {
				continue
			}
			h.calls[p.ToolUse.CallID] = place{len(h.list) - 1, len(out.Parts)}
			out.Parts = append(out.Parts, Part{Type: "tool-" + p.ToolUse.Tool, CallID: p.ToolUse.CallID, State: "input-available", Input: orNull(p.ToolUse.Input)})
		}
	}
}

// sources returns the parts of a message, followed by parts for sources.
func (h *history) sources(m *Message, list []cairn.Source) []Part {
	n := 0
	for i := range m.Parts {
		if m.Parts[i].SourceID != "" {
			n++
		}
	}
	parts := m.Parts
	for i := range list {
		parts = append(parts, source(n+i+1, &list[i]))
	}
	return parts
}

// source returns the part, and the chunk, of the n-th source of a turn. Pages show addresses as links, so a source
// that has no web address becomes a document without one.
func source(n int, s *cairn.Source) Part {
	p := Part{Type: "source-url", SourceID: "source-" + strconv.Itoa(n), URL: s.URL, Title: s.Title}
	if !ofWeb(s.URL) {
		p.Type, p.URL, p.MediaType, p.Title = "source-document", "", "text/plain", cmp.Or(s.Title, s.URL, "Document")
	}
	if s.Quote != "" {
		p.ProviderMetadata, _ = json.Marshal(map[string]any{"cairn": map[string]string{"quote": s.Quote}}) // strings encode
	}
	return p
}

// ofWeb reports whether an address is a web address.
func ofWeb(address string) bool {
	scheme, rest, _ := strings.Cut(address, "://")
	return rest != "" && (strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http")) && !strings.ContainsFunc(address, unicode.IsControl)
}

func (h *history) result(runID string, r *cairn.ToolResult) {
	at, ok := h.calls[r.CallID]
	if !ok {
		return
	}
	h.list[at.message].Metadata = h.metadata(runID)
	p := &h.list[at.message].Parts[at.part]
	if r.IsError {
		p.State, p.ErrorText = "output-error", words(r.Output)
		return
	}
	p.State, p.Output = "output-available", orNull(r.Output)
}

// pending shows a pending call. A call of a sub-agent is shown with the last message.
func (h *history) pending(c *cairn.PendingCall) {
	id := c.ID
	if c.Kind.Asked() {
		id = c.ToolCallID
	}
	at, ok := h.calls[id]
	if !ok {
		if len(h.list) == 0 {
			return
		}
		last := &h.list[len(h.list)-1]
		at = place{len(h.list) - 1, len(last.Parts)}
		last.Parts = append(last.Parts, Part{Type: "tool-" + c.Tool, CallID: id, State: "input-available", Input: orNull(c.Input)})
		h.calls[id] = at
	}
	switch c.Kind {
	case cairn.CallApproval:
		p := &h.list[at.message].Parts[at.part]
		p.State = "approval-requested"
		p.Approval = &Approval{ID: c.ApprovalID, RequestReason: c.Prompt, Descriptor: c.Payload}
	case cairn.CallQuestion, cairn.CallConnect:
		body, _ := json.Marshal(asked{CallID: c.ID, ToolCallID: id, Tool: c.Tool, Prompt: c.Prompt, Payload: c.Payload}) // JSON from the store
		m := &h.list[at.message]
		m.Parts = append(m.Parts, Part{Type: question, ID: c.ID, Data: body})
	}
}
