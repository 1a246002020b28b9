package sessions

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/calls"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

type messagesCmd struct {
	one
	From  int `default:"0" help:"Index of the first message. Default: 0."`
	Limit int `default:"0" help:"The maximum number; 0 prints all. Default: 0."`
}

// Run prints messages.
func (cmd *messagesCmd) Run(a *cli.App, all *flags) error {
	if cmd.From < 0 || cmd.Limit < 0 {
		return cli.Misuse("--from and --limit cannot be negative")
	}
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		next := ""
		messages := pages.First(pages.Messages(ctx, eng, cmd.Session, cmd.From), cmd.Limit, func(last pages.Numbered) { next = fmt.Sprint(last.Index + 1) })
		waiting, err := waitingCalls(ctx, eng, cmd.Session)
		if err != nil {
			return err
		}
		if all.JSON {
			return output.Items(a.Stdout, messages, &next)
		}
		err = output.Rows(a.Stdout, messages, []string{"INDEX", "ROLE", "CONTENT"}, func(m *pages.Numbered) [][]string { return messageRows(m, waiting) })
		return errors.Join(err, a.More("--from", next))
	})
}

// waitingCalls returns the open calls of a session by id.
func waitingCalls(ctx context.Context, eng *engine.Engine, id string) (map[string]cairn.CallKind, error) {
	s, err := eng.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	kinds := map[string]cairn.CallKind{}
	calls := pages.All(func(cursor string) (store.Page[cairn.PendingCall], error) {
		return eng.Inbox(ctx, store.CallQuery{RootID: s.RootID, SessionID: s.ID, Cursor: cursor})
	})
	for c, err := range calls {
		if err != nil {
			return nil, err
		}
		kinds[c.ID] = c.Kind
	}
	return kinds, nil
}

// messageRows returns a row for each line of a message. waiting holds the open calls by id.
func messageRows(m *pages.Numbered, waiting map[string]cairn.CallKind) [][]string {
	role := string(m.Role)
	switch {
	case m.Summary != nil:
		role = "summary"
	case m.Hidden:
		role = "context"
	}
	lead := []string{fmt.Sprint(m.Index), role}
	var rows [][]string
	for i := range m.Parts {
		text := partText(&m.Parts[i])
		if use := m.Parts[i].ToolUse; use != nil && waiting[use.CallID] != "" {
			text += " (waits for " + calls.Missing(waiting[use.CallID]) + ")"
		}
		for _, line := range strings.Split(text, "\n") {
			rows = append(rows, []string{lead[0], lead[1], line})
			lead = []string{" ", " "}
		}
	}
	return rows
}

func partText(p *cairn.Part) string {
	switch p.Type {
	case cairn.PartReasoning:
		return "(" + strings.TrimSpace(p.Text) + ")"
	case cairn.PartToolUse:
		return fmt.Sprintf("→ %s %s %s", p.ToolUse.Tool, p.ToolUse.CallID, p.ToolUse.Input)
	case cairn.PartToolResult:
		mark := "←"
		if p.Result.IsError {
			mark = "← error " + string(p.Result.Code)
		}
		return fmt.Sprintf("%s %s %s", mark, p.Result.CallID, p.Result.Output)
	case cairn.PartProvider:
		return fmt.Sprintf("[%s's own, %d bytes]", p.Model, len(p.Provider))
	case cairn.PartFile:
		return fmt.Sprintf("[%s %s, %d bytes%s]", p.File.MediaType, p.File.Name, len(p.File.Data), p.File.URL)
	case cairn.PartData:
		return fmt.Sprintf("[%s %s]", p.Data.Name, p.Data.Value)
	}
	return p.Text
}
