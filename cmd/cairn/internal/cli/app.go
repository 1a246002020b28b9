// Package cli is what every command is given and how it ends: the process's environment and streams, the errors with
// their exit codes, a question before what cannot be undone. It knows no store, no host and no command.
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/cairn-agents/cairn/engine"
)

// App is what a command works with.
type App struct {
	Program string // how the program is called, for commands that it prints
	Env     map[string]string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	// Engine is the clock, the ids and the pace of events of every engine; its zero value is right outside of tests.
	Engine engine.Options
	// Reach is how long a host may take to be connected to; 0 is what package hosts says.
	Reach time.Duration
}

// Environment reads variables of the form name=value.
func Environment(variables []string) map[string]string {
	env := map[string]string{}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	return env
}

// UntilStopped returns a context that ends when the process is terminated, by Ctrl-C too.
func UntilStopped() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// Now is the time that ages refer to.
func (a *App) Now() time.Time {
	if a.Engine.Now != nil {
		return a.Engine.Now()
	}
	return time.Now()
}
