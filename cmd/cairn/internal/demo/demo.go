// Package demo is a conversation with the support agent: what the user types, what the screen shows, and how a
// session is resumed that another process left or holds. Package desk opens what it needs.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/setup"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
)

// Command is the command that talks to the demo's agent.
type Command struct {
	Setup   setup.Flags `embed:""`
	Session string      `default:"${session}" help:"Session to begin or resume. Default: demo."`
	Tenant  string      `placeholder:"NAME" help:"The tenant of the session and the customer. Default: none."`
	User    string      `help:"The customer; the first name, such as ada, is enough."`
	Yes     bool        `short:"y" help:"Approve every refund without asking."`
	Serve   bool        `default:"true" negatable:"" help:"With --host, also execute effects in this process; otherwise only workers do."`
}

// Run talks until the input ends.
func (cmd *Command) Run(a *cli.App) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)

	if cmd.Session, err = stores.IDIn(cmd.Tenant, "--session", cmd.Session); err != nil {
		return err
	}
	if err := cairn.CheckSessionID(cmd.Session); err != nil {
		return err
	}
	d, err := setup.Open(ctx, a, cmd.Setup, setup.Options{Serve: cmd.Serve, Drain: grace})
	if err != nil {
		return err
	}
	c := newChat(a, d, cmd.Session, interrupts)
	c.user, c.yes = cmd.User, cmd.Yes
	defer func() { err = errors.Join(err, d.Close(ctx, c.patience())) }()
	model := d.Model.Name
	if d.Model.Provider != model {
		model = d.Model.Provider + ":" + model
	}
	c.Note(fmt.Sprintf("Session %q in %s, model %s.", cmd.Session, d.At, model))
	switch {
	case d.Host != nil && cmd.Serve:
		c.Note(fmt.Sprintf("Runs are driven by %s and executed here or by any worker.", d.Host))
	case d.Host != nil:
		c.Note(fmt.Sprintf("Runs are driven by %s and executed by workers: %s work%s", d.Host, c.program, d.At.Option()+d.Host.Option()))
	}
	if d.Model.Name == setup.UsualModel && a.Env["OPENAI_MODEL"] == "" {
		c.Note("Set OPENAI_MODEL, or give --model openai-chat:NAME, to have another model answer.")
	}
	return c.talk(ctx)
}
