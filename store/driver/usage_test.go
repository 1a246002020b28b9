package driver_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Sessions with the largest amounts have a sum that a store can keep, so that they do not stop the folding of others.
func TestSumsOfTheLargestAmountsCanBeKept(t *testing.T) {
	t.Parallel()
	most := cairn.Usage{Custom: map[string]float64{"up": math.MaxFloat64, "down": -math.MaxFloat64}}
	a, b := driver.UsageSum{Day: "2026-11-27", Usage: most}, driver.UsageSum{Day: "2026-11-27", Usage: most}
	a.Add(&b)
	if text, err := json.Marshal(&a); err != nil || a.Usage.Custom["up"] != math.MaxFloat64 || a.Usage.Custom["down"] != -math.MaxFloat64 {
		t.Errorf("the sum is %s, error %v", text, err)
	}
}
