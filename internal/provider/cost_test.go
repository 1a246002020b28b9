package provider_test

import (
	"encoding/json"
	"testing"

	"github.com/cairn-agents/cairn/internal/provider"
)

func TestNanos(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]int64{"0": 0, "0.95": 950_000_000, "1.2e-7": 120, "1e-9": 1, "0.0000000011": 2, "0.1": 100_000_000, "19": 19_000_000_000,
		"2.5E-5": 25_000, "0.30000000000000004": 300_000_001} {
		if got, ok := provider.Nanos(json.RawMessage(raw), provider.Dollar); !ok || got != want {
			t.Errorf("%s dollars are %d, %t, want %d", raw, got, ok, want)
		}
	}
	if got, ok := provider.Nanos(json.RawMessage("37756001"), provider.Tick); !ok || got != 3_775_601 {
		t.Errorf("ticks: %d, %t", got, ok)
	}
	for _, raw := range []string{"", "null", `"0.1"`, "-1", "{}", "[1]", "true", "1e999999999", "1e19", "1e7", "0x10", "1_000", "NaN", "Inf", "1/3", "1.0000000000000000000000000000000000000000001"} {
		if got, ok := provider.Nanos(json.RawMessage(raw), provider.Dollar); ok {
			t.Errorf("%s is taken for a cost of %d", raw, got)
		}
	}
	for _, raw := range []string{"1e-999999999", "1e-30"} {
		if got, ok := provider.Nanos(json.RawMessage(raw), provider.Dollar); ok && got > 1 {
			t.Errorf("%s dollars are %d", raw, got)
		}
	}
}
