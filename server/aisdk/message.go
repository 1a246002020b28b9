package aisdk

import (
	"bytes"
	"cmp"
	"encoding/json"
	"mime"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/wire"
)

// Message is a message as clients hold it: a user's message, or everything that a turn showed.
type Message struct {
	// ID is the id of the message. The id of a turn's message stays the same across the turn's runs.
	ID string `json:"id"`
	// Role is "user" or "assistant".
	Role string `json:"role"`
	// Parts are the parts of the message, in order.
	Parts []Part `json:"parts"`
	// Metadata describes the run of a turn. For a user's message it is the page's own.
	Metadata *Metadata `json:"metadata,omitempty"`
}

// Metadata is the data of a message besides its parts: the server's data about a turn, or the data that a page sent
// with a user's message.
type Metadata struct {
	// RunID is the last run that the client has seen. It is all that is read when a client sends metadata back.
	RunID string `json:"run_id,omitempty"`
	// Status is the outcome of that run, and Usage its usage and cost. Both are absent while it is under way.
	Status cairn.RunStatus `json:"status,omitempty"`
	Usage  *cairn.Usage    `json:"usage,omitempty"`
	// Sent is the metadata as a client has sent it. For a user's message it is kept, and is all of the metadata.
	Sent json.RawMessage `json:"-"`
}

// UnmarshalJSON reads the metadata that a client sends. It may be any JSON.
func (m *Metadata) UnmarshalJSON(raw []byte) error {
	var back struct {
		RunID string `json:"run_id"`
	}
	_ = json.Unmarshal(raw, &back) // a page's own metadata need not have a run
	*m = Metadata{RunID: back.RunID, Sent: slices.Clone(raw)}
	return nil
}

// MarshalJSON writes the metadata: Sent, if it is set.
func (m Metadata) MarshalJSON() ([]byte, error) {
	if len(m.Sent) > 0 {
		return m.Sent, nil
	}
	type plain Metadata
	return json.Marshal(plain(m))
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

// dataPrefix begins the types of data parts.
const dataPrefix = "data-"

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
		default:
			if name, ok := strings.CutPrefix(p.Type, dataPrefix); ok && name != "" {
				parts = append(parts, cairn.DataPart(cairn.Data{Name: name, ID: p.ID, Value: orNull(p.Data)}))
			}
		}
	}
	if len(parts) == 0 {
		return cairn.Message{}, cairn.Invalid("messages", "the last one must have text, a file or data")
	}
	out := cairn.User(parts...)
	out.ID = m.ID
	if m.Metadata == nil {
		return out, nil
	}
	if out.Metadata = m.Metadata.Sent; !bytes.HasPrefix(bytes.TrimSpace(out.Metadata), []byte("{")) {
		return cairn.Message{}, cairn.Invalid("messages", "metadata of the last one must be an object")
	}
	return out, nil
}

// OfAnotherTurn reports whether the message shows another turn than the turn of a first run.
func (m *Message) OfAnotherTurn(firstRun string) bool {
	return strings.HasPrefix(m.ID, TurnID("")) && m.ID != TurnID(firstRun)
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
				s := cairn.Approve(call)
				s.Reason = p.Approval.Reason
				return s, true
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

// Messages returns messages of a session as clients show them. list has consecutive messages of the session, and after
// is the run of the message behind them; it is empty if there is none. pending are the open calls of the session's
// tree, decided its calls that reviewers decided, and runs the runs of the messages, in order. If a turn is under way,
// only its user's messages are included: its stream shows the rest from the beginning. address makes the addresses of
// files with bytes; nil means "data:" URLs.
func Messages(v Version, row *cairn.Session, list []cairn.Message, after string, pending, decided []cairn.PendingCall, runs []cairn.Run, address Address) []Message {
	h := history{version: v, session: row.ID, address: address, runs: make(map[string]ran, len(runs)), last: map[string]*cairn.Run{},
		calls: map[string]place{}, decided: map[string]*cairn.PendingCall{}}
	for i := range runs {
		h.add(&runs[i])
	}
	for i := range decided {
		h.decided[decided[i].ID] = &decided[i]
	}
	underWay := row.Status == cairn.SessionActive
	shown := false // the turn that is left out has begun to reply
	turn := ""     // of the message before
	for i := range list {
		if list[i].Hidden {
			continue
		}
		m := list[i].Public()
		left := underWay && h.turn(m.RunID) == h.turn(row.RunID)
		if next := h.turn(m.RunID); next != turn {
			h.end(turn)
			turn = next
		}
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
			h.artifacts(i, &m)
		}
	}
	if h.turn(after) != turn && !(underWay && turn == h.turn(row.RunID)) {
		h.end(turn)
	}
	if !underWay {
		for i := range decided {
			h.waiting(&decided[i])
		}
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
	last    map[string]*cairn.Run // last run of each turn
	list    []Message
	calls   map[string]place
	decided map[string]*cairn.PendingCall
	said    string // text of the last reply
	saidBy  string // its run
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
		one.meta.Status, one.meta.Usage = wire.RunStatus(r.Status, r.Reason), &r.Usage
	}
	h.runs[r.ID], h.last[one.turn] = one, r
}

// end completes the message of a turn with what its last run left outside of the transcript: the words of a model call
// that failed, and the typed output. A turn that ended before the model said anything has a message as well.
func (h *history) end(turn string) {
	run := h.last[turn]
	if run == nil || run.Status == cairn.RunRunning {
		return
	}
	m := h.message(run.ID)
	m.Metadata = h.metadata(run.ID)
	said := ""
	if h.saidBy == run.ID {
		said = h.said
	}
	if text := unfinished(run, said); text != "" {
		m.Parts = append(m.Parts, Part{Type: "step-start"}, Part{Type: "text", Text: text, State: "done"})
	}
	if len(run.Output) > 0 {
		m.Parts = append(m.Parts, Part{Type: dataPrefix + "output", ID: "output", Data: run.Output})
	}
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
	if len(m.Metadata) > 0 {
		out.Metadata = &Metadata{Sent: m.Metadata}
	}
	files := h.files(index, m)
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Type {
		case cairn.PartText:
			out.Parts = append(out.Parts, Part{Type: "text", Text: p.Text})
		case cairn.PartFile:
			out.Parts = append(out.Parts, files[0])
			files = files[1:]
		case cairn.PartData:
			out.Parts = append(out.Parts, Part{Type: dataPrefix + p.Data.Name, ID: p.Data.ID, Data: p.Data.Value})
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
	if v >= V7 { // which shows text and files
		parts = slices.DeleteFunc(slices.Clone(parts), func(p Part) bool { return strings.HasPrefix(p.Type, dataPrefix) })
		return Part{Type: "steering-message", ID: id, Parts: parts}
	}
	body, err := json.Marshal(map[string][]Part{"parts": parts})
	if err != nil { // of JSON from the log or the store
		panic("aisdk: " + err.Error())
	}
	return Part{Type: "data-steering", ID: id, Data: body}
}

// artifacts shows the artifacts of results, which have addresses only.
func (h *history) artifacts(index int, m *cairn.Message) {
	if h.address == nil {
		return
	}
	for _, a := range m.Artifacts(index) {
		if a.Size == 0 { // as in a live stream
			continue
		}
		out := h.message(m.RunID)
		out.Parts = append(out.Parts, Part{Type: "file", MediaType: a.MediaType, Filename: a.Name, URL: h.address(h.session, index, m.ID, a.File)})
	}
}

// unsafeAddress replaces the address of a file that is not a web address, be it from a model or from a user whose
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
	h.said, h.saidBy = m.Text(), m.RunID
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
	for _, d := range r.Data {
		h.emitted(&h.list[at.message], d)
	}
	p := &h.list[at.message].Parts[at.part]
	if len(r.Edited) > 0 {
		p.Input = r.Edited
	}
	by := h.decided[r.CallID]
	if by != nil && h.version >= V6 {
		p.Approval = decision(by)
	}
	switch {
	case by != nil && r.Code == cairn.ErrDenied && h.version >= V6:
		p.State = "output-denied"
		return
	case r.IsError:
		p.State, p.ErrorText = "output-error", words(r.Output)
		return
	}
	p.State, p.Output = "output-available", orNull(r.Output)
}

// emitted shows what a tool emitted, in place of what it emitted before with the same id.
func (h *history) emitted(m *Message, d cairn.Data) {
	part := Part{Type: dataPrefix + dataName(d.Name), ID: d.ID, Data: orNull(d.Value)}
	i := slices.IndexFunc(m.Parts, func(p Part) bool { return d.ID != "" && p.Type == part.Type && p.ID == part.ID })
	if i < 0 {
		m.Parts = append(m.Parts, part)
		return
	}
	m.Parts[i] = part
}

// decision returns the approval of a call that a reviewer decided.
func decision(c *cairn.PendingCall) *Approval {
	approved := c.Answer.Kind == cairn.DecisionApproved
	return &Approval{ID: c.ApprovalID, Approved: &approved, Reason: c.Answer.Text, RequestReason: c.Prompt, Descriptor: c.Payload}
}

// waiting shows a call that a reviewer decided and whose step waits for other calls.
func (h *history) waiting(c *cairn.PendingCall) {
	at, ok := h.calls[c.ID]
	if !ok || h.version < V6 || c.Status != cairn.CallAnswered {
		return
	}
	p := &h.list[at.message].Parts[at.part]
	if p.State, p.Approval = "approval-responded", decision(c); len(c.Answer.Value) > 0 {
		p.Input = c.Answer.Value
	}
}

// pending shows a pending call. A call of a sub-agent is shown with the last message.
func (h *history) pending(c *cairn.PendingCall) {
	id := c.ID
	if c.Kind == cairn.CallBudget { // no tool was called
		if n := len(h.list); n > 0 {
			h.ask(place{message: n - 1}, question, &asked{CallID: c.ID, ToolCallID: c.ID, Tool: c.Tool, Prompt: c.Prompt, Payload: c.Payload})
		}
		return
	}
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
		if h.version < V6 {
			h.ask(at, approval, &asked{CallID: c.ID, ToolCallID: id, Tool: c.Tool, ApprovalID: c.ApprovalID, Prompt: c.Prompt, Payload: c.Payload})
			return
		}
		p := &h.list[at.message].Parts[at.part]
		p.State = "approval-requested"
		p.Approval = &Approval{ID: c.ApprovalID, RequestReason: c.Prompt, Descriptor: c.Payload}
	case cairn.CallQuestion, cairn.CallConnect, cairn.CallEffect:
		h.ask(at, question, &asked{CallID: c.ID, ToolCallID: id, Tool: c.Tool, Prompt: c.Prompt, Payload: c.Payload})
	}
}

// ask adds a part that asks the user something.
func (h *history) ask(at place, kind string, a *asked) {
	body, _ := json.Marshal(a) // JSON from the store
	m := &h.list[at.message]
	m.Parts = append(m.Parts, Part{Type: kind, ID: a.CallID, Data: body})
}
