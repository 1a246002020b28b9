//go:build race

package engine_test

// slowdown is the factor by which a computation may exceed its time limit under the race detector.
const slowdown = 5
