package server

import (
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
)

// situation returns the situation of a session as the principal may see it. A reviewer who may not read the whole session
// sees the calls that it may decide.
func (c *request) situation(part *excerpt) (*cairn.Situation, error) {
	s, err := c.h.eng.Situation(c.ctx, part.row.ID)
	if err != nil {
		return nil, hidden(err, part.row.ID)
	}
	if s.Call != nil && !part.whole() && !slices.ContainsFunc(part.calls, func(p cairn.PendingCall) bool { return p.ID == s.Call.ID }) {
		s.Call = nil
	}
	root := part.row
	if root.RootID != root.ID {
		if root, err = c.h.eng.Session(c.ctx, root.RootID); err != nil {
			return nil, hidden(err, part.row.ID)
		}
	}
	return c.visible(s, root)
}

// addSituations adds the situations of the rows of a list.
func (c *request) addSituations(items []client.ListedSession, rows []cairn.Session) error {
	list, err := c.h.eng.Situations(c.ctx, rows)
	if err != nil {
		return err
	}
	var root *cairn.Session // of the last child; the children of a list have the same one
	for i := range rows {
		of := &rows[i]
		if of.RootID != of.ID {
			if root == nil || root.ID != of.RootID {
				if root, err = c.h.eng.Session(c.ctx, of.RootID); err != nil {
					return hidden(err, of.RootID)
				}
			}
			of = root
		}
		if items[i].Situation, err = c.visible(list[i], of); err != nil {
			return err
		}
	}
	return nil
}

// visible returns what the principal may see of the situation of a session in the tree of a root, with the verbs that it
// may use.
func (c *request) visible(s *cairn.Situation, root *cairn.Session) (*cairn.Situation, error) {
	if s == nil {
		return nil, nil
	}
	out := *s
	if !c.principal.seesAll() || c.tenant() != "" { // the processes of the platform are not for a tenant
		out = *s.Public()
	}
	if own := s.StoppedBy == c.principal.User; own || c.principal.seesAll() {
		out.StoppedBy = s.StoppedBy
	}
	if out.Error = s.Error; !c.wholeErrors() {
		out.Error = s.Error.Public()
	}
	out.Verbs = nil
	for _, verb := range s.Verbs {
		access := Access{Action: ActionRun, Session: root}
		switch verb {
		case cairn.VerbResume, cairn.VerbRetry, cairn.VerbStop:
		default:
			access.Action = ActionReview
			if access.Call = callOf(s.Call); access.Call == nil { // hidden from the principal
				continue
			}
		}
		ok, err := c.permits(access)
		if err != nil {
			return nil, err
		}
		if ok {
			out.Verbs = append(out.Verbs, verb)
		}
	}
	return &out, nil
}

// callOf returns the call that a brief is of, with what policies decide by.
func callOf(b *cairn.CallBrief) *cairn.PendingCall {
	if b == nil {
		return nil
	}
	return &cairn.PendingCall{CallRef: cairn.CallRef{ID: b.ID, RootID: b.RootID, SessionID: b.SessionID, Kind: b.Kind, Tool: b.Tool,
		Input: b.Input, Prompt: b.Prompt, Reviewers: b.Reviewers, Quorum: b.Quorum, Deadline: b.Deadline},
		UserID: b.UserID, Agent: b.Agent, Status: cairn.CallOpen}
}
