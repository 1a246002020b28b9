package demo

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// glance is the interval at which the session is looked at while the demo waits for a line.
const glance = 500 * time.Millisecond

// watched calls ask, which waits for a line. At a terminal it wakes it once another process has changed the session:
// started or ended a run, or answered one of its calls. before is the state that the user has seen.
func (c *chat) watched(ctx context.Context, before string, ask func() error) error {
	if !c.Prompting { // lines were written for what was there before
		return ask()
	}
	watching, stop := context.WithCancel(ctx)
	wake := make(chan struct{}, 1)
	c.Wake = wake
	var wg sync.WaitGroup
	defer func() {
		stop()
		wg.Wait()
		c.Wake = nil
	}()
	wg.Go(func() {
		ticker := time.NewTicker(glance)
		defer ticker.Stop()
		for {
			select {
			case <-watching.Done():
				return
			case <-ticker.C:
			}
			if now := c.state(watching); now != "" && now != before {
				wake <- struct{}{}
				return
			}
		}
	})
	return ask()
}

// state identifies what another process may change about the session; empty if it cannot be read, or there is no session.
func (c *chat) state(ctx context.Context) string {
	row, err := c.eng.Session(ctx, c.session)
	if err != nil {
		return ""
	}
	open, err := c.openCalls(ctx)
	if err != nil {
		return ""
	}
	state := fmt.Sprint(row.Status, " ", row.RunID)
	for i := range open {
		state += " " + open[i].ID
	}
	return state
}
