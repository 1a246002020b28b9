package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

type eventsCmd struct {
	one
	After  cairn.Cursor `placeholder:"CURSOR" help:"Only events after this one: its sequence, or the cursor that --json prints, which is refused if the session was deleted and created again. Default: all stored events."`
	Limit  int          `default:"0" help:"The maximum number; 0 prints all. Default: 0."`
	Follow bool         `short:"f" help:"Wait for more until interrupted."`
}

// Run prints events.
func (cmd *eventsCmd) Run(a *cli.App, all *flags) error {
	if cmd.Limit < 0 {
		return cli.Misuse("--limit cannot be negative")
	}
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		events := cmd.kept(func(after cairn.Cursor) iter.Seq2[cairn.Event, error] {
			if cmd.Follow {
				return eng.Events(ctx, cmd.Session, after)
			}
			return pages.Events(ctx, eng, cmd.Session, after)
		})
		next := ""
		if !cmd.Follow {
			events = pages.First(events, cmd.Limit, func(last cairn.Event) { next = last.Cursor().String() })
		}
		if !cmd.Follow && all.JSON {
			return output.Items(a.Stdout, eventLines(events), &next)
		}
		lines := json.NewEncoder(a.Stdout)
		printed := 0
		for ev, err := range events {
			switch {
			case cmd.Follow && ctx.Err() != nil:
				return nil
			case err != nil:
				return err
			case all.JSON:
				err = lines.Encode(eventLine{&ev, ev.Cursor()})
			default:
				// Events are printed as they arrive, so columns have a fixed width.
				line := fmt.Sprintf("%6d  %s  %2d  %-21s  %s", ev.Sequence, ev.Time.UTC().Format("2006-01-02 15:04:05.000"), ev.Step, ev.Type, eventDetail(&ev))
				_, err = fmt.Fprintln(a.Stdout, strings.TrimRight(line, " "))
			}
			if err != nil {
				return err
			}
			if printed++; cmd.Follow && printed == cmd.Limit {
				return nil
			}
		}
		return a.More("--after", next)
	})
}

// kept reads events after the requested cursor or, if none is requested, from the first event that was not trimmed.
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

// eventLine is the JSON output of an event with its cursor.
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

// eventDetail describes an event beyond its type.
func eventDetail(ev *cairn.Event) string {
	var words []string
	add := func(word string) {
		if word != "" {
			words = append(words, output.OneLine(word, output.Width))
		}
	}
	switch ev.Type {
	case cairn.EventTextDelta, cairn.EventThinking, cairn.EventToolArgDelta:
		return fmt.Sprintf("%q", ev.Text)
	case cairn.EventRunStart, cairn.EventRunResumed:
		add(ev.RunID)
	case cairn.EventCompacted:
		add(output.Count(ev.MessageCount, "message") + " summarised")
	}
	add(ev.Tool)
	add(ev.CallID)
	add(ev.Name)
	add(ev.ChildID)
	if ev.Type != cairn.EventUsage { // whose sum is enough
		add(string(ev.Data))
	}
	if !ev.Deadline.IsZero() {
		add("until " + output.Stamp(ev.Deadline))
	}
	if !ev.Until.IsZero() {
		add("next at " + output.Stamp(ev.Until))
	}
	if ev.Cached {
		add("(cached)")
	}
	if ev.Attempts > 0 {
		add(fmt.Sprintf("(%d attempts)", ev.Attempts))
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
		add(output.Tokens(*ev.Usage) + " tokens")
		if ev.Usage.PricedCalls > 0 {
			add(ev.Usage.Cost())
		}
	}
	for _, op := range ev.Patch {
		add(op.Op + " " + op.Path)
	}
	return strings.Join(words, " ")
}
