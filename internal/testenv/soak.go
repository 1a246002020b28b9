package testenv

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Soak reports whether the tests are to give the whole proof, as `make soak` asks: every scenario on every pair of host
// and store, a crash at every operation, and long torture. Without it they give feedback within minutes.
func Soak() bool { return os.Getenv("CAIRN_SOAK") == "1" }

// Choose returns the second value if [Soak] says so, else the first.
func Choose[T any](test, soak T) T {
	if Soak() {
		return soak
	}
	return test
}

// Kills returns how many processes a test of torture stops: KILLS if that is set, else test, or soak if [Soak] says so.
func Kills(tb testing.TB, test, soak int) int {
	tb.Helper()
	kills := Choose(test, soak)
	if raw := os.Getenv("KILLS"); raw != "" {
		n, err := strconv.Atoi(raw)
		if err != nil || n < 1 {
			tb.Fatalf("KILLS=%s: want a number above 0", raw)
		}
		kills = n
	}
	return kills
}

// Hours returns how long a test of torture lasts at least, whatever [Kills] says: HOURS, which may have a fraction,
// or 0.
func Hours(tb testing.TB) time.Duration {
	tb.Helper()
	raw := os.Getenv("HOURS")
	if raw == "" {
		return 0
	}
	n, err := strconv.ParseFloat(raw, 64)
	if err != nil || !(n >= 0 && n < 1000) {
		tb.Fatalf("HOURS=%s: want a number of hours", raw)
	}
	return time.Duration(n * float64(time.Hour))
}
