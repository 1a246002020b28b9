// Command cairn talks to a demo agent, looks at and changes stored sessions, answers calls that wait for somebody, goes on
// with what is ready or was left by a dead process, and looks after the stores that hold all this.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], environmentOf(os.Environ()), os.Stdin, os.Stdout, os.Stderr))
}
