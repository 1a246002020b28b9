// Command cairn talks to a demo agent, looks at and changes stored sessions, answers calls that wait for somebody, and goes
// on with what is ready or was left by a dead process.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)) }
