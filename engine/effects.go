package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// EffectQuery selects rows of the ledger of effects. Zero fields do not restrict.
type EffectQuery struct {
	// Tenant, if not nil, selects the effects of a tenant, see [cairn.InTenant], or those without one if it is empty.
	Tenant    *string
	RootID    string
	SessionID string
	UserID    string
	Agent     string
	Tool      string
	States    []cairn.EffectState
	Cursor    string
	Limit     int
}

// Effects pages through the ledger: a row for each call of a [cairn.Effectful] tool that was called. Effects of
// committed steps come first, the oldest first, then effects of the steps in progress. A page may have fewer items than
// the limit, or none, although more follow.
func (e *Engine) Effects(ctx context.Context, q EffectQuery) (store.Page[cairn.PendingCall], error) {
	for _, s := range q.States {
		if !slices.Contains(effectStates, s) {
			return store.Page[cairn.PendingCall]{}, cairn.Invalid("state", "unknown state %q: must be one of %q", s, effectStates)
		}
	}
	cursor, underWay := strings.CutPrefix(q.Cursor, EffectsUnderWay)
	if underWay {
		return e.effectsUnderWay(ctx, q, cursor)
	}
	out := store.Page[cairn.PendingCall]{Next: EffectsUnderWay}
	if statuses := q.statuses(); len(statuses) > 0 {
		page, err := e.store.Calls(ctx, store.CallQuery{Tenant: q.Tenant, RootID: q.RootID, SessionID: q.SessionID, UserID: q.UserID, Agent: q.Agent, Tool: q.Tool,
			Kind: cairn.CallEffect, Statuses: statuses, Cursor: q.Cursor, Limit: q.Limit})
		if err != nil {
			return out, err
		}
		for i := range page.Items {
			if q.selects(&page.Items[i]) {
				out.Items = append(out.Items, page.Items[i])
			}
		}
		if page.Next != "" {
			out.Next = page.Next
			return out, nil
		}
	}
	if !q.wants(cairn.EffectSent) {
		out.Next = ""
	} else if len(out.Items) == 0 {
		return e.effectsUnderWay(ctx, q, "")
	}
	return out, nil
}

var effectStates = []cairn.EffectState{cairn.EffectSent, cairn.EffectUnknown, cairn.EffectConfirmed, cairn.EffectFailed}

// EffectsUnderWay begins the cursors of [Engine.Effects] behind the committed effects. A cursor of [Engine.Sessions], or
// nothing, follows. Other cursors of Effects are cursors of [Engine.Inbox].
const EffectsUnderWay = "sent."

func (q *EffectQuery) wants(s cairn.EffectState) bool {
	return len(q.States) == 0 || slices.Contains(q.States, s)
}

// selects reports whether a query selects a row of the ledger by the fields that stores do not compare.
func (q *EffectQuery) selects(c *cairn.PendingCall) bool {
	return c.Effect != nil && q.wants(c.Effect.State) && (q.Tool == "" || c.Tool == q.Tool)
}

// statuses returns the statuses that rows in the wanted states may have.
func (q *EffectQuery) statuses() (list []cairn.CallStatus) {
	if q.wants(cairn.EffectUnknown) {
		list = append(list, cairn.CallOpen, cairn.CallAnswered, cairn.CallDropped)
	}
	if q.wants(cairn.EffectConfirmed) || q.wants(cairn.EffectFailed) {
		list = append(list, cairn.CallSettled)
	}
	return list
}

// effectsUnderWay returns the effects of the steps in progress of a page of active sessions.
func (e *Engine) effectsUnderWay(ctx context.Context, q EffectQuery, cursor string) (out store.Page[cairn.PendingCall], err error) {
	var sessions store.Page[cairn.Session]
	if q.SessionID != "" {
		row, err := driver.Load(ctx, e.store, q.SessionID)
		if driver.IsGone(err) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		if (q.Tenant == nil || row.Tenant == *q.Tenant) && (q.RootID == "" || row.RootID == q.RootID) && (q.UserID == "" || row.UserID == q.UserID) && (q.Agent == "" || row.Agent == q.Agent) {
			sessions.Items = append(sessions.Items, *row)
		}
	} else if sessions, err = e.store.List(ctx, store.SessionQuery{Tenant: q.Tenant, RootID: q.RootID, UserID: q.UserID, Agent: q.Agent,
		Statuses: []cairn.SessionStatus{cairn.SessionActive}, Cursor: cursor, Limit: q.Limit}); err != nil {
		return out, err
	}
	for i := range sessions.Items {
		row := &sessions.Items[i]
		if row.Status != cairn.SessionActive {
			continue
		}
		id := step.ID(row.RunID, row.Step+1)
		staged, err := driver.StagedOf(ctx, e.store, row.ID, id)
		if driver.IsGone(err) {
			continue
		}
		if err != nil {
			return out, err
		}
		facts, err := step.Decode(staged, id, row.Lease.Token)
		if err != nil {
			return out, err
		}
		for _, call := range step.EffectsIn(facts) {
			if call.Tenant, call.UserID, call.Agent = row.Tenant, row.UserID, row.Agent; q.selects(&call) {
				out.Items = append(out.Items, call)
			}
		}
	}
	if sessions.Next != "" {
		out.Next = EffectsUnderWay + sessions.Next
	}
	return out, nil
}

// EffectSettlement says whether an effect happened, who found that out, and how.
type EffectSettlement struct {
	// Happened reports whether the call took effect.
	Happened bool
	// By is who found out. Required.
	By string
	// Notes are kept with the decision.
	Notes string
}

// SettleEffect records the outcome of an effect that is unknown. If a run waits for it, this answers the pending call,
// see Submit. Otherwise the run has ended without knowing: the row is settled, and the model reads the outcome as
// hidden context. The row's trail has who settled it and when. It returns the row. The error is ErrNotFound if there is
// no such row, and ErrInvalid for an effect whose outcome is known to be another one, or that is in progress.
func (e *Engine) SettleEffect(ctx context.Context, root, callID string, s EffectSettlement) (*cairn.PendingCall, error) {
	if problem := ids.CheckUser(s.By); problem != "" {
		return nil, cairn.Invalid("by", "name %s", problem)
	}
	var err error
	if s.By, err = qualify("by", root, s.By); err != nil {
		return nil, err
	}
	if err := cairn.CheckText("notes", s.Notes); err != nil {
		return nil, err
	}
	if len(s.Notes) > cairn.MaxAnswerBytes {
		return nil, &cairn.Error{Code: cairn.ErrTooLarge, Field: "notes", Message: "notes: too large (max 1 MiB)"}
	}
	call, err := e.call(ctx, root, callID)
	if err != nil {
		return nil, err
	}
	if call.Kind == cairn.CallEffect && call.Status == cairn.CallOpen {
		answer := cairn.DidNotHappen(call.CallRef, s.Notes)
		if s.Happened {
			answer = cairn.Happened(call.CallRef, nil)
		}
		receipt, err := e.Submit(ctx, root, answer.By(s.By))
		return receipt.Call, err
	}
	id := e.opts.NewID("answer")
	_, err = e.changeCall(ctx, root, callID, func(call cairn.PendingCall, c *driver.Commit, row *cairn.Session) (cairn.PendingCall, error) {
		next, err := inbox.SettleEffect(call, s.Happened, s.By, s.Notes, row.AsOf)
		if err != nil || next.Effect.State == call.Effect.State {
			return next, err
		}
		outcome := "did not take effect"
		if s.Happened {
			outcome = "took effect"
		}
		m := cairn.Context(fmt.Sprintf("The call %s of %s, whose outcome was unknown, %s.", next.ToolCallID, next.Tool, outcome))
		m.ID = id
		add(c, row, []cairn.Message{m})
		c.Events = append(c.Events, journal.EffectEnded(0, &next))
		return next, nil
	})
	if err != nil {
		return nil, err
	}
	return e.Call(ctx, root, callID)
}
