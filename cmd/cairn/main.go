// Command cairn talks to a demo agent, shows stored sessions and changes them, answers pending calls, runs a worker,
// and looks after the stores that hold all this.
//
// What is here is the table of commands; each group of commands is a package below internal.
package main

import (
	"os"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

func main() {
	os.Exit(run(os.Args[1:], cli.Environment(os.Environ()), os.Stdin, os.Stdout, os.Stderr))
}
