package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// Learn implements [cairn.Memory]. It keeps the user's messages of the turn, and the agent's last reply, as entries of
// kind Said; has facts extracted, if the options say so; and makes the vectors that are missing. A turn that it has learned
// from before adds nothing.
func (m *Memory) Learn(ctx context.Context, turn *cairn.EndedTurn) error {
	if off(turn.Session.Metadata) {
		return nil
	}
	scope, err := m.ScopeOf(turn.Session)
	if err != nil {
		return nil // Offer has reported it
	}
	if err := m.learn(ctx, scope, turn); !errors.Is(err, errGone) {
		return err
	}
	return m.dropEmpty(ctx, scope)
}

// learn is Learn in a scope. The error is errGone if the turn is gone meanwhile.
func (m *Memory) learn(ctx context.Context, scope Scope, turn *cairn.EndedTurn) error {
	if err := m.forgetRewound(ctx, scope, turn); err != nil {
		return fmt.Errorf("forget rewound turns: %w", err)
	}
	parent := m.distrustedParent(turn.Session.ParentID, turn.Session.Agent)
	tool, err := cmp.Or(parent, m.distrusted(turn.Messages)), error(nil)
	if tool == "" {
		if tool, err = m.distrustedBefore(ctx, scope, turn.Session.ID); err != nil {
			return err
		}
	}
	said := m.said(turn, tool, parent)
	if len(said) == 0 {
		return nil
	}
	if _, err := m.addLearned(ctx, scope, turn, said); err != nil {
		return fmt.Errorf("keep the turn: %w", err)
	}
	var failed error
	if m.opts.Agent.Extract != nil {
		failed = m.extract(ctx, scope, turn, said)
	}
	if x := m.opts.Agent.Extract; x != nil && x.Consolidate && failed == nil {
		if failed = m.consolidate(ctx, scope, turn); failed != nil {
			failed = fmt.Errorf("merge facts: %w", failed)
		}
	}
	if _, err := m.Embed(ctx, scope); err != nil {
		failed = errors.Join(failed, fmt.Errorf("embed: %w", err))
	}
	return failed
}

// errGone is the error of a write of what was learned from a turn that is no longer in its session.
var errGone = errors.New("memory: the turn is gone")

// addLearned adds entries that were learned from a turn. Nothing that it writes outlives an erasure, which removes the
// sessions first and then the scopes: it looks for the turn after it has read the scope's version, so a scope that is
// dropped later no longer has the version that is written to. For that, the scope must exist.
func (m *Memory) addLearned(ctx context.Context, scope Scope, turn *cairn.EndedTurn, entries []Entry) ([]Entry, error) {
	return m.add(ctx, scope, func(t *tx) error {
		if err := exists(ctx, turn); err != nil || t.version > 0 {
			return err
		}
		if err := t.create(); err != nil {
			return err
		}
		return exists(ctx, turn)
	}, entries)
}

// exists returns errGone if the turn is no longer in its session.
func exists(ctx context.Context, turn *cairn.EndedTurn) error {
	now, err := turn.Reread(ctx)
	if err == nil && now == nil {
		err = errGone
	}
	return err
}

// create makes the scope exist without entries.
func (t *tx) create() error {
	if err := t.putJSON(keyHead, &t.head); err != nil {
		return err
	}
	return t.commit()
}

// dropEmpty drops a scope without entries.
func (m *Memory) dropEmpty(ctx context.Context, scope Scope) error {
	empty := false
	err := m.view(ctx, scope, func(t *tx) error {
		empty = t.version > 0 && t.head.Count == 0
		return nil
	})
	if err == nil && empty {
		_, err = m.Drop(ctx, scope)
	}
	return err
}

// distrustedBefore returns the name of a tool that is not trusted and whose result earlier turns of a session had; "" for
// none. Each entry of a session's texts has the tool from that turn on.
func (m *Memory) distrustedBefore(ctx context.Context, scope Scope, session string) (tool string, err error) {
	page, err := m.List(ctx, scope, ListQuery{Session: session, Kind: Said, Limit: 1})
	if err != nil || len(page.Items) == 0 {
		return "", err
	}
	return page.Items[0].Source.Tool, nil
}

// said returns the texts of a turn as entries: the user's messages, and the last reply. tool is a tool that is not
// trusted and whose results the agent has read, if any: the reply may repeat them. parent is the tool that a parent has
// called which is not trusted, if any.
func (m *Memory) said(turn *cairn.EndedTurn, tool, parent string) []Entry {
	var list []Entry
	add := func(i int, speaker string, kind SourceKind) {
		msg := &turn.Messages[i]
		text := Cut(strings.TrimSpace(msg.Text()), m.opts.MaxCharacters)
		if text == "" || len(list) == maxBatch {
			return
		}
		state := Active
		if kind == ToolReturned {
			state = Quarantined
		}
		list = append(list, Entry{ID: saidID(turn, msg), Kind: Said, State: state, Text: text, Speaker: speaker, ValidFrom: msg.CreatedAt,
			Source: Source{Kind: kind, Session: turn.Session.ID, Position: turn.First + i, Turn: turn.Run.Turn, Message: msg.ID, Tool: tool}})
	}
	asked, last := UserSaid, -1
	if parent != "" {
		asked = ToolReturned
	}
	for i := range turn.Messages {
		switch msg := &turn.Messages[i]; {
		case msg.Hidden:
		case msg.Role == cairn.RoleUser:
			add(i, "user", asked)
		case msg.Role == cairn.RoleAssistant && msg.Text() != "":
			last = i
		}
	}
	if last >= 0 {
		kind := AgentInferred
		if tool != "" {
			kind = ToolReturned
		}
		add(last, turn.Session.Agent, kind)
	}
	return list
}

// saidID returns the id of the entry of a message.
func saidID(turn *cairn.EndedTurn, msg *cairn.Message) string {
	return ids.Derive("mem", turn.Session.ID, turn.Session.Incarnation, turn.ID, msg.ID)
}

// forgetRewound forgets what was learned from messages that a rewind has removed since: those in the place of the turn's
// own messages and, if the turn is the session's last, those after them.
func (m *Memory) forgetRewound(ctx context.Context, scope Scope, turn *cairn.EndedTurn) error {
	if turn.Session.Epoch == 0 {
		return nil
	}
	var gone, after []string
	for e, err := range m.All(ctx, scope, ListQuery{Session: turn.Session.ID, Kind: Said}) {
		if err != nil {
			return err
		}
		switch i := e.Source.Position - turn.First; {
		case i >= len(turn.Messages):
			after = append(after, e.ID)
		case i >= 0 && turn.Messages[i].ID != e.Source.Message:
			gone = append(gone, e.ID)
		}
	}
	if len(after) > 0 { // of turns that have ended before, so the session has them now if it was not rewound
		now, err := turn.Reread(ctx)
		switch {
		case err != nil:
			return err
		case now == nil:
			return errGone
		case turn.Run.ID == now.RunID:
			gone = append(gone, after...)
		}
	}
	return m.removeSaid(ctx, scope, gone)
}
