// Package testclock advances, passes and awaits time in tests: on the fake clock of a bubble of [testing/synctest], or
// on the real clock outside of one. Only tests and packages of tests import it.
package testclock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Advance moves the fake clock of the caller's bubble by d, past every timer that is due until then, and returns once
// the other goroutines of the bubble are blocked again. It panics outside of a bubble. One goroutine of a bubble may call
// it at a time.
func Advance(d time.Duration) {
	time.Sleep(d) // Moves the fake clock.
	synctest.Wait()
}

// Pause returns after d, or with the error of ctx as soon as that has ended. It stands for the work of a tool, a model or a
// store, or for the time between two calls.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Deaf returns after d. It stands for the work of code that ignores its context.
func Deaf(d time.Duration) {
	time.Sleep(d) // Unlike a pause, nothing ends it early.
}

// patience is how long [Await] waits: longer than anything takes on a busy machine.
const patience = 2 * time.Minute

// Await returns once done reports true, and fails the test if it does not within two minutes. The text what completes
// "waited for", as does "the run to end". The calls of done come from the caller's goroutine, see [Poll].
func Await(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := Poll(ctx, done); err != nil {
		tb.Fatalf("waited %s for %s", patience, what)
	}
}

// Poll returns once done reports true, or the error of ctx if that ends first. Between two calls of done it waits for a
// twentieth of the time that has passed: at least a millisecond, at most a second.
func Poll(ctx context.Context, done func() bool) error {
	for began := time.Now(); !done(); {
		if err := Pause(ctx, min(max(time.Millisecond, time.Since(began)/20), time.Second)); err != nil {
			return err
		}
	}
	return nil
}
