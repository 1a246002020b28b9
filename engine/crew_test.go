package engine

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

func TestCrewKeepsItsGoroutines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c crew
		defer c.close()
		for round := range 3 {
			var ran sync.WaitGroup
			ran.Add(maxIdle + 5)
			for range maxIdle + 5 {
				c.run(func() {
					ran.Done()
					ran.Wait() // so that all of them run at once
				})
			}
			ran.Wait()
			synctest.Wait()
			if n := len(c.idle); n != maxIdle {
				t.Errorf("round %d: %d idle goroutines, want %d", round, n, maxIdle)
			}
		}
	})
}

func TestCrewOutlivesAGoroutineThatEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c crew
		defer c.close()
		for range 3 {
			c.run(func() {})
			synctest.Wait()
			c.run(runtime.Goexit)
			synctest.Wait()
		}
		if n := len(c.idle); n != 0 {
			t.Errorf("%d idle goroutines, want none", n)
		}
	})
}

// A goroutine that is left behind would keep the bubble from ending.
func TestClosedCrewKeepsNoGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c crew
		held := make(chan struct{})
		c.run(func() { <-held })
		c.run(func() {})
		synctest.Wait()
		c.close() // does not wait for a function under way
		close(held)
		ran := false
		c.run(func() { ran = true })
		synctest.Wait()
		if !ran {
			t.Error("a function was not called after close")
		}
	})
}
