package limit_test

import (
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/limit"
	"github.com/cairn-agents/cairn/model/modeltest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	sample, opts := modeltest.Sample()
	modeltest.Run(t, func(testing.TB) cairn.Model {
		return limit.New(sample, limit.Options{RequestsPerMinute: 1_000_000, TokensPerMinute: 1_000_000_000})
	}, opts)
}
