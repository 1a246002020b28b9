package scripted_test

import (
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/modeltest"
)

// TestConformance runs the suite of models. Its sample is a scripted model.
func TestConformance(t *testing.T) {
	t.Parallel()
	sample, opts := modeltest.Sample()
	modeltest.Run(t, func(testing.TB) cairn.Model { return sample }, opts)
}
