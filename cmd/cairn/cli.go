package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

// Exit codes.
const (
	exitOK       = 0
	exitFailure  = 1
	exitUsage    = 2
	exitNotFound = 3
	exitDecided  = 4 // somebody else's answer counts, or the deadline's
)

// grammar is the command line.
type grammar struct {
	Demo     demoCmd     `cmd:"" help:"Talk to a support agent over a small shop. Lines on standard input work too."`
	Sessions sessionsCmd `cmd:"" help:"Look at stored sessions and change them."`
	Inbox    inboxCmd    `cmd:"" help:"See to calls that wait for somebody: approve, deny, answer, claim them."`
	Work     workCmds    `cmd:"" help:"Be a worker, or look at all workers."`
	Removal  removalCmds `embed:""`
	Store    storeCmd    `cmd:"" help:"Copy sessions from one store to another."`
	Migrate  migrateCmd  `cmd:"" help:"Make the tables of a store, or tell how far they are."`
	Version  versionCmd  `cmd:"" help:"Print the version."`
}

// app is what a command works with.
type app struct {
	program string // how the program is called, for commands that it prints
	env     environment
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	// engine is the clock, the ids and the pace of events of every engine; its zero value is right outside of tests.
	engine engine.Options
}

// environment is the variables of a process.
type environment map[string]string

// environmentOf reads variables of the form name=value.
func environmentOf(variables []string) environment {
	env := environment{}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	return env
}

// run performs one command line and returns its exit code.
func run(args []string, env environment, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{program: called(os.Args[0]), env: env, stdin: stdin, stdout: stdout, stderr: stderr}
	return a.run(args)
}

func (a *app) run(args []string) (code int) {
	defer func() { // kong leaves through here after it printed help
		if p := recover(); p != nil {
			exit, ok := p.(helpShown)
			if !ok {
				panic(p)
			}
			code = int(exit)
		}
	}()
	parser, err := kong.New(&grammar{},
		kong.Name("cairn"),
		kong.Description("Durable agent sessions."),
		kong.Writers(a.stdout, a.stderr),
		kong.Exit(func(code int) { panic(helpShown(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"model": defaultModel(a.env), "session": defaultSession},
		kong.Bind(a),
	)
	if err != nil {
		return a.fail(err)
	}
	command, err := parser.Parse(args)
	if err != nil {
		return a.fail(usageError{err})
	}
	return a.fail(command.Run())
}

// called returns how to call a program that was started as name. go run leaves its programs in the build cache.
func called(name string) string {
	if strings.Contains(filepath.ToSlash(name), "/go-build") {
		return "go run " + buildFlags + "./cmd/cairn"
	}
	return quoted(name)
}

type helpShown int

// usageError is a mistake on the command line.
type usageError struct{ error }

func misuse(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// fail reports an error, if there is one, in one line and returns the exit code.
func (a *app) fail(err error) int {
	if err == nil {
		return exitOK
	}
	if errors.Is(err, errDecided) { // which was printed
		return exitDecided
	}
	fmt.Fprintln(a.stderr, "cairn:", strings.Join(strings.Fields(err.Error()), " "))
	var usage usageError
	switch {
	case errors.As(err, &usage), errors.Is(err, cairn.ErrInvalid):
		return exitUsage
	case errors.Is(err, cairn.ErrNotFound):
		return exitNotFound
	}
	return exitFailure
}

// untilStopped returns a context that ends when the process is asked to go, by Ctrl-C too.
func untilStopped() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

func orElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}
