package decode_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/internal/decode"
)

type plainType struct {
	Count  int               `json:"count"`
	Small  int8              `json:"small"`
	Big    uint64            `json:"big,omitempty"`
	Price  float64           `json:"price"`
	Rough  float32           `json:"rough"`
	Name   string            `json:"name"`
	On     bool              `json:"on"`
	Items  []inner           `json:"items"`
	Lists  [][]string        `json:"lists"`
	Notes  map[string]string `json:"notes"`
	Deeper map[string]*inner `json:"deeper"`
	Next   *inner            `json:"next"`
	Bare   int
	Left   int `json:"-"`
	hidden int
}

type inner struct {
	ID   string `json:"id"`
	Tags []named
}

type named string

// Types that are left to encoding/json.
type special struct {
	At      time.Time       `json:"at"`
	Raw     json.RawMessage `json:"raw"`
	Any     any             `json:"any"`
	Data    []byte          `json:"data"`
	Quoted  int             `json:"quoted,string"`
	plainly int
}

type itself struct {
	Next *itself `json:"next"`
	N    int
}

type embeds struct {
	inner
	N int
}

// Fields without a JSON form, which decoding must ignore.
var _ = []int{plainType{}.hidden, special{}.plainly}

var texts = []string{
	`{}`, `null`, ` { } `, `{"count":1,"small":-128,"big":18446744073709551615,"price":-1.5e-3,"rough":0.1,"name":"a\n\u00e9🜁","on":true,"Bare":7}`,
	`{"items":[{"id":"a","Tags":["x","y"]},{"id":null}],"lists":[[],["a"],null],"notes":{"a":"b","":"c","a":"d"},"deeper":{"x":null,"y":{"id":"z"}},"next":{"id":"n"}}`,
	`{"items":[],"notes":{},"lists":null}`, `{"COUNT":3}`, `{"Count":3,"count":4}`, `{"count":3,"count":4}`, `{"next":{"id":"a"},"next":{"Tags":["b"]}}`,
	`{"small":128}`, `{"small":1.0}`, `{"count":1e2}`, `{"big":-1}`, `{"price":1e999}`, `{"rough":1e39}`, `{"name":1}`, `{"on":"true"}`, `{"on":tru}`,
	`{"unknown":{"a":[1,2,{"b":null}],"c":-0.5e+3,"d":"\u0000"},"count":2}`, `{"left":1,"Left":2,"-":3,"hidden":4}`, `{"name":"\ud800"}`, "{\"name\":\"\xff\"}",
	`{"count":01}`, `{"count":-}`, `{"count":1,}`, `{"count" 1}`, `{"count":1}}`, `[1]`, `"x"`, ``, `{`, `{"items":[1]}`, `{"items":[{"id":"a"},]}`,
	`{"name":"` + strings.Repeat("x", 1000) + `"}`, `{"unknown":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`, `{"ｃount":1}`, `{"items":{}}`,
	`{"K":1}`, `{"at":"2026-01-02T03:04:05Z","raw":{"a":1},"any":[1,{"b":2}],"data":"AAEC","quoted":"5","N":1,"next":{"next":{"N":2}},"id":"e"}`,
}

// agree decodes a text with both decoders, and compares.
func agree[T any](t *testing.T, raw []byte) {
	t.Helper()
	var got, want T
	gotErr, wantErr := decode.Into(raw, &got), json.Unmarshal(raw, &want)
	if (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() || !reflect.DeepEqual(got, want) {
		t.Fatalf("%.300q into %T:\n%+v, %v, want\n%+v, %v", raw, got, got, gotErr, want, wantErr)
	}
	var a, b T
	if err := decode.Twice(raw, &a, &b); err == nil && (wantErr != nil || !reflect.DeepEqual(a, want) || !reflect.DeepEqual(b, want)) {
		t.Fatalf("%.300q twice into %T:\n%+v and\n%+v, want\n%+v", raw, got, a, b, want)
	}
}

// TestTwiceSharesNothing modifies everything that one of the two values holds.
func TestTwiceSharesNothing(t *testing.T) {
	t.Parallel()
	raw := []byte(texts[4])
	var a, b, want plainType
	if err := errors.Join(decode.Twice(raw, &a, &b), json.Unmarshal(raw, &want)); err != nil {
		t.Fatal(err)
	}
	a.Items[0].ID, a.Items[0].Tags[0], a.Lists[1][0], a.Notes["a"], a.Deeper["y"].ID, a.Next.ID = "!", "!", "!", "!", "!", "!"
	if !reflect.DeepEqual(b, want) {
		t.Errorf("the other one became %+v", b)
	}
}

func agreeAll(t *testing.T, raw []byte) {
	t.Helper()
	agree[plainType](t, raw)
	agree[*plainType](t, raw)
	agree[special](t, raw)
	agree[itself](t, raw)
	agree[embeds](t, raw)
	agree[map[string]any](t, raw)
	agree[map[named]int](t, raw)
	agree[[]string](t, raw)
	agree[any](t, raw)
}

func TestIntoAgrees(t *testing.T) {
	t.Parallel()
	for _, text := range texts {
		agreeAll(t, []byte(text))
	}
	if err := decode.Into([]byte(`1`), nil); err == nil {
		t.Error("nothing was decoded into")
	}
}

func FuzzInto(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(agreeAll)
}

func BenchmarkInto(b *testing.B) {
	raw, err := json.Marshal(map[string]any{"count": 1, "items": make([]inner, 400), "notes": map[string]string{"a": strings.Repeat("words ", 200)}})
	if err != nil {
		b.Fatal(err)
	}
	for name, into := range map[string]func([]byte, any) error{"decode": decode.Into, "json": json.Unmarshal} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				var v plainType
				if err := into(raw, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
