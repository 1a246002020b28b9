//go:build demo && !serve

package main

// serving holds no commands in the demo build.
type serving struct{}
