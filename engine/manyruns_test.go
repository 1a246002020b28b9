package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// Answers that were being streamed when their process died are all taken over as soon as their leases have lapsed,
// however long the answers take.
func TestWorkerTakesOverManyRunsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		abandoned(t, st, "bot", 96)
		var asked atomic.Int64
		agent := bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
			asked.Add(1)
			return scripted.Reply(scripted.Text("Well "), scripted.Pause(9*time.Minute), scripted.Text("done"))
		}))
		defer work(t, open(t, st, agent))()
		testclock.Advance(time.Second)
		if n := asked.Load(); n != 96 {
			t.Errorf("%d of 96 answers are under way", n)
		}
	})
}

// hanging is a store in which the takeover of some sessions hangs.
type hanging struct {
	*memstore.Store
	hangs func(id string) bool
}

func (s *hanging) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	if c.Guard.Lapsed && s.hangs(id) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Commit(ctx, id, c)
}

// Takeovers that hang do not hold up the others, even if they come first and are many.
func TestHangingTakeoversHoldNoOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := &hanging{Store: memstore.New(nil)}
		abandoned(t, st, "bot", 60)
		stuck := map[string]bool{}
		for i := range 20 {
			stuck[fmt.Sprint("bot", i)] = true
		}
		st.hangs = func(id string) bool { return stuck[id] }
		var asked atomic.Int64
		agent := bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
			asked.Add(1)
			return scripted.Pause(time.Hour)
		}))
		defer work(t, open(t, st, agent))()
		testclock.Advance(5 * time.Second)
		if n := asked.Load(); n != 40 {
			t.Errorf("%d of 40 runs are under way", n)
		}
	})
}
