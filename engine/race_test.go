//go:build race

package engine_test

// slowdown is how much longer a computation may take than it should: the race detector is at work.
const slowdown = 5
