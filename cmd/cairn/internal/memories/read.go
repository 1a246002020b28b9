package memories

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/memory"
)

// shortText is the number of characters of a memory's text in a table.
const shortText = 60

// stateOf returns the state of a memory for a table.
func stateOf(e *memory.Entry) string {
	if e.State == memory.Active && e.SupersededBy != "" {
		return "superseded"
	}
	return string(e.State)
}

type listCmd struct {
	scoped
	State       string `placeholder:"STATE" help:"Only memories in this state: active, quarantined or redacted."`
	Kind        string `placeholder:"KIND" help:"Only memories of this kind: said or fact."`
	Source      string `placeholder:"SOURCE" help:"Only memories from this source: user_said, tool_returned, agent_inferred or application."`
	Entity      string `placeholder:"NAME" help:"Only memories about this entity."`
	From        string `name:"from-session" placeholder:"ID" help:"Only memories that come from this session."`
	Current     bool   `help:"Leave out memories that a newer version supersedes."`
	ByValidTime bool   `help:"Order by the time from which memories are valid, not by the time at which they were added."`
	OldestFirst bool   `help:"List the oldest first."`
	Limit       int    `default:"50" help:"The maximum number; 0 lists all. Default: 50."`
	Cursor      string `help:"Continue an earlier list from its cursor."`
}

// Run lists memories.
func (cmd *listCmd) Run(a *cli.App, all *flags) error {
	if cmd.Limit < 0 {
		return cli.Misuse("--limit: %d is negative", cmd.Limit)
	}
	from, err := all.At.ID("--from-session", cmd.From)
	if err != nil {
		return err
	}
	q := memory.ListQuery{Entity: cmd.Entity, Session: from, Kind: memory.Kind(cmd.Kind), Source: memory.SourceKind(cmd.Source),
		State: memory.State(cmd.State), Current: cmd.Current, ByValidTime: cmd.ByValidTime, OldestFirst: cmd.OldestFirst}
	return cmd.read(a, all, func(ctx context.Context, o *opened) error {
		next := ""
		entries := pages.Limited(cmd.Limit, cmd.Cursor, &next, func(cursor string, limit int) (memory.Page[memory.Entry], error) {
			q.Cursor, q.Limit = cursor, limit
			return o.List(ctx, o.scope, q)
		})
		if all.JSON {
			return output.Items(a.Stdout, entries, &next)
		}
		err := output.List(a.Stdout, false, entries, []string{"ID", "KIND", "STATE", "SOURCE", "VALID FROM", "ENTITY", "TEXT"},
			func(e *memory.Entry) []string {
				return []string{e.ID, string(e.Kind), stateOf(e), string(e.Source.Kind), output.Stamp(e.ValidFrom), e.Entity, output.OneLine(e.Text, shortText)}
			})
		return errors.Join(err, a.More("--cursor", next))
	})
}

type searchCmd struct {
	scoped
	Query       string     `arg:"" help:"The text to search for."`
	Kind        string     `placeholder:"KIND" help:"Only memories of this kind: said or fact."`
	Source      string     `placeholder:"SOURCE" help:"Only memories from this source: user_said, tool_returned, agent_inferred or application."`
	Entity      string     `placeholder:"NAME" help:"Only memories about this entity."`
	AsOf        *time.Time `placeholder:"TIME" help:"Search what was valid at this time, such as 2030-01-31T12:00:00Z. Default: now."`
	Superseded  bool       `help:"Also find superseded versions, not the newest in their place."`
	Quarantined bool       `help:"Also find quarantined memories."`
	Explain     bool       `help:"Print the parts of each score."`
	Limit       int        `default:"10" help:"The maximum number, 1 to 100. Default: 10."`
}

// Run searches memories.
func (cmd *searchCmd) Run(a *cli.App, all *flags) error {
	if cmd.Limit < 1 || cmd.Limit > 100 {
		return cli.Misuse("--limit: %d is not between 1 and 100", cmd.Limit)
	}
	q := memory.Query{Text: cmd.Query, Limit: cmd.Limit, Entity: cmd.Entity, Kind: memory.Kind(cmd.Kind), Source: memory.SourceKind(cmd.Source),
		Superseded: cmd.Superseded, Quarantined: cmd.Quarantined, Explain: cmd.Explain}
	if cmd.AsOf != nil {
		q.AsOf = *cmd.AsOf
	}
	return cmd.open(a, all, func(ctx context.Context, o *opened) error {
		hits, err := o.Search(ctx, o.scope, q)
		if err != nil {
			return err
		}
		header := []string{"ID", "SCORE", "STATE", "VALID FROM"}
		if cmd.Explain {
			header = append(header, "COVER", "BASE", "NEIGHBOURS", "SESSION", "NAMED", "QUESTION", "BY TEXT", "BY VECTOR", "RECENCY", "MATCHED", "FOUND")
		}
		return output.List(a.Stdout, all.JSON, pages.Of(hits...), append(header, "TEXT"), func(h *memory.Hit) []string {
			row := append([]string{h.ID, figure(h.Score), stateOf(&h.MemoryEntry), output.Stamp(h.ValidFrom)}, explained(h.Explain)...)
			return append(row, output.OneLine(h.Text, shortText))
		})
	})
}

// explained returns the parts of a score as cells; none without an explanation.
func explained(x *memory.Explain) []string {
	if x == nil {
		return nil
	}
	return []string{figure(x.Cover), figure(x.Base), figure(x.Neighbours), figure(x.Session), yes(x.Named), yes(x.Question),
		figure(x.Text), figure(x.Vector), figure(x.Recency), fmt.Sprintf("%d of %d: %s", len(x.Matched), len(x.Terms), strings.Join(x.Matched, " ")), x.Found}
}

func figure(x float64) string { return fmt.Sprintf("%.3f", x) }

// yes returns yes for true; empty for false.
func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}

// one is the argument of commands about one memory.
type one struct {
	ID string `arg:"" help:"The memory's id."`
}

type showCmd struct {
	scoped
	one
}

// Run shows a memory.
func (cmd *showCmd) Run(a *cli.App, all *flags) error {
	return cmd.read(a, all, func(ctx context.Context, o *opened) error {
		e, err := o.Get(ctx, o.scope, cmd.ID)
		switch {
		case err != nil:
			return err
		case all.JSON:
			return output.JSON(a.Stdout, e)
		}
		return output.Fields(a.Stdout, fieldsOf(e))
	})
}

// fieldsOf returns the names and values that show prints.
func fieldsOf(e *memory.Entry) [][2]string {
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	when := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return output.Stamp(t)
	}
	importance := ""
	if e.Importance > 0 {
		importance = fmt.Sprint(e.Importance)
	}
	return [][2]string{
		{"memory", e.ID}, {"kind", string(e.Kind)}, {"state", stateOf(e)}, {"text", e.Text}, {"entity", e.Entity},
		{"attribute", e.Attribute}, {"keys", strings.Join(e.Keys, "; ")}, {"speaker", e.Speaker}, {"importance", importance},
		{"source", string(e.Source.Kind)}, {"session", e.Source.Session}, {"turn", number(e.Source.Turn)}, {"message", e.Source.Message}, {"tool", e.Source.Tool},
		{"about", e.About}, {"version", number(e.Version)}, {"supersedes", strings.Join(e.Supersedes, ", ")}, {"superseded by", e.SupersededBy},
		{"valid from", when(e.ValidFrom)}, {"valid until", when(e.ValidUntil)}, {"stored", when(e.StoredAt)}, {"expires", when(e.ExpiresAt)},
	}
}

type historyCmd struct {
	scoped
	one
}

// Run lists the versions of a memory.
func (cmd *historyCmd) Run(a *cli.App, all *flags) error {
	return cmd.read(a, all, func(ctx context.Context, o *opened) error {
		versions, err := o.History(ctx, o.scope, cmd.ID)
		if err != nil {
			return err
		}
		return output.List(a.Stdout, all.JSON, pages.Of(versions...), []string{"ID", "VERSION", "STATE", "VALID FROM", "STORED", "TEXT"}, func(e *memory.Entry) []string {
			return []string{e.ID, fmt.Sprint(e.Version), stateOf(e), output.Stamp(e.ValidFrom), output.Stamp(e.StoredAt), output.OneLine(e.Text, shortText)}
		})
	})
}
