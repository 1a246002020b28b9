// Package chat is a conversation with an agent of a server: what the user types, what the screen shows, and how a
// session continues although other clients change it and the server restarts. It reaches the server through package
// client only.
package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/remote"
	"github.com/cairn-agents/cairn/internal/ids"
)

// Command is the command that talks to an agent of a server.
type Command struct {
	remote.Server
	Session string `placeholder:"ID" help:"Session to begin or continue. Default: a new one."`
	Agent   string `placeholder:"NAME" help:"The agent of a new session."`
	Tenant  string `placeholder:"NAME" help:"The tenant as which to act, for a token of the whole platform. Default: that of the token."`
}

// Run talks until the input ends.
func (cmd *Command) Run(a *cli.App) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)

	c, address, err := cmd.Client(a, cmd.Tenant)
	if err != nil {
		return err
	}
	if cmd.Session != "" {
		if err := cairn.CheckSessionID(cmd.Session); err != nil {
			return err
		}
	}
	talk := newChat(a, c, cmp.Or(cmd.Session, ids.New("chat")), cmd.Agent, interrupts)
	talk.again = fmt.Sprintf("%s chat --url %s --session %s", talk.program, cli.Quoted(address), cli.Quoted(talk.session))
	if cmd.Tenant != "" {
		talk.again += " --tenant " + cmd.Tenant
	}
	talk.Note(fmt.Sprintf("Session %q at %s. /help lists the commands.", talk.session, address))
	return talk.talk(ctx)
}

// errInterrupted is the outcome of an interrupted answer.
var errInterrupted = cairn.Errorf(cairn.ErrNotExecuted, "the answer was interrupted")

// passing reports whether err is that of a restarting server, after which the request may be repeated.
func passing(err error) bool {
	return errors.Is(err, cairn.ErrUnavailable) || errors.Is(err, cairn.ErrClosed)
}
