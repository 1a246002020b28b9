// Package cli holds what all commands share: the process's environment and streams, errors with their exit codes,
// and a question before an action that cannot be undone. It knows no store, no host and no command.
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

// App is the environment of a command.
type App struct {
	Program string // how the program is called, for the commands it prints
	Env     map[string]string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	// Engine holds the clock, the ids and the pace of events of every engine. The zero value is right outside of
	// tests.
	Engine engine.Options
	// Reach bounds the time to connect to a host; 0 means the default of package hosts.
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

// UntilStopped returns a context that ends when the process is terminated or receives Ctrl-C.
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
