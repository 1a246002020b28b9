package memory

import (
	"context"
	"log/slog"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A call whose turn's time is over counts as well: it has been paid.
func TestCostCountsAfterTheEndOfItsTime(t *testing.T) {
	t.Parallel()
	d := &dailyCost{records: memstore.New(nil).Records(), key: "bot/2026-11-27", limit: 10}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d.add(ctx, cairn.Usage{ModelCalls: 1, PricedCalls: 1, CostNanos: 10}, slog.New(slog.DiscardHandler))
	if over, err := d.reached(t.Context()); !over || err != nil {
		t.Errorf("reached: %t, %v", over, err)
	}
}
