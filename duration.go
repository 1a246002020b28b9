package cairn

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Duration is a [time.Duration] whose JSON form is a number of seconds, with a fraction if it is not whole: 90, 0.25.
// All durations that Cairn encodes have this type.
type Duration time.Duration

// String returns the duration in the form of [time.Duration], such as 1m30s.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes the exact number of seconds.
func (d Duration) MarshalJSON() ([]byte, error) {
	whole, rest := d/Duration(time.Second), d%Duration(time.Second)
	text := make([]byte, 0, len("-9223372036.854775808"))
	if d < 0 {
		text, whole, rest = append(text, '-'), -whole, -rest
	}
	text = strconv.AppendInt(text, int64(whole), 10)
	if rest == 0 {
		return text, nil
	}
	point := len(text)
	text = strconv.AppendInt(text, int64(rest)+int64(time.Second), 10) // its 1 keeps the zeros behind the point
	text[point] = '.'
	for text[len(text)-1] == '0' {
		text = text[:len(text)-1]
	}
	return text, nil
}

// UnmarshalJSON reads a number of seconds, rounded to whole nanoseconds. The error is a [json.UnmarshalTypeError] for
// another value, and for a number of more than 292 years. As usual, null changes nothing.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	text := string(raw)
	if text == "null" {
		return nil
	}
	if n, ok := nanoseconds(text); ok && json.Valid(raw) {
		*d = Duration(n)
		return nil
	}
	return &json.UnmarshalTypeError{Value: jsonKind(text), Type: reflect.TypeFor[Duration]()}
}

// nanoseconds reads a number of seconds.
func nanoseconds(text string) (int64, bool) {
	if strings.ContainsAny(text, "eE") { // precise enough: nobody writes a long time to the nanosecond like this
		f, err := strconv.ParseFloat(text, 64)
		n := math.Round(f * float64(time.Second))
		return int64(n), err == nil && math.Abs(n) < 1<<63
	}
	whole, fraction, _ := strings.Cut(text, ".")
	fraction = (fraction + "0000000000")[:max(10, len(fraction))]
	n, err := strconv.ParseInt(whole+fraction[:9], 10, 64)
	switch up := fraction[9] >= '5'; {
	case err != nil || up && (n == math.MaxInt64 || n == math.MinInt64):
		return 0, false
	case up && text[0] == '-':
		n--
	case up:
		n++
	}
	return n, true
}

// jsonKind returns the kind of a JSON value, in the words of errors of encoding/json.
func jsonKind(text string) string {
	switch (text + " ")[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "bool"
	}
	return "number beyond 292 years"
}
