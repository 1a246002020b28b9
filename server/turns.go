package server

import (
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
)

const (
	// outlined is the number of messages from which on one outline ends, and partSize that from which on a turn is divided.
	outlined, partSize = 2000, 40
	// maxSearch is the maximum length of a searched text in bytes.
	maxSearch = 500
)

// turnsIn selects a part of a transcript.
type turnsIn struct {
	ID string `path:"id"`
	// From is the index of the first message.
	From int `query:"from"`
	// To is the index behind the last message; 0 means the end of the transcript.
	To int `query:"to"`
	// Search is a text that is counted in what a chat shows, in upper or lower case; at most 500 bytes.
	Search string `query:"search"`
	// MessageID is the id of a message that is counted instead.
	MessageID string `query:"message_id"`
}

// turnsBody is an outline of a part of a transcript.
type turnsBody struct {
	// Items are the turns, oldest first. A long turn has several.
	Items []turnPart `json:"items"`
	// Next is the index at which the next outline begins; 0 after the last one. HasMore reports whether there is one.
	Next    int  `json:"next,omitempty"`
	HasMore bool `json:"has_more"`
}

// turnPart is a turn, or a part of a long turn.
type turnPart struct {
	// Index is the index of its first message that a chat shows.
	Index int `json:"index"`
	// MessageID is the id of that message.
	MessageID string `json:"message_id"`
	// RunID is the first run of the turn.
	RunID string `json:"run_id,omitempty"`
	// Continues reports whether messages before it belong to the turn as well.
	Continues bool `json:"continues,omitempty"`
	// Places is how many texts, calls, results and files of it have the searched text.
	Places int `json:"places,omitempty"`
}

// listTurns outlines a transcript, so that a client reads only the messages that it shows.
func listTurns(c *request, in *turnsIn) (*turnsBody, error) {
	switch {
	case in.From < 0:
		return nil, cairn.Invalid("from", "is negative")
	case in.To < 0:
		return nil, cairn.Invalid("to", "is negative")
	case len(in.Search) > maxSearch:
		return nil, tooMuch("search", "must have at most %d bytes", maxSearch)
	case in.Search != "" && in.MessageID != "":
		return nil, cairn.Invalid("message_id", "cannot be combined with search")
	}
	row, err := c.open(in.ID, ActionRead)
	if err != nil {
		return nil, err
	}
	end := row.MessageCount
	if in.To > 0 {
		end = min(end, in.To)
	}
	o := outline{c: c, runs: &runReader{c: c, session: row.ID, before: map[string]string{}}, text: strings.ToLower(in.Search), message: in.MessageID}
	if row.Kind == cairn.ChildReplaced { // its messages are of its parent's runs
		o.runs.session = row.ParentID
	}
	at := max(0, in.From-1) // the message before, for its turn
	for m, err := range c.messages(row, at, end) {
		if err != nil {
			return nil, err
		}
		if at >= in.From+outlined && m.Role != cairn.RoleTool {
			o.Next, o.HasMore = at, true
			break
		}
		if err := o.add(m, at, at < in.From); err != nil {
			return nil, err
		}
		at++
	}
	return &o.turnsBody, nil
}

// outline is an outline that grows by messages.
type outline struct {
	turnsBody
	c             *request
	runs          *runReader
	text, message string // the text or the message that is counted
	turn          string // the turn of the last message
	begun         bool   // whether there was one
}

// add adds the message with an index. A message before the outline only has a turn.
func (o *outline) add(m *cairn.Message, at int, before bool) error {
	if m.Hidden && !before {
		return nil
	}
	turn, err := o.runs.turn(m.RunID)
	if err != nil {
		return err
	}
	same := o.begun && turn == o.turn
	o.turn, o.begun = turn, true
	if before {
		return nil
	}
	last := len(o.Items) - 1
	if last < 0 || m.Role != cairn.RoleTool && (!same || at >= o.Items[last].Index+partSize) { // a result belongs to its call
		o.Items = append(o.Items, turnPart{Index: at, MessageID: m.ID, RunID: turn, Continues: same})
		last++
	}
	if o.message != "" && m.ID == o.message {
		o.Items[last].Places++
	}
	if o.text != "" {
		o.Items[last].Places += o.places(m)
	}
	return nil
}

// places returns how many parts of a message have the text, of what the principal is shown of them.
func (o *outline) places(m *cairn.Message) (n int) {
	for _, show := range o.c.shown([]cairn.Message{*m}) {
		for i := range show.Parts {
			p := &show.Parts[i]
			texts := []string{p.Text}
			if p.ToolUse != nil {
				texts = append(texts, p.ToolUse.Tool, string(p.ToolUse.Input))
			}
			if p.Result != nil {
				texts = append(texts, string(p.Result.Output))
			}
			if p.File != nil {
				texts = append(texts, p.File.Name)
			}
			if slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(strings.ToLower(s), o.text) }) {
				n++
			}
		}
	}
	return n
}
