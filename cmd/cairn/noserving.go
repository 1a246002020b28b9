//go:build demo && !serve

package main

// serving holds no commands in the demo's build.
type serving struct{}
