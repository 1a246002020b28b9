package client

import (
	"context"
	"net/url"

	"github.com/cairn-agents/cairn"
)

// EffectQuery selects rows of the ledger of effects. The zero value means all that the client may see.
type EffectQuery struct {
	RootID string
	Tool   string
	UserID string
	Agent  string
	// States selects effects by state; nil means all.
	States []cairn.EffectState
	Limit  int // page size, at most 100; 0 means 20
	Cursor string
}

// Effects lists the calls of effectful tools, see [cairn.Effectful]. A page may have no items although it has a Next: then
// more follow after it.
func (c *Client) Effects(ctx context.Context, q EffectQuery) (*cairn.Page[cairn.PendingCall], error) {
	query := page(q.Limit, q.Cursor)
	set(query, "session_id", q.RootID)
	set(query, "tool", q.Tool)
	set(query, "agent", q.Agent)
	set(query, "user_id", q.UserID)
	for _, s := range q.States {
		query.Add("state", string(s))
	}
	return out[cairn.Page[cairn.PendingCall]](c, ctx, "GET", "/effects", query, nil)
}

// SettleEffect records whether an unknown effect happened, and how that was found out. reviewer is for servers without
// authentication. It returns the row. The error is ErrInvalid for an effect whose outcome
// is known to be another one, or that is in progress.
func (c *Client) SettleEffect(ctx context.Context, root, call string, happened bool, notes, reviewer string) (*cairn.PendingCall, error) {
	in := struct {
		Happened bool   `json:"happened"`
		Notes    string `json:"notes,omitempty"`
		Reviewer string `json:"reviewer,omitempty"`
	}{happened, notes, reviewer}
	return out[cairn.PendingCall](c, ctx, "POST", "/effects/"+url.PathEscape(root)+"/"+url.PathEscape(call)+"/settle", nil, in)
}
