package main

import (
	"io"
	"os"
	"reflect"
	"time"

	"github.com/alecthomas/kong"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/demo"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/durations"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/effects"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/models"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/sessions"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/setup"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/upkeep"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/usages"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/work"
)

// grammar is the command line.
type grammar struct {
	Demo     demo.Command      `cmd:"" help:"Talk to a support agent over a small shop. Lines on standard input work too."`
	Sessions sessions.Commands `cmd:"" help:"Show and change stored sessions."`
	Inbox    inbox.Commands    `cmd:"" help:"Answer pending calls: list, approve, deny, answer, claim them."`
	Effects  effects.Commands  `cmd:"" help:"Settle effects whose outcome is unknown: list, confirm, dismiss them."`
	Usage    usages.Command    `cmd:"" help:"Print the usage and cost of all sessions, by day, user, agent, model, tool or tag."`
	Work     work.Commands     `cmd:"" help:"Run a worker, or list all workers."`
	Serving  serving           `embed:""`
	Removal  upkeep.Removal    `embed:""`
	Store    upkeep.Store      `cmd:"" help:"Copy sessions from one store to another."`
	Migrate  upkeep.Migrate    `cmd:"" help:"Create the tables of a store, or show their version."`
	Models   models.Commands   `cmd:"" help:"List models with their windows and prices; make a table of a public catalog."`
	Version  versionCmd        `cmd:"" help:"Print the version."`

	Completion  completionCmd    `cmd:"" help:"Print a script that completes commands in a shell."`
	ShowVersion kong.VersionFlag `name:"version" help:"Print the version."`
}

// run performs one command line and returns its exit code.
func run(args []string, env map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &cli.App{Program: cli.Called(os.Args[0]), Env: env, Stdin: stdin, Stdout: stdout, Stderr: stderr}
	return perform(a, args)
}

// perform performs a command line.
func perform(a *cli.App, args []string) (code int) {
	defer func() { // kong.Exit lands here after printing help
		if p := recover(); p != nil {
			exit, ok := p.(helpShown)
			if !ok {
				panic(p)
			}
			code = int(exit)
		}
	}()
	parser, err := newParser(a)
	if err != nil {
		return a.Fail(err)
	}
	command, err := parser.Parse(args)
	if err != nil {
		return a.Fail(cli.Misuse("%w", err))
	}
	return a.Fail(command.Run())
}

// newParser returns the parser of command lines. It panics with helpShown after printing help.
func newParser(a *cli.App) (*kong.Kong, error) {
	return kong.New(&grammar{},
		kong.Name("cairn"),
		kong.Description("Durable agent sessions."),
		kong.Writers(a.Stdout, a.Stderr),
		kong.Exit(func(code int) { panic(helpShown(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"model": setup.DefaultModel(a.Env), "session": demo.DefaultSession, "version": build().String()},
		kong.Bind(a),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(duration)),
	)
}

// duration reads the value of a flag that is a duration.
func duration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := durations.Parse(text)
	target.SetInt(int64(d))
	return err
}

type helpShown int
