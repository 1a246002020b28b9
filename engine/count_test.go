package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
)

// tallying is a narrow model whose provider counts tokens, one per so many bytes.
type tallying struct {
	bytes int
	cairn.Model
	narrow *narrow
	err    error // error of the counter
	hangs  bool
	asked  atomic.Int64
}

func (c *tallying) CountTokens(ctx context.Context, req *cairn.Request) (int64, error) {
	c.asked.Add(1)
	if c.hangs {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return int64(sizeOf(req) * 4 / c.bytes), c.err
}

// converse plays forty turns with a model, and returns the number of summaries. A silent model does not report the size
// of its requests; its provider's tokens are twice as long.
func converse(t *testing.T, silent bool, counter *tallying) (summaries int) {
	t.Helper()
	n := &narrow{window: 2000, words: 30, silent: silent}
	agent := compacting(n)
	if silent {
		agent.Compaction.Window = 1000
	}
	if counter != nil {
		counter.Model, counter.narrow, counter.bytes = agent.Model, n, 4*n.window/agent.Compaction.Window
		agent.Model = counter
	}
	eng := open(t, tapOn(nil), agent)
	for i := range 40 {
		wantStatus(t, turn(t, eng, "s", fmt.Sprintf("turn %d", i)), cairn.RunCompleted, cairn.ReasonReply)
	}
	if n.refused > 0 || n.summed == 0 {
		t.Errorf("%d requests were larger than the window, %d summaries were made", n.refused, n.summed)
	}
	return n.summed
}

// A provider is asked for a count only where it can decide something. That is rare, since each reply reports the size
// of its request.
func TestTokensAreCountedWhereThatDecides(t *testing.T) {
	t.Parallel()
	model := &tallying{}
	summaries := converse(t, false, model)
	if model.asked.Load() == 0 || model.asked.Load() > int64(3*summaries) {
		t.Errorf("for %d summaries and %d replies the provider has counted %d times", summaries, model.narrow.calls, model.asked.Load())
	}
	estimated := converse(t, true, nil)
	model = &tallying{}
	counted := converse(t, true, model)
	if counted >= estimated || model.asked.Load() == 0 {
		t.Errorf("without the sizes of replies there are %d summaries by the provider's count, %d by an estimate that is too high", counted, estimated)
	}
}

// A provider that does not count, or not in time, leaves the decision to the estimate.
func TestEstimateStandsWhereTokensAreNotCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		estimated := converse(t, true, nil)
		for name, model := range map[string]*tallying{
			"fails": {err: cairn.Errorf(cairn.ErrOverloaded, "busy")}, "cannot count": {err: errors.ErrUnsupported}, "hangs": {hangs: true},
		} {
			began := time.Now()
			summaries := converse(t, true, model)
			if summaries != estimated || model.asked.Load() == 0 {
				t.Errorf("%s: %d summaries, want %d; asked %d times", name, summaries, estimated, model.asked.Load())
			}
			if took := time.Since(began); took > time.Duration(model.asked.Load())*10*time.Second {
				t.Errorf("%s: %d counts took %s", name, model.asked.Load(), took)
			}
		}
	})
}
