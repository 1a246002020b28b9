package memories

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/memory"
)

// content is what add and correct take.
type content struct {
	Text       string     `arg:"" help:"The text, as a sentence that can be understood by itself."`
	Entity     string     `placeholder:"NAME" help:"The person or thing that it is about."`
	Attribute  string     `placeholder:"NAME" help:"The property that it states, such as home or diet."`
	Key        []string   `placeholder:"TEXT" sep:"none" help:"Other names, or questions that it answers. They are searched and not shown. May be repeated."`
	Speaker    string     `placeholder:"NAME" help:"The person or agent that said it."`
	Source     string     `default:"application" placeholder:"SOURCE" help:"Where it comes from: user_said, tool_returned, agent_inferred or application. Default: application."`
	Importance float64    `placeholder:"NUMBER" help:"From 0 to 1. The least important memories are removed first when there are too many. Default: 0."`
	ValidFrom  *time.Time `placeholder:"TIME" help:"When it became true, such as 2030-01-31T12:00:00Z. Default: now."`
	ValidUntil *time.Time `placeholder:"TIME" help:"When it stops being true. Default: never."`
	Expires    *time.Time `placeholder:"TIME" help:"When it is removed. Default: never, or after the retention of the agents."`
}

// entry returns the memory that the flags describe.
func (c *content) entry() memory.Entry {
	e := memory.Entry{Text: c.Text, Entity: c.Entity, Attribute: c.Attribute, Keys: c.Key, Speaker: c.Speaker, Importance: c.Importance,
		Source: memory.Source{Kind: memory.SourceKind(c.Source)}}
	for _, t := range []struct {
		to   *time.Time
		from *time.Time
	}{{&e.ValidFrom, c.ValidFrom}, {&e.ValidUntil, c.ValidUntil}, {&e.ExpiresAt, c.Expires}} {
		if t.from != nil {
			*t.to = *t.from
		}
	}
	return e
}

type addCmd struct {
	scoped
	content
	ID         string   `placeholder:"ID" help:"The memory's id. If a memory with this id and text exists, nothing changes. Default: a random one."`
	Kind       string   `default:"fact" placeholder:"KIND" help:"said or fact. Default: fact."`
	About      string   `placeholder:"ID" help:"The memory of kind said that the fact is taken from."`
	Supersedes []string `placeholder:"ID" sep:"none" help:"A memory that this one replaces. May be repeated."`
	Quarantine bool     `help:"Keep it out of searches until it is promoted. That is the default for the source tool_returned."`
}

// Run adds a memory.
func (cmd *addCmd) Run(a *cli.App, all *flags) error {
	e := cmd.entry()
	e.ID, e.Kind, e.About, e.Supersedes = cmd.ID, memory.Kind(cmd.Kind), cmd.About, cmd.Supersedes
	if cmd.Quarantine {
		e.State = memory.Quarantined
	}
	return cmd.open(a, all, func(ctx context.Context, o *opened) error {
		list, err := o.Add(ctx, o.scope, e)
		switch {
		case err != nil:
			return err
		case list[0].Text != e.Text:
			return cairn.Errorf(cairn.ErrExists, "--id: memory %q exists and has another text; correct it instead", e.ID)
		}
		return all.report(a, &list[0], "Memory %s of %s is %s.", list[0].ID, o.owner, stateOf(&list[0]))
	})
}

type correctCmd struct {
	scoped
	one
	content
}

// Run adds a newer version of a memory.
func (cmd *correctCmd) Run(a *cli.App, all *flags) error {
	return cmd.open(a, all, func(ctx context.Context, o *opened) error {
		e, err := o.Correct(ctx, o.scope, cmd.ID, cmd.entry())
		switch {
		case err != nil:
			return err
		case e.SupersededBy != "":
			return all.report(a, e, "Memory %s is an earlier version of %s.", e.ID, e.SupersededBy)
		case e.State == memory.Quarantined:
			return all.report(a, e, "Memory %s is quarantined. It replaces %s once it is promoted.", e.ID, cmd.ID)
		}
		return all.report(a, e, "Memory %s supersedes %s.", e.ID, cmd.ID)
	})
}

// report prints a memory after a change: as JSON, or in words.
func (all *flags) report(a *cli.App, e *memory.Entry, format string, args ...any) error {
	if all.JSON {
		return output.JSON(a.Stdout, e)
	}
	_, err := fmt.Fprintf(a.Stdout, format+"\n", args...)
	return err
}

// agreed is the flag of commands that cannot be undone.
type agreed struct {
	Yes bool `short:"y" help:"Do not ask for confirmation."`
}

// confirm asks a question, unless the flag answers it. The error is ErrNotExecuted if the answer is no.
func (f *agreed) confirm(ctx context.Context, a *cli.App, verb, question string) error {
	if f.Yes {
		return nil
	}
	yes, err := cli.Confirm(ctx, a, verb, question+" This cannot be undone.")
	if err == nil && !yes {
		err = cairn.Errorf(cairn.ErrNotExecuted, "%s: not confirmed", verb)
	}
	return err
}

type forgetCmd struct {
	scoped
	agreed
	IDs []string `arg:"" name:"id" help:"The ids of memories."`
}

// forgotten is the JSON output of forget.
type forgotten struct {
	Removed int `json:"removed"`
}

// Run deletes memories. It deletes none if one does not exist.
func (cmd *forgetCmd) Run(a *cli.App, all *flags) error {
	return cmd.open(a, all, func(ctx context.Context, o *opened) error {
		for _, id := range cmd.IDs {
			if _, err := o.Get(ctx, o.scope, id); err != nil {
				return err
			}
		}
		if err := cmd.confirm(ctx, a, "forget", fmt.Sprintf("Forget %s of %s, with all versions and facts?", strings.Join(cmd.IDs, ", "), o.owner)); err != nil {
			return err
		}
		n, err := o.Forget(ctx, o.scope, cmd.IDs...)
		if err != nil {
			return err
		}
		if all.JSON {
			return output.JSON(a.Stdout, forgotten{n})
		}
		_, err = fmt.Fprintf(a.Stdout, "Removed %s of %s.\n", memories(n), o.owner)
		return err
	})
}

type redactCmd struct {
	scoped
	agreed
	one
}

// Run removes the text of a version.
func (cmd *redactCmd) Run(a *cli.App, all *flags) error {
	return cmd.open(a, all, func(ctx context.Context, o *opened) error {
		e, err := o.Get(ctx, o.scope, cmd.ID)
		if err != nil {
			return err
		}
		if err := cmd.confirm(ctx, a, "redact", fmt.Sprintf("Redact memory %s of %s: %q?", e.ID, o.owner, output.OneLine(e.Text, shortText))); err != nil {
			return err
		}
		if e, err = o.Redact(ctx, o.scope, cmd.ID); err != nil {
			return err
		}
		return all.report(a, e, "Memory %s of %s is redacted.", e.ID, o.owner)
	})
}

type promoteCmd struct {
	scoped
	one
}

// Run makes a memory active.
func (cmd *promoteCmd) Run(a *cli.App, all *flags) error {
	return cmd.open(a, all, func(ctx context.Context, o *opened) error {
		e, err := o.Promote(ctx, o.scope, cmd.ID)
		if err != nil {
			return err
		}
		return all.report(a, e, "Memory %s of %s is %s.", e.ID, o.owner, stateOf(e))
	})
}
