// Command cairn talks to a demo agent, shows and changes stored sessions, answers pending calls, runs a worker, and
// maintains the stores.
//
// This package holds the table of commands. Each group of commands is a package below internal.
package main

import (
	"os"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

func main() {
	os.Exit(run(os.Args[1:], cli.Environment(os.Environ()), os.Stdin, os.Stdout, os.Stderr))
}
