package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

type listCmd struct {
	User         string            `help:"Only sessions of this user."`
	Agent        string            `help:"Only sessions of this agent."`
	Status       []string          `enum:"idle,active,paused,completed,failed,interrupted" help:"Only sessions with one of these statuses: ${enum}."`
	Tag          []string          `help:"Only sessions with all of these tags."`
	Metadata     map[string]string `placeholder:"KEY=VALUE" help:"Only sessions with all of these texts in their metadata."`
	MetadataJSON string            `placeholder:"OBJECT" help:"Only sessions with these values in their metadata, such as '{\"order\":{\"lines\":2}}'."`
	Parent       string            `help:"Only sessions of the sub-agents and companions of this session."`
	Thread       string            `placeholder:"ID" help:"Only sessions of this thread."`
	Search       string            `placeholder:"WORDS" help:"Only sessions with all of these words, or the beginnings of them, in their title or first message."`
	Limit        int               `default:"50" help:"The maximum number; 0 lists all. Default: 50."`
	Cursor       string            `help:"Continue an earlier list from its cursor."`

	Removed   bool `help:"List sessions that were deleted or have expired and are not purged yet."`
	Archived  bool `xor:"archive" help:"List archived sessions instead of the others."`
	All       bool `xor:"archive" help:"List archived sessions, too. That is the default with --thread, --parent, --removed and --sub-agents."`
	SubAgents bool `help:"Also list the sessions of sub-agents."`
}

// Run lists sessions.
func (cmd *listCmd) Run(a *cli.App, all *flags) error {
	if cmd.Limit < 0 {
		return cli.Misuse("--limit: %d is negative", cmd.Limit)
	}
	q := store.SessionQuery{UserID: cmd.User, Agent: cmd.Agent, Tags: cmd.Tag, ThreadID: cmd.Thread, ParentID: cmd.Parent, RootsOnly: !cmd.SubAgents && cmd.Parent == "", Search: cmd.Search, Cursor: cmd.Cursor}
	var err error
	if q.Metadata, err = metadata(cmd.Metadata, cmd.MetadataJSON); err != nil {
		return err
	}
	for _, s := range cmd.Status {
		q.Statuses = append(q.Statuses, cairn.SessionStatus(s))
	}
	if cmd.Removed {
		q.Removed = []store.Removal{store.Deleted, store.Expired}
	}
	if cmd.Archived || q.RootsOnly && !cmd.All && !cmd.Removed && cmd.Thread == "" {
		q.Archived = &cmd.Archived
	}
	return all.At.Inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		next := ""
		sessions := cmd.pages(func(q store.SessionQuery) (store.Page[cairn.Session], error) { return eng.Sessions(ctx, q) }, q, &next)
		if all.JSON {
			return output.Items(a.Stdout, sessions, &next)
		}
		now := a.Now()
		err := output.List(a.Stdout, false, sessions,
			[]string{"SESSION", "AGENT", "STATUS", "USER", "TAGS", "TURNS", "MESSAGES", "TOKENS", "UPDATED", "TITLE"},
			func(s *cairn.Session) []string {
				return []string{s.ID, s.Agent, statusOf(s), s.UserID, strings.Join(s.Tags, ","), fmt.Sprint(s.Turn),
					fmt.Sprint(s.MessageCount), output.Tokens(s.Usage), output.Age(now, s.UpdatedAt), titleOf(s)}
			})
		return errors.Join(err, a.More("--cursor", next))
	})
}

// largest is the largest page that is read at once.
const largest = 1000

// pages yields sessions up to the limit. Then it sets next to the cursor of those that follow, if there are any.
func (cmd *listCmd) pages(list func(store.SessionQuery) (store.Page[cairn.Session], error), q store.SessionQuery, next *string) iter.Seq2[cairn.Session, error] {
	return func(yield func(cairn.Session, error) bool) {
		for left := cmd.Limit; ; {
			q.Limit = largest
			if cmd.Limit > 0 {
				q.Limit = min(left, largest)
			}
			page, err := list(q)
			if err != nil {
				yield(cairn.Session{}, err)
				return
			}
			for _, s := range page.Items {
				if !yield(s, nil) {
					return
				}
			}
			q.Cursor, left = page.Next, left-len(page.Items)
			if page.Next == "" || cmd.Limit > 0 && left == 0 {
				*next = page.Next
				return
			}
		}
	}
}

// titleOf returns the title of a session or, without one, the beginning of its first message.
func titleOf(s *cairn.Session) string {
	return output.OneLine(cmp.Or(s.Title, s.Opening), 40)
}

// statusOf returns the displayed status of a session.
func statusOf(s *cairn.Session) string {
	switch {
	case s.Removal != "":
		return s.Removal
	case s.Crashed(s.AsOf):
		return "crashed"
	case s.Ending != nil:
		return "ending"
	case s.Ready():
		return "ready"
	}
	return string(s.Status)
}
