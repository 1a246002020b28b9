package shop

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/cairn-agents/cairn"
)

// Euro is an amount of money in cents. As text it reads "39.90 EUR".
type Euro int64

// String returns the amount as in "39.90 EUR".
func (e Euro) String() string {
	sign := ""
	if e < 0 {
		sign, e = "-", -e
	}
	return fmt.Sprintf("%s%d.%02d EUR", sign, e/100, e%100)
}

// MarshalText returns the same text as String.
func (e Euro) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

var euroText = regexp.MustCompile(`^(-?\d{1,15})\.(\d\d) EUR$`)

// UnmarshalText parses the output of MarshalText; anything else is an ErrInvalid error.
func (e *Euro) UnmarshalText(text []byte) error {
	m := euroText.FindSubmatch(text)
	if m == nil {
		return cairn.Invalid("amount", "must have the form 39.90 EUR, not %q", text)
	}
	cents, err := strconv.ParseInt(string(m[1])+string(m[2]), 10, 64)
	if err != nil {
		return cairn.Invalid("amount", "%v", err)
	}
	*e = Euro(cents)
	return nil
}
