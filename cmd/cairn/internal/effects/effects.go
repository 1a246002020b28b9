// Package effects holds the commands about the ledger of effects: list, confirm, dismiss.
package effects

import (
	"context"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/calls"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

// flags are the flags that all commands share.
type flags struct {
	At   stores.Tenanted `embed:""`
	JSON bool            `name:"json" help:"Print JSON: a page of effects, or an effect."`
}

// Commands are the commands about effects.
type Commands struct {
	Shared flags `embed:""`

	List    listCmd    `cmd:"" help:"List the calls of effectful tools, the oldest first."`
	Confirm confirmCmd `cmd:"" help:"Record that an unknown effect happened."`
	Dismiss dismissCmd `cmd:"" help:"Record that an unknown effect did not happen."`
}

// Help returns the details for --help.
func (Commands) Help() string {
	return `EFFECT is an effect's id, or a prefix of it that no other effect's id has.

An effect is unknown if its process died, or its run was stopped, during the call. If a run waits for it, confirm and
dismiss answer the pending call: "cairn work", or any process that has the agent, resumes the session. The command
needs no agent.`
}

// AfterApply binds the shared flags for each command.
func (c *Commands) AfterApply(k *kong.Context) error {
	k.Bind(&c.Shared)
	return nil
}

type listCmd struct {
	User    string   `help:"Only effects of this user's sessions."`
	Agent   string   `help:"Only effects of this agent."`
	Tool    string   `help:"Only effects of this tool."`
	Session string   `help:"Only effects of this session's tree."`
	State   []string `placeholder:"STATE" help:"Only effects in these states: sent, unknown, confirmed or failed."`
	Limit   int      `default:"50" help:"The maximum number, 1 to 1000. Default: 50."`
	Cursor  string   `help:"Continue an earlier list from its cursor."`
}

// Run lists effects.
func (cmd *listCmd) Run(a *cli.App, all *flags) error {
	if cmd.Limit < 1 || cmd.Limit > 1000 {
		return cli.Misuse("--limit: %d is not between 1 and 1000", cmd.Limit)
	}
	session, err := all.At.ID("--session", cmd.Session)
	if err != nil {
		return err
	}
	user, err := all.At.ID("--user", cmd.User)
	if err != nil {
		return err
	}
	q := engine.EffectQuery{Tenant: all.At.Selected(), RootID: session, UserID: user, Agent: cmd.Agent, Tool: cmd.Tool, Cursor: cmd.Cursor, Limit: cmd.Limit}
	for _, s := range cmd.State {
		q.States = append(q.States, cairn.EffectState(s))
	}
	return all.At.Inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		page, err := eng.Effects(ctx, q)
		for err == nil && len(page.Items) == 0 && page.Next != "" {
			q.Cursor = page.Next
			page, err = eng.Effects(ctx, q)
		}
		if err != nil {
			return err
		}
		if all.JSON {
			page.Items = append([]cairn.PendingCall{}, page.Items...) // an empty list encodes as []
			return output.JSON(a.Stdout, page)
		}
		now := a.Now()
		header := []string{"EFFECT", "SESSION", "TOOL", "INPUT", "STATE", "ATTEMPTS", "SENT", "KEY"}
		err = output.List(a.Stdout, false, pages.Of(page.Items...), header, func(c *cairn.PendingCall) []string {
			return []string{c.ID, c.RootID, c.Tool, output.OneLine(string(c.Input), shortInput), state(c), fmt.Sprint(c.Effect.Attempts),
				output.Age(now, c.Effect.SentAt), c.Effect.Key}
		})
		if err == nil && page.Next != "" {
			_, err = fmt.Fprintf(a.Stderr, "There are more: --cursor %s\n", cli.Quoted(page.Next))
		}
		return err
	})
}

// shortInput is the number of characters of a call's arguments in a table.
const shortInput = 40

// state returns the state of an effect, and whether a run waits for a person.
func state(c *cairn.PendingCall) string {
	if c.Status == cairn.CallOpen {
		return string(c.Effect.State) + ", pending"
	}
	return string(c.Effect.State)
}

// settlement is what confirm and dismiss take.
type settlement struct {
	Effect string `arg:"" help:"The effect's id or its beginning."`
	By     string `placeholder:"NAME" required:"" help:"Who found out."`
	Notes  string `placeholder:"TEXT" help:"How, for the audit trail."`
}

type confirmCmd struct{ settlement }

// Run records that an effect happened.
func (cmd *confirmCmd) Run(a *cli.App, all *flags) error { return all.settle(a, &cmd.settlement, true) }

type dismissCmd struct{ settlement }

// Run records that an effect did not happen.
func (cmd *dismissCmd) Run(a *cli.App, all *flags) error {
	return all.settle(a, &cmd.settlement, false)
}

func (all *flags) settle(a *cli.App, s *settlement, happened bool) error {
	return all.At.Inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		call, err := find(ctx, eng, all.At.Selected(), s.Effect)
		if err == nil {
			call, err = eng.SettleEffect(ctx, call.RootID, call.ID, engine.EffectSettlement{Happened: happened, By: s.By, Notes: s.Notes})
		}
		switch {
		case err != nil:
			return err
		case all.JSON:
			return output.JSON(a.Stdout, call)
		case call.Status == cairn.CallAnswered:
			_, err = fmt.Fprintf(a.Stdout, "%s of session %s: answered by %s. The session can be resumed now.\n", call.Tool, call.RootID, s.By)
		default:
			_, err = fmt.Fprintf(a.Stdout, "%s of session %s is %s.\n", call.Tool, call.RootID, call.Effect.State)
		}
		return err
	})
}

// find returns the effect of a tenant (nil means any) with the given id, or the only one whose id has it as a prefix. Its
// errors are those of [calls.Match].
func find(ctx context.Context, eng *engine.Engine, tenant *string, id string) (*cairn.PendingCall, error) {
	return calls.Match("effect", id, pages.All(func(cursor string) (store.Page[cairn.PendingCall], error) {
		return eng.Effects(ctx, engine.EffectQuery{Tenant: tenant, Cursor: cursor, Limit: 1000})
	}))
}
