package provider

import (
	"encoding/json"
	"math/big"
)

// The units in which providers state costs, as their number of nano-dollars.
var (
	Dollar = big.NewRat(1_000_000_000, 1)
	Tick   = big.NewRat(1, 10) // xAI's "USD tick", 10^-10 dollars
)

// maxNanos is the largest cost, a million dollars; whatever states more is not a cost of a request in that unit.
const maxNanos = 1_000_000 * 1_000_000_000

// maxNumber bounds the length of a number, which could otherwise have any exponent.
const maxNumber = 40

// Nanos returns the cost that a JSON number states in a unit, in nano-dollars, rounded up. ok is false if raw is not a
// number from 0 on, or not a plausible cost.
func Nanos(raw json.RawMessage, unit *big.Rat) (nanos int64, ok bool) {
	if len(raw) == 0 || len(raw) > maxNumber || raw[0] < '0' || raw[0] > '9' {
		return 0, false
	}
	f, _, err := big.ParseFloat(string(raw), 10, 64, big.ToNearestEven)
	if err != nil || f.MantExp(nil) > 64 || f.Sign() != 0 && f.MantExp(nil) < -64 {
		return 0, err == nil && f.MantExp(nil) < 0
	}
	r, ok := new(big.Rat).SetString(string(raw)) // exact, and small by the check above
	if !ok {
		return 0, false
	}
	r.Mul(r, unit)
	n := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
	n.Div(n, r.Denom())
	if !n.IsInt64() || n.Int64() > maxNanos {
		return 0, false
	}
	return n.Int64(), true
}
