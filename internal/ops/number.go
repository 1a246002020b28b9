package ops

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
)

// number is a JSON number: an integer that fits into an int64, or a float64.
type number struct {
	integer bool
	i       int64
	f       float64
}

// parseNumber parses a JSON number. A number without fraction and exponent is an integer.
func parseNumber(raw json.RawMessage) (number, error) {
	text := string(bytes.Trim(raw, " \t\r\n"))
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return number{}, errors.New("is not a number")
	}
	if !bytes.ContainsAny(raw, ".eE") {
		i, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return number{}, errors.New("is an integer beyond int64")
		}
		return number{integer: true, i: i, f: float64(i)}, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return number{}, errors.New("is not a finite number")
	}
	return number{f: f}, nil
}

// plus returns the sum of the number that n holds and an amount.
func (n *node) plus(amount json.RawMessage) (json.RawMessage, error) {
	if n.kind() != scalarKind {
		return nil, errors.New("the value is not a number")
	}
	a, err := parseNumber(n.raw)
	if err != nil {
		return nil, errors.New("the value " + err.Error())
	}
	b, err := parseNumber(amount)
	if err != nil {
		return nil, errors.New("the amount " + err.Error())
	}
	if a.integer && b.integer {
		sum := a.i + b.i
		if (sum > a.i) != (b.i > 0) && b.i != 0 {
			return nil, errors.New("the sum is beyond int64")
		}
		return strconv.AppendInt(nil, sum, 10), nil
	}
	sum := a.f + b.f
	if math.IsInf(sum, 0) {
		return nil, errors.New("the sum is not a finite number")
	}
	if math.Abs(sum) >= 1<<53 {
		// With an exponent: read as an integer, it might be beyond int64, or seem exact.
		return strconv.AppendFloat(nil, sum, 'e', -1, 64), nil
	}
	return json.Marshal(sum)
}
