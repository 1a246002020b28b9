package inbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/calls"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/engine"
)

type inboxShowCmd struct{ aCall }

// Run shows a call.
func (cmd *inboxShowCmd) Run(a *cli.App, all *flags) error {
	return all.At.Inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		call, err := calls.Find(ctx, eng, all.At.Selected(), cmd.Call)
		switch {
		case err != nil:
			return err
		case all.JSON:
			return output.JSON(a.Stdout, call)
		}
		if err := output.Fields(a.Stdout, callFields(call, a.Now())); err != nil || len(call.Trail) == 0 {
			return err
		}
		fmt.Fprintln(a.Stdout)
		return output.List(a.Stdout, false, pages.Of(call.Trail...), []string{"DECISION", "REVIEWER", "AT", "STEP", "NOTES"}, func(d *cairn.Decision) []string {
			return []string{string(d.Kind), d.Reviewer, output.Stamp(d.At), d.Step, output.OneLine(d.Notes, 0)}
		})
	})
}

func callFields(c *cairn.PendingCall, now time.Time) [][2]string {
	fields := [][2]string{
		{"call", c.ID}, {"session", c.RootID}, {"kind", string(c.Kind)}, {"tool", c.Tool}, {"input", string(c.Input)},
		{"prompt", output.OneLine(c.Prompt, 0)}, {"payload", string(c.Payload)}, {"status", callStatus(c)},
		{"agent", c.Agent}, {"user", c.UserID}, {"run", c.RunID}, {"step", c.StepID}, {"waiting since", output.Stamp(c.CreatedAt)},
		{"deadline", calls.Deadline(c, now)}, {"assigned to", calls.Assigned(c)}, {"claimed by", claimed(c, now)}, {"schema", string(c.Schema)},
	}
	if c.SessionID != c.RootID {
		fields = slices.Insert(fields, 2, [2]string{"sub-agent", c.SessionID})
	}
	if a := c.Answer; a != nil {
		fields = append(fields, [2]string{"answer", calls.Decision(c)}, [2]string{"value", string(a.Value)}, [2]string{"words", output.OneLine(a.Text, 0)})
	}
	return fields
}
