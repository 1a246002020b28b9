package limits_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cairn-agents/cairn/internal/limits"
)

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestJSON(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`1`: "", ` {"a": [1, -2.5e3, true, false, null, "x\n\"\u00e9🜁"]} `: "", `""`: "", `"\ud83d\ude00"`: "", `{"a":1,"a":2}`: "", `[[],{}]`: "",
		`1e308`: "", `-0`: "", `1e-400`: "", strings.Repeat("9", 308): "", nested(limits.Depth): "",
		`{"v":` + nested(limits.Depth-1) + `}`: "",
		``:                                     "is not valid JSON", ` `: "is not valid JSON", `{`: "is not valid JSON", `[1,]`: "is not valid JSON", `{"a"}`: "is not valid JSON",
		`{"a":1,}`: "is not valid JSON", `{1:1}`: "is not valid JSON", `01`: "is not valid JSON", `1.`: "is not valid JSON", `-`: "is not valid JSON",
		`1e`: "is not valid JSON", `nul`: "is not valid JSON", `1 1`: "is not valid JSON", `[}`: "is not valid JSON", `"\x"`: "is not valid JSON",
		"\"\n\"": "is not valid JSON", `"\u12g4"`: "is not valid JSON", `"`: "is not valid JSON", `"\`: "is not valid JSON", "\x00": "is not valid JSON",
		"1\x00": "is not valid JSON", `]`: "is not valid JSON", `[1}`: "is not valid JSON", `{]`: "is not valid JSON",
		"\"\xff\"":                   "has text that is not valid UTF-8",
		"{\"caf\xe9\":1}":            "has text that is not valid UTF-8",
		`"\u0000"`:                   "has text with a NUL character",
		`{"\u0000":1}`:               "has text with a NUL character",
		`"\ud800"`:                   "has text with half of a surrogate pair",
		`"\ud800\ud800"`:             "has text with half of a surrogate pair",
		`"\udc00"`:                   "has text with half of a surrogate pair",
		`"\ud800x"`:                  "has text with half of a surrogate pair",
		`1e999`:                      "has a number that is not finite",
		`[-1e309]`:                   "has a number that is not finite",
		strings.Repeat("9", 310):     "has a number that is not finite",
		nested(limits.Depth + 1):     "is nested more than 128 levels deep",
		`{"v":` + nested(9998) + `}`: "is nested more than 128 levels deep",
		`"` + strings.Repeat("x", limits.Bytes-1) + `"`: fmt.Sprintf("is too large: %d bytes (max %d)", limits.Bytes+1, limits.Bytes),
	} {
		if got := limits.JSON([]byte(raw)); got != want {
			t.Errorf("%.60q: %q, want %q", raw, got, want)
		}
	}
	for raw, want := range map[string]int{`1`: 0, `[]`: 1, `{"a":[1]}`: 2, `[[],[[]]]`: 3} {
		if got, problem := limits.Nested([]byte(raw)); got != want || problem != "" {
			t.Errorf("%s nests %d levels deep, %q, want %d", raw, got, problem, want)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "plain": "", "🜁\n\x01\u2028": "", "\xff": "is not valid UTF-8", "a\x00": "contains a NUL character",
		strings.Repeat("x", limits.Bytes):   "",
		strings.Repeat("x", limits.Bytes+1): fmt.Sprintf("is too large: %d bytes (max %d)", limits.Bytes+1, limits.Bytes),
	} {
		if got := limits.Text(text); got != want {
			t.Errorf("%.20q: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{"": "", "fine 🜁": "fine 🜁", "a\xff\xfeb\x00c": "a\uFFFDb\uFFFDc"} {
		if got := limits.Clean(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got := limits.Words(strings.Repeat("é", limits.ErrorBytes)); len(got) != limits.ErrorBytes || !utf8.ValidString(got) {
		t.Errorf("long words have %d bytes", len(got))
	}
	if got := limits.Cut("aé", 2); got != "a" {
		t.Errorf("cut to %q", got)
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if limits.Number(bad) == "" {
			t.Errorf("%v passes", bad)
		}
	}
	if problem := limits.Number(math.MaxFloat64); problem != "" {
		t.Error(problem)
	}
}

// TestGoodPathAllocatesNothing checks that valid values cost no allocation.
func TestGoodPathAllocatesNothing(t *testing.T) {
	raw, text := sample(), strings.Repeat("a few words, é. ", 100)
	if n := testing.AllocsPerRun(100, func() {
		if limits.JSON(raw) != "" || limits.Text(text) != "" || limits.Clean(text) != text {
			t.Error("the sample is refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzJSON compares with encoding/json: what passes is valid there and decodes, and what is rejected as invalid is
// invalid there.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e-7,"\u00e9\ud83d\ude00",null]}`, `[[[]]]`, "\"\xff\"", `"\u0000"`, `1e400`, `{"a":}`, ` [ ] `, `"\\\/"`, nested(129)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		problem := limits.JSON(raw)
		valid := json.Valid(raw)
		if problem == "is not valid JSON" && valid || problem == "" && !valid {
			t.Fatalf("%q: %q, but json.Valid says %v", raw, problem, valid)
		}
		if problem != "" {
			return
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatalf("%q passes and does not decode: %v", raw, err)
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("%q passes and does not encode again: %v", raw, err)
		}
		if problem := limits.JSON(again); problem != "" {
			t.Fatalf("%q passes, and written again as %q it %s", raw, again, problem)
		}
	})
}

func sample() []byte {
	type item struct {
		Name  string         `json:"name"`
		Price float64        `json:"price"`
		Tags  []string       `json:"tags"`
		More  map[string]int `json:"more"`
	}
	var list []item
	for i := range 64 {
		list = append(list, item{fmt.Sprintf("thing \"%d\" with words, é", i), float64(i) / 3, []string{"a", "b"}, map[string]int{"x": i}})
	}
	raw, err := json.Marshal(list)
	if err != nil {
		panic(err) // it always encodes
	}
	return raw
}

func BenchmarkJSON(b *testing.B) {
	raw := sample()
	for name, check := range map[string]func([]byte) bool{
		"limits": func(raw []byte) bool { return limits.JSON(raw) == "" },
		"valid":  json.Valid, // for comparison: a check of the syntax alone
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if !check(raw) {
					b.Fatal("the sample is refused")
				}
			}
		})
	}
}

func BenchmarkText(b *testing.B) {
	text := strings.Repeat("a few words and then some more. ", 128)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if limits.Text(text) != "" {
			b.Fatal("the sample is refused")
		}
	}
}
