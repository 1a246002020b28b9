package provider

import (
	"errors"
	"slices"

	"github.com/cairn-agents/cairn"
)

// attaches reports whether a message has files of a call's result.
func attaches(m cairn.Message) bool { return m.CallID != "" && m.Role == cairn.RoleUser }

// Attached returns a history without the files that are sent in the results of the calls that they belong to, and these
// files by the calls' ids. fits reports whether the API accepts a file in a result. The result must be one that still
// follows its call: that of a call of the last reply before the message. All other files stay where they are.
func (e *Endpoint) Attached(history []cairn.Message, fits func(*cairn.ToolResult, *cairn.File) bool) ([]cairn.Message, map[string][]*cairn.File) {
	if e.behind.Load() || !slices.ContainsFunc(history, attaches) {
		return history, nil
	}
	rest, files := make([]cairn.Message, 0, len(history)), map[string][]*cairn.File{}
	results := map[string]*cairn.ToolResult{} // of the last reply
	for i := range history {
		m := history[i]
		if m.Role == cairn.RoleAssistant {
			clear(results)
		}
		for _, r := range m.ToolResults() {
			results[r.CallID] = r
		}
		r := results[m.CallID]
		if r == nil || !attaches(m) {
			rest = append(rest, m)
			continue
		}
		var left []cairn.Part
		others := false
		for _, p := range m.Parts {
			if p.File != nil && fits(r, p.File) {
				files[r.CallID] = append(files[r.CallID], p.File)
				continue
			}
			others = others || len(left) > 0 || p.Type != cairn.PartText
			left = append(left, p)
		}
		if m.Parts = left; others { // more than the text that names the call
			rest = append(rest, m)
		}
	}
	return rest, files
}

// attaching returns ask for a server that may refuse files in results, which the API of its provider accepts. If it
// refuses a request with them as malformed before the reply begins, ask is called again with the files in messages of
// their own. If that succeeds, later requests are made that way at once.
func (e *Endpoint) attaching(ask func(*cairn.Request, Emit) error) func(*cairn.Request, Emit) error {
	return func(req *cairn.Request, emit Emit) error {
		if e.behind.Load() || !slices.ContainsFunc(req.Messages, attaches) {
			return ask(req, emit)
		}
		begun := false
		watched := func(c cairn.Chunk) error {
			begun = true
			return emit(c)
		}
		err := ask(req, watched)
		if why, ok := errors.AsType[*cairn.Error](err); !ok || begun || why.Code != cairn.ErrModelRequest {
			return err
		}
		if err = ask(behind(req), watched); begun {
			e.behind.Store(true)
		}
		return err
	}
}

// behind returns a request whose files of results are in messages of their own.
func behind(req *cairn.Request) *cairn.Request {
	out := *req
	out.Messages = slices.Clone(req.Messages)
	for i := range out.Messages {
		out.Messages[i].CallID = ""
	}
	return &out
}
