package memory_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/store/memstore"
)

// priced is a model whose calls cost 0.4 dollars each.
type priced struct {
	cairn.Model
	calls *int
}

func (p priced) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	*p.calls++
	return func(yield func(cairn.Chunk, error) bool) {
		for c, err := range p.Model.Stream(ctx, req) {
			if c.Type == cairn.ChunkFinish && !yield(cairn.Chunk{Type: cairn.ChunkUsage, Usage: cairn.Usage{CostNanos: 400_000_000, PricedCalls: 1}}, nil) {
				return
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// Extraction costs at most its daily limit and the calls in progress; the texts of turns are kept all the same.
func TestExtractionHasADailyLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		st := memstore.New(nil)
		opts := memory.Options{Agent: memory.AgentOptions{Extract: &memory.Extract{Model: priced{extracts("Ann lives in Bonn."), &calls}, DailyUSD: 1}}}
		first, second := newHouseOn(t, st, opts), newHouseOn(t, st, opts) // as in two processes
		one, _ := first.agent()
		two, _ := second.agent()
		for i, say := range []string{"one", "two", "three", "four", "five"} {
			if i%2 == 0 {
				first.say(one, "ann", say, "I am Ann, this is "+say)
			} else {
				second.say(two, "ann", say, "I am Ann, this is "+say)
			}
		}
		if calls != 3 {
			t.Errorf("%d calls of the model", calls)
		}
		said, err := first.mem.List(t.Context(), memory.User("ann"), memory.ListQuery{Kind: memory.Said, Source: memory.UserSaid})
		if err != nil || len(said.Items) != 5 {
			t.Errorf("%d texts, error %v", len(said.Items), err)
		}
		testclock.Advance(24 * time.Hour)
		first.say(one, "ann", "six", "the next day")
		if calls != 4 {
			t.Errorf("%d calls of the model after the next day's first turn", calls)
		}
	})
}

func TestDailyLimitIsChecked(t *testing.T) {
	t.Parallel()
	for _, usd := range []float64{-1, 2e9} {
		_, err := memory.New(memstore.New(nil), &memory.Options{Agent: memory.AgentOptions{Extract: &memory.Extract{DailyUSD: usd}}})
		if e := cairn.AsError(err); !errors.Is(err, cairn.ErrInvalid) || e.Field != "agent.extract.daily_usd" {
			t.Errorf("%v: %v", usd, err)
		}
	}
}
