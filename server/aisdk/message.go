package aisdk

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
)

// Message is a message as clients hold it: what a user said, or all that a turn showed.
type Message struct {
	// ID names the message: that of a turn is the same over all its runs.
	ID string `json:"id"`
	// Role is "user" or "assistant".
	Role string `json:"role"`
	// Parts are what the message is made of, in order.
	Parts []Part `json:"parts"`
	// Metadata is that of a turn.
	Metadata *Metadata `json:"metadata,omitempty"`
}

// Metadata is what the message of a turn carries beside its parts.
type Metadata struct {
	// RunID is the run that the client has seen last. It alone is read back.
	RunID string `json:"run_id,omitempty"`
	// Status is how that run has ended, and Usage what it used and cost. While it is under way both are absent.
	Status cairn.RunStatus `json:"status,omitempty"`
	Usage  *cairn.Usage    `json:"usage,omitempty"`
}

// UnmarshalJSON reads what a client has sent back.
func (m *Metadata) UnmarshalJSON(raw []byte) error {
	var back struct {
		RunID string `json:"run_id"`
	}
	err := json.Unmarshal(raw, &back)
	*m = Metadata{RunID: back.RunID}
	return err
}

// Part is a part of a message. A tool's has the type "tool-" with the tool's name.
type Part struct {
	// Type says what the part is, as "text", "reasoning", "file" or "tool-NAME".
	Type string `json:"type"`
	// Text is that of a text or of reasoning.
	Text string `json:"text,omitempty"`
	// State is how far a call has come, or whether a text is whole.
	State string `json:"state,omitempty"`
	// MediaType, Filename and URL are a file's.
	MediaType string `json:"mediaType,omitempty"`
	Filename  string `json:"filename,omitempty"`
	URL       string `json:"url,omitempty"`
	// SourceID and Title are a source's, which has a URL or, if it is a document, a MediaType. ProviderMetadata has more of it.
	SourceID         string          `json:"sourceId,omitempty"`
	Title            string          `json:"title,omitempty"`
	ProviderMetadata json.RawMessage `json:"providerMetadata,omitempty"`
	// CallID names the call that the part shows.
	CallID string `json:"toolCallId,omitempty"`
	Tool   string `json:"toolName,omitempty"` // of a dynamic tool
	// Input is what the call is made with, Output its result, ErrorText why there is none.
	Input     json.RawMessage `json:"input,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	ErrorText string          `json:"errorText,omitempty"`
	// Approval is the decision that the call needs, if it does.
	Approval *Approval `json:"approval,omitempty"`
	// ID and Data are of a part that clients have no form for, ID and Parts of a message that joined the turn.
	ID    string          `json:"id,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
	Parts []Part          `json:"parts,omitempty"`
}

// Approval is what a part says of the decision that its call needs.
type Approval struct {
	// ID names the request; the decision has the same.
	ID string `json:"id"`
	// Approved is the decision; absent until there is one.
	Approved *bool `json:"approved,omitempty"`
	// Reason is why it was decided so.
	Reason string `json:"reason,omitempty"`
	// RequestReason and Descriptor say why it is asked for.
	RequestReason string          `json:"requestReason,omitempty"`
	Descriptor    json.RawMessage `json:"descriptor,omitempty"`
}

// User returns a message of a user's as the engine takes it. It has the client's id, so that one that is posted twice is
// known.
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
			if strings.HasPrefix(p.URL, "data:") {
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

// Answer returns what a client's message answers a pending call with, and false if it has no answer to it.
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

// Address returns the address at which a client reads the bytes of a file: the n-th of those of a message, counted from 0, which
// has the given index and id in a session.
type Address func(session string, index int, id string, n int) string

// Messages returns the transcript of a session as clients show it: list are all messages of it. pending are the calls that wait
// for an answer, runs those of the session, in their order. If a turn is under way it is left out but for what its user said: its
// stream shows it from its beginning. address is that of a file with bytes; without it they are in a "data:" URL.
func Messages(v Version, row *cairn.Session, list []cairn.Message, pending []cairn.PendingCall, runs []cairn.Run, address Address) []Message {
	h := history{version: v, session: row.ID, address: address, runs: make(map[string]ran, len(runs)), calls: map[string]place{}}
	for i := range runs {
		h.add(&runs[i])
	}
	underWay := row.Status == cairn.SessionActive
	shown := false // what is left out has begun to reply
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

// history is a transcript on its way to what clients show.
type history struct {
	version Version
	session string
	address Address
	runs    map[string]ran
	list    []Message
	calls   map[string]place
}

// ran is what a history has of a run: the first run of its turn, and what the message of the turn says once it has ended.
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

// place is where the part of a call is.
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
	if n := len(h.list); n > 0 && h.list[n-1].ID == TurnID(h.turn(m.RunID)) { // it joined the turn
		h.list[n-1].Parts = append(h.list[n-1].Parts, steering(h.version, m.ID, out.Parts))
		return
	}
	h.list = append(h.list, out)
}

// steering returns the part that shows a user's message which joined a turn. Clients before version 7 get a data part.
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

// unsafeAddress stands for an address of a model's that is not of the web, since pages show addresses as links.
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
			at = f.DataURL()
		case m.Role == cairn.RoleAssistant && !ofWeb(at):
			at = unsafeAddress
		}
		list = append(list, Part{Type: "file", MediaType: f.MediaType, Filename: f.Name, URL: at})
	}
	return list
}

// message returns the message of a turn, which is made with the first reply of the turn.
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
	text := -1 // the part of the text under way, which citations do not interrupt
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

// sources returns a message's parts with sources behind them.
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

// source returns the part, and the chunk, of the n-th source of a turn. Pages show addresses as links, so one that is not of the
// web is no address.
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

// ofWeb reports whether an address is one of the web.
func ofWeb(address string) bool {
	scheme, _, _ := strings.Cut(strings.ToLower(address), "://")
	return scheme == "https" || scheme == "http"
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

// pending shows a call that waits. One of a sub-agent is shown with the last message.
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
		body, _ := json.Marshal(asked{CallID: c.ID, ToolCallID: id, Tool: c.Tool, Prompt: c.Prompt, Payload: c.Payload}) // of JSON from the store
		m := &h.list[at.message]
		m.Parts = append(m.Parts, Part{Type: question, ID: c.ID, Data: body})
	}
}
