//go:build !race

package engine_test

// slowdown is how much longer a computation may take than it should.
const slowdown = 1
