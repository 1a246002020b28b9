package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

// filters select sessions.
type filters struct {
	User         string            `help:"Only sessions of this user."`
	Agent        string            `help:"Only sessions of this agent."`
	Status       []string          `enum:"idle,active,paused,completed,failed,interrupted" help:"Only sessions with one of these statuses: ${enum}."`
	Tag          []string          `help:"Only sessions with all of these tags."`
	Metadata     map[string]string `placeholder:"KEY=VALUE" help:"Only sessions with all of these texts in their metadata."`
	MetadataJSON string            `placeholder:"OBJECT" help:"Only sessions with these values in their metadata, such as '{\"order\":{\"lines\":2}}'."`
	Parent       string            `help:"Only sessions of the sub-agents and companions of this session."`
	Thread       string            `placeholder:"ID" help:"Only sessions of this thread."`
	Search       string            `placeholder:"WORDS" help:"Only sessions with all of these words, or the beginnings of them, in their title or first message."`
}

// query returns the query of the filters, for roots unless they name a parent.
func (f *filters) query(all *flags) (q store.SessionQuery, err error) {
	q = store.SessionQuery{Tenant: all.At.Selected(), UserID: f.User, Agent: f.Agent, Tags: f.Tag, ThreadID: f.Thread, ParentID: f.Parent, RootsOnly: f.Parent == "", Search: f.Search}
	for _, name := range []struct {
		flag string
		id   *string
	}{{"--user", &q.UserID}, {"--parent", &q.ParentID}, {"--thread", &q.ThreadID}} {
		if *name.id, err = all.At.ID(name.flag, *name.id); err != nil {
			return q, err
		}
	}
	for _, s := range f.Status {
		q.Statuses = append(q.Statuses, cairn.SessionStatus(s))
	}
	q.Metadata, err = metadata(f.Metadata, f.MetadataJSON)
	return q, err
}

type listCmd struct {
	filters
	Limit  int    `default:"50" help:"The maximum number; 0 lists all. Default: 50."`
	Cursor string `help:"Continue an earlier list from its cursor."`

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
	q, err := cmd.query(all)
	if err != nil {
		return err
	}
	q.RootsOnly = q.RootsOnly && !cmd.SubAgents
	if cmd.Removed {
		q.Removed = []store.Removal{store.Deleted, store.Expired}
	}
	if cmd.Archived || q.RootsOnly && !cmd.All && !cmd.Removed && cmd.Thread == "" {
		q.Archived = &cmd.Archived
	}
	return all.At.Inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		next := ""
		sessions := pages.Limited(cmd.Limit, cmd.Cursor, &next, func(cursor string, limit int) (store.Page[cairn.Session], error) {
			q.Cursor, q.Limit = cursor, limit
			return eng.Sessions(ctx, q)
		})
		if all.JSON {
			return output.Items(a.Stdout, sessions, &next)
		}
		now := a.Now()
		err := output.List(a.Stdout, false, sessions,
			[]string{"SESSION", "AGENT", "STATUS", "USER", "TAGS", "TURNS", "MESSAGES", "TOKENS", "UPDATED", "TITLE"},
			func(s *cairn.Session) []string {
				status := statusOf(s)
				if s.Tainted {
					status += ", tainted"
				}
				return []string{s.ID, s.Agent, status, s.UserID, strings.Join(s.Tags, ","), fmt.Sprint(s.Turn),
					fmt.Sprint(s.MessageCount), output.Tokens(s.Usage), output.Age(now, s.UpdatedAt), titleOf(s)}
			})
		return errors.Join(err, a.More("--cursor", next))
	})
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
