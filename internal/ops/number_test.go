package ops_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ops"
)

func TestIncrementAddsExactly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ before, amount, after string }{
		{"0", "0", "0"}, {"-0", "0", "0"}, {"5", "-7", "-2"}, {" 5 ", " 7 ", "12"},
		{"9007199254740993", "1", "9007199254740994"}, // beyond the integers of a float64
		{"9223372036854775806", "1", "9223372036854775807"},
		{"-9223372036854775807", "-1", "-9223372036854775808"},
		{"9223372036854775807", "-9223372036854775808", "-1"},
		{"0.25", "0.5", "0.75"}, {"1", "0.5", "1.5"}, {"1.5", "1.5", "3"}, {"1e2", "1", "101"}, {"1.0", "1", "2"},
		{"9007199254740992.0", "2", "9.007199254740994e+15"}, {"1e300", "-1e300", "0"},
	} {
		got, err := ops.Fold(json.RawMessage(`{"n":`+test.before+`}`), []cairn.Op{increment("/n", test.amount)})
		if want := `{"n":` + test.after + `}`; err != nil || string(got) != want {
			t.Errorf("%s plus %s: %s, %v, want %s", test.before, test.amount, got, err, want)
		}
	}
}

func TestIncrementRefusesOtherSums(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ before, amount, want string }{
		{"9223372036854775807", "1", "the sum is beyond int64"},
		{"-9223372036854775808", "-1", "the sum is beyond int64"},
		{"1.7e308", "1.7e308", "the sum is not a finite number"},
		{"12345678901234567890", "1", "the value is an integer beyond int64"},
		{`"1"`, "1", "the value is not a number"},
		{"true", "1", "the value is not a number"},
		{"[1]", "1", "the value is not a number"},
		{"{}", "1", "the value is not a number"},
	} {
		_, err := ops.Fold(json.RawMessage(`{"n":`+test.before+`}`), []cairn.Op{increment("/n", test.amount)})
		if err == nil || !strings.Contains(err.Error(), "increment /n: "+test.want) {
			t.Errorf("%s plus %s: error %v, want %q", test.before, test.amount, err, test.want)
		}
	}
}

// TestIncrementsCommute applies random increments of a few paths in two orders, and in one list or several.
func TestIncrementsCommute(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		sums := map[string]int{"a": 1}
		var list []cairn.Op
		var each [][]cairn.Op
		for range random.IntN(20) {
			name, n := string(rune('a'+random.IntN(3))), random.IntN(2001)-1000
			sums[name] += n
			list = append(list, increment("/"+name, fmt.Sprint(n)))
		}
		for _, i := range random.Perm(len(list)) {
			each = append(each, list[i:i+1])
		}
		want := encode(sums)
		for _, changes := range [][][]cairn.Op{{list}, each} {
			if got, err := ops.Fold(json.RawMessage(`{"a":1}`), changes...); err != nil || !equal(got, want) {
				t.Fatalf("seed %d: %s gives %s, %v, want %s", seed, encode(changes), got, err, want)
			}
		}
	}
}
