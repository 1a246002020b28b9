package record_test

import (
	"bytes"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/modeltest"
	"github.com/cairn-agents/cairn/model/record"
)

// The suite's requests are the same each time, so a player has the replies that were recorded before. It cannot stall.
func TestConformance(t *testing.T) {
	t.Parallel()
	sample, opts := modeltest.Sample()
	var file bytes.Buffer
	recorder := record.New(sample, &file)
	t.Run("recorder", func(t *testing.T) {
		modeltest.Run(t, func(testing.TB) cairn.Model { return recorder }, opts)
	})
	played := *opts
	played.Stall, played.Without = nil, []modeltest.Ability{modeltest.Stalls}
	t.Run("player", func(t *testing.T) {
		player, err := record.Read(&file)
		if err != nil {
			t.Fatal(err)
		}
		modeltest.Run(t, func(testing.TB) cairn.Model { return player }, &played)
	})
}
