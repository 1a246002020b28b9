// Package durations reads durations as people write them, in files and on the command line.
package durations

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"time"
)

// units are those of [time.ParseDuration], days of 24 hours, and weeks.
var units = map[string]time.Duration{"ns": 1, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond, "ms": time.Millisecond,
	"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}

var (
	whole = regexp.MustCompile(`^(?:(?:[0-9]{1,19}(?:\.[0-9]{0,18})?)(?:ns|us|µs|μs|ms|s|m|h|d|w))+$`)
	piece = regexp.MustCompile(`([0-9.]+)([a-zµμ]+)`)
)

// Parse reads a duration such as 90s, 30d, 1w or 1d12h: one or several numbers with units, which are those of
// [time.ParseDuration], days of 24 hours, and weeks. "0" needs no unit, and a sign may come first.
func Parse(text string) (time.Duration, error) {
	rest, negative := strings.CutPrefix(text, "-")
	if !negative {
		rest = strings.TrimPrefix(rest, "+")
	}
	sum := new(big.Rat)
	switch {
	case rest == "0":
	case !whole.MatchString(rest):
		return 0, fmt.Errorf("must be a duration such as 90s, 24h or 30d, not %q", text)
	}
	for _, m := range piece.FindAllStringSubmatch(rest, -1) {
		n, _ := new(big.Rat).SetString(strings.TrimSuffix(m[1], ".")) // digits
		sum.Add(sum, n.Mul(n, new(big.Rat).SetInt64(int64(units[m[2]]))))
	}
	d := new(big.Int).Quo(sum.Num(), sum.Denom())
	if !d.IsInt64() {
		return 0, fmt.Errorf("%q is too long (max 292 years)", text)
	}
	if negative {
		d.Neg(d)
	}
	return time.Duration(d.Int64()), nil
}
