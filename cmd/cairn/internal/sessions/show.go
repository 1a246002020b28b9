package sessions

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/calls"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

type showCmd struct{ one }

// shown is a session with its pending calls, its children and its next step.
type shown struct {
	*cairn.Session
	// Situation is why the session waits, its current activity, or the outcome of its last run.
	Situation *cairn.Situation    `json:"situation"`
	Continue  engine.Resumability `json:"continue"`
	// Waiting are the first hundred open calls; for a root, those of all its sub-agents too. Children are the
	// session's hundred newest sub-agents.
	Waiting  []cairn.PendingCall `json:"waiting,omitempty"`
	Children []string            `json:"children,omitempty"`
}

// Run shows a session.
func (cmd *showCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Session(ctx, cmd.Session)
		if err != nil {
			return err
		}
		about, err := look(ctx, eng, s)
		if err != nil {
			return err
		}
		if all.JSON {
			about.Session = printed(s)
			return output.JSON(a.Stdout, about)
		}
		var last cairn.Run
		if runs, err := eng.Runs(ctx, s.ID, store.PageQuery{Newest: true, Limit: 1}); err != nil {
			return err
		} else if len(runs.Items) > 0 {
			last = runs.Items[0]
		}
		fmt.Fprintf(a.Stdout, "%s\n\n", sentence(about.Situation, s))
		return output.Fields(a.Stdout, sessionFields(a, about, last))
	})
}

// look reads what is shown about a session in addition to its row.
func look(ctx context.Context, eng *engine.Engine, s *cairn.Session) (*shown, error) {
	about := &shown{Session: s}
	var err error
	if about.Situation, err = eng.Situation(ctx, s.ID); err != nil {
		return nil, err
	}
	if about.Continue, err = eng.CanResume(ctx, s.ID); err != nil {
		return nil, err
	}
	if about.Waiting, err = calls.Open(ctx, eng, s.RootID, s.ID); err != nil {
		return nil, err
	}
	children, err := eng.Sessions(ctx, store.SessionQuery{ParentID: s.ID})
	for i := range children.Items {
		about.Children = append(about.Children, children.Items[i].ID)
	}
	return about, err
}

func sessionFields(a *cli.App, s *shown, last cairn.Run) [][2]string {
	now := a.Now()
	fields := [][2]string{
		{"session", s.ID}, {"agent", s.Agent}, {"status", statusOf(s.Session)},
		{"title", s.Title}, {"user", s.UserID}, {"tags", strings.Join(s.Tags, ", ")}, {"metadata", output.Pairs(s.Metadata)},
		{"turns", fmt.Sprint(s.Turn)}, {"messages", fmt.Sprint(s.MessageCount)}, {"tokens", output.Tokens(s.Usage)},
		{"model calls", fmt.Sprint(s.Usage.ModelCalls)}, {"tool calls", fmt.Sprint(s.Usage.ToolCalls)}, {"cost", s.Usage.Cost()},
		{"checkpoint", s.CheckpointID}, {"version", fmt.Sprint(s.Version)},
		{"created", output.Stamp(s.CreatedAt)}, {"updated", output.Stamp(s.UpdatedAt)},
	}
	if !s.ArchivedAt.IsZero() {
		fields = append(fields, [2]string{"archived", output.Stamp(s.ArchivedAt)})
	}
	if s.ParentID != "" {
		fields = append(fields, [2]string{"parent", s.ParentID}, [2]string{"root", s.RootID})
	}
	if last.ID != "" {
		fields = append(fields, [2]string{"last run", fmt.Sprintf("%s %s", last.ID, last.Status)})
	}
	if last.Error != nil {
		fields = append(fields, [2]string{"error", string(last.Error.Code) + ": " + last.Error.Message})
	}
	if s.Running(s.AsOf) {
		fields = append(fields, [2]string{"held by", s.Lease.Owner + " until " + output.Stamp(s.Lease.Until)})
	}
	for i := range s.Waiting {
		c := &s.Waiting[i]
		fields = append(fields, [2]string{"waits for", waitsFor(c, now)})
	}
	for _, child := range s.Children {
		fields = append(fields, [2]string{"sub-agent", child})
	}
	what := s.Continue.Reason
	switch {
	case s.Continue.Resume:
		what = "resume: " + what
	case s.Continue.Retry:
		what = "retry: " + what
	}
	return append(fields, [2]string{"next", what})
}

// waitsFor names a call and what it needs.
func waitsFor(c *cairn.PendingCall, now time.Time) string {
	text := calls.Missing(c.Kind) + " of " + c.Tool + " " + c.ID
	if until := calls.Deadline(c, now); until != "" {
		text += " until " + until
	}
	return text
}
