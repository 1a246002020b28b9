package testenv

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Soak reports whether the tests are to give the whole proof, as `make soak` requests: every scenario on every pair
// of host and store, a crash at every operation, and long torture. Otherwise they give feedback within minutes.
func Soak() bool { return os.Getenv("CAIRN_SOAK") == "1" }

// Choose returns soak if [Soak] reports true, else test.
func Choose[T any](test, soak T) T {
	if Soak() {
		return soak
	}
	return test
}

// Kills returns the number of processes that a torture test stops: KILLS if it is set, else [Choose] of test and
// soak.
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

// Hours returns the minimum duration of a torture test, whatever [Kills] returns: HOURS, which may be a fraction;
// default 0.
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
