package durations_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/durations"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "1w": 7 * day, "1w2d": 9 * day, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour, "0.5w": 84 * time.Hour, "0d": 0, "0": 0,
		"90s": 90 * time.Second, "24h": day, "1h30m": 90 * time.Minute, "30ms": 30 * time.Millisecond, "5µs": 5 * time.Microsecond, "7ns": 7,
		"-1d": -day, "+2d": 2 * day, "1.s": time.Second, "106751d": 106751 * day,
	} {
		if got, err := durations.Parse(text); err != nil || got != want {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"": "such as", "d": "such as", "1": "such as", "1y": "such as", "1 d": "such as", "1d ": "such as", "--1d": "such as", "1.2.3d": "such as", "1e3d": "such as",
		"1D": "such as", "0x1d": "such as", "1d2": "such as", "106752d": "292 years", "9999999999999w": "292 years", strings.Repeat("9", 400) + "d": "such as",
	} {
		if got, err := durations.Parse(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q is %v, %v", text, got, err)
		}
	}
}

// FuzzParse compares with time.ParseDuration where that has the units.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"1h30m", "1.5s", "-2ms", "30d", "1w", "0", "1.", ".5s", "9223372036854775807ns"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := durations.Parse(text)
		want, known := time.ParseDuration(text)
		if err == nil && known == nil && got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	})
}
