package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

type messagesCmd struct {
	one
	From  int `default:"0" help:"Index of the first message. Default: 0."`
	Limit int `default:"0" help:"At most so many; 0 prints all. Default: 0."`
}

// numbered is a message with its index in the session.
type numbered struct {
	Index int `json:"index"`
	cairn.Message
}

// Run prints messages.
func (cmd *messagesCmd) Run(a *app, all *sessionsCmd) error {
	if cmd.From < 0 || cmd.Limit < 0 {
		return misuse("--from and --limit cannot be negative")
	}
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		messages := first(messagesFrom(ctx, eng, cmd.Session, cmd.From), cmd.Limit)
		waiting, err := waitingCalls(ctx, eng, cmd.Session)
		if err != nil {
			return err
		}
		return listRows(a, all.JSON, messages, []string{"INDEX", "ROLE", "CONTENT"}, func(m *numbered) [][]string { return messageRows(m, waiting) })
	})
}

func messagesFrom(ctx context.Context, eng *engine.Engine, id string, from int) iter.Seq2[numbered, error] {
	return func(yield func(numbered, error) bool) {
		for {
			page, err := eng.Messages(ctx, id, from, 0)
			if err != nil {
				yield(numbered{}, err)
				return
			}
			for _, m := range page {
				if !yield(numbered{from, m}, nil) {
					return
				}
				from++
			}
			if len(page) == 0 {
				return
			}
		}
	}
}

// waitingCalls returns the open calls of a session by id.
func waitingCalls(ctx context.Context, eng *engine.Engine, id string) (map[string]cairn.CallKind, error) {
	s, err := eng.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	kinds := map[string]cairn.CallKind{}
	calls := paged(func(cursor string) (store.Page[cairn.PendingCall], error) {
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

// messageRows returns a row for each line of a message. waiting are open calls.
func messageRows(m *numbered, waiting map[string]cairn.CallKind) [][]string {
	role := string(m.Role)
	if m.Hidden {
		role = "context"
	}
	lead := []string{fmt.Sprint(m.Index), role}
	var rows [][]string
	for i := range m.Parts {
		text := partText(&m.Parts[i])
		if use := m.Parts[i].ToolUse; use != nil && waiting[use.CallID] != "" {
			text += " (waits for " + missing(waiting[use.CallID]) + ")"
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
	case cairn.PartFile:
		return fmt.Sprintf("[%s %s, %d bytes%s]", p.File.MediaType, p.File.Name, len(p.File.Data), p.File.URL)
	}
	return p.Text
}

type eventsCmd struct {
	one
	After  cairn.Cursor `placeholder:"CURSOR" help:"Only events after this one: its sequence, or the cursor that --json prints, which is refused if the session was deleted and made again. Default: all that are kept."`
	Limit  int          `default:"0" help:"At most so many; 0 prints all. Default: 0."`
	Follow bool         `short:"f" help:"Wait for more until interrupted."`
}

// Run prints events.
func (cmd *eventsCmd) Run(a *app, all *sessionsCmd) error {
	if cmd.Limit < 0 {
		return misuse("--limit cannot be negative")
	}
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		events := cmd.kept(func(after cairn.Cursor) iter.Seq2[cairn.Event, error] {
			if cmd.Follow {
				return eng.Events(ctx, cmd.Session, after)
			}
			return historyAfter(ctx, eng, cmd.Session, after)
		})
		if !cmd.Follow && all.JSON {
			return printArray(a.stdout, eventLines(first(events, cmd.Limit)))
		}
		lines := json.NewEncoder(a.stdout)
		for ev, err := range first(events, cmd.Limit) {
			switch {
			case err != nil:
				return err
			case all.JSON:
				err = lines.Encode(eventLine{&ev, ev.Cursor()})
			default:
				// Events come one by one, so that columns have a fixed width.
				line := fmt.Sprintf("%6d  %s  %2d  %-21s  %s", ev.Sequence, ev.Time.UTC().Format("2006-01-02 15:04:05.000"), ev.Step, ev.Type, eventDetail(&ev))
				_, err = fmt.Fprintln(a.stdout, strings.TrimRight(line, " "))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// kept reads events after the cursor that is asked for or, if none is, from the first one that was not trimmed.
func (cmd *eventsCmd) kept(read func(cairn.Cursor) iter.Seq2[cairn.Event, error]) iter.Seq2[cairn.Event, error] {
	return func(yield func(cairn.Event, error) bool) {
		for ev, err := range read(cmd.After) {
			var trimmed *store.TrimmedError
			if cmd.After == (cairn.Cursor{}) && errors.As(err, &trimmed) {
				read(cairn.After(trimmed.First - 1))(yield)
				return
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// eventLine is an event with its cursor, as JSON.
type eventLine struct {
	*cairn.Event
	Cursor cairn.Cursor `json:"cursor"`
}

func eventLines(events iter.Seq2[cairn.Event, error]) iter.Seq2[eventLine, error] {
	return func(yield func(eventLine, error) bool) {
		for ev, err := range events {
			if !yield(eventLine{&ev, ev.Cursor()}, err) {
				return
			}
		}
	}
}

func historyAfter(ctx context.Context, eng *engine.Engine, id string, after cairn.Cursor) iter.Seq2[cairn.Event, error] {
	return func(yield func(cairn.Event, error) bool) {
		for {
			events, err := eng.History(ctx, id, after, 0)
			if err != nil {
				yield(cairn.Event{}, err)
				return
			}
			for _, ev := range events {
				if !yield(ev, nil) {
					return
				}
				after = ev.Cursor()
			}
			if len(events) == 0 {
				return
			}
		}
	}
}

// eventDetail returns what an event says beside its type.
func eventDetail(ev *cairn.Event) string {
	var words []string
	add := func(word string) {
		if word != "" {
			words = append(words, oneLine(word, maxWidth))
		}
	}
	switch ev.Type {
	case cairn.EventTextDelta, cairn.EventThinking, cairn.EventToolArgDelta:
		return fmt.Sprintf("%q", ev.Text)
	case cairn.EventRunStart, cairn.EventRunResumed:
		add(ev.RunID)
	}
	add(ev.Tool)
	add(ev.CallID)
	add(ev.Name)
	add(ev.ChildID)
	add(string(ev.Data))
	if !ev.Deadline.IsZero() {
		add("until " + stamp(ev.Deadline))
	}
	if ev.Cached {
		add("(cached)")
	}
	if ev.IsError {
		add("(error)")
	}
	add(string(ev.Status))
	add(string(ev.Reason))
	add(ev.CheckpointID)
	if ev.Error != nil {
		add(string(ev.Error.Code) + ": " + ev.Error.Message)
	}
	if ev.Usage != nil {
		add(tokensOf(*ev.Usage) + " tokens")
	}
	for _, op := range ev.Patch {
		add(op.Op + " " + op.Path)
	}
	return strings.Join(words, " ")
}
