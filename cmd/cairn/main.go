// Command cairn talks to a demo agent, looks at and changes stored sessions, and drives on what a dead process left.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)) }
