package server

import (
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

type effectsIn struct {
	// SessionID lists only effects of this session and of those below it.
	SessionID string `query:"session_id"`

	Tool   string `query:"tool"`
	UserID string `query:"user_id"`
	agentQuery
	// State lists the effects in one of these states: sent, unknown, confirmed or failed.
	State  []string `query:"state"`
	Limit  int      `query:"limit"`
	Cursor string   `query:"cursor"`
}

// listEffects lists rows of the ledger of effects: of the principal's own sessions, or of all for operators and
// administrators. A page may be empty although others follow.
func listEffects(c *request, in *effectsIn) (*pageBody[cairn.PendingCall], error) {
	p := paging{limit: in.Limit, cursor: in.Cursor}
	if err := p.check(); err != nil {
		return nil, err
	}
	q := engine.EffectQuery{Tool: in.Tool, UserID: in.UserID, Cursor: in.Cursor, Limit: p.limit}
	var err error
	if q.Agent, err = in.agentQuery.name(); err != nil {
		return nil, err
	}
	for _, word := range split(in.State) {
		q.States = append(q.States, cairn.EffectState(word))
	}
	var of *cairn.Session
	if in.SessionID != "" {
		if of, err = c.open(in.SessionID, ActionRead); err != nil {
			return nil, err
		}
		q.RootID = of.RootID
	} else if !c.principal.seesAll() {
		if in.UserID != "" && in.UserID != c.principal.User {
			return nil, cairn.Invalid("user_id", "may only be set by administrators and operators")
		}
		if q.UserID = c.principal.User; q.UserID == "" {
			return pageAt[cairn.PendingCall](p, nil, ""), nil
		}
	}
	page, err := c.effects(q)
	if err != nil {
		return nil, err
	}
	items := page.Items
	if of != nil {
		items = slices.DeleteFunc(items, func(call cairn.PendingCall) bool { return !c.within(of, call.SessionID) })
	}
	out := pageAt(p, items, page.Next)
	out.Offset = nil // the list has no offsets
	return out, nil
}

type settleIn struct {
	Root string `path:"root" json:"-"`
	Call string `path:"call" json:"-"`
	// Happened is whether the call took effect.
	Happened bool `json:"happened"`
	// Notes are what the trail keeps about how that was found out.
	Notes string `json:"notes,omitempty"`
	// Reviewer is who found out, on a server without authentication.
	Reviewer string `json:"reviewer,omitempty"`
}

// settleEffect records the outcome of an unknown effect for those who may decide the call.
func settleEffect(c *request, in *settleIn) (*cairn.PendingCall, error) {
	if err := c.reviewAs(&in.Reviewer); err != nil {
		return nil, err
	}
	_, call, err := c.openCall(in.Root, in.Call)
	if err != nil {
		return nil, err
	}
	return c.h.eng.SettleEffect(c.ctx, call.RootID, in.Call, engine.EffectSettlement{Happened: in.Happened, By: in.Reviewer, Notes: in.Notes})
}
