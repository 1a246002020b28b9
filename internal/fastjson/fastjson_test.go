package fastjson

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
)

// The encoding of any message decodes to the same value as encoding/json's, and fails if that fails.
func TestMessageDecodesLikeThatOfEncodingJSON(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	refused, n := 0, testenv.Choose(3_000, 100_000)
	for range n {
		var m cairn.Message
		fill(rng, reflect.ValueOf(&m).Elem())
		want, wantErr := json.Marshal(&m)
		got, err := Message([]byte("before"), &m)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("%+v: %v, want %v", m, err, wantErr)
		}
		if err != nil {
			refused++
			continue
		}
		text, ok := strings.CutPrefix(string(got), "before")
		if !ok {
			t.Fatalf("%s does not begin with what was there", got)
		}
		if a, b := decoded(t, text), decoded(t, string(want)); !reflect.DeepEqual(a, b) {
			t.Fatalf("%s\nbecame %+v\nwant   %+v", text, a, b)
		}
		wantShort(t, &m, text)
	}
	if refused == 0 || refused > n*19/20 {
		t.Errorf("%d messages were refused: that tests little", refused)
	}
}

// wantShort checks that a message's short form decodes to what its JSON decodes to, and is not longer.
func wantShort(t *testing.T, m *cairn.Message, text string) {
	t.Helper()
	short, err := ShortText(m, m.ID, m.RunID)
	if err != nil {
		t.Fatal(err)
	}
	var got, want cairn.Message
	s := Short{Message: &got}
	if err := errors.Join(json.Unmarshal([]byte(short), &s), json.Unmarshal([]byte(text), &want)); err != nil {
		t.Fatal(err)
	}
	if s.Finish(); !reflect.DeepEqual(got, want) || len(short) > len(text) {
		t.Fatalf("%s\nbecame %+v\nwant   %+v", short, got, want)
	}
}

// The fields of a message's only part become fields of the message.
func TestShortForm(t *testing.T) {
	t.Parallel()
	for want, part := range map[string]cairn.Part{
		`{"role":"user","text":"hello"}`: cairn.TextPart("hello"),
		`{"role":"user","tool_use":{"call_id":"c","tool":"t","input":{}}}`: {Type: cairn.PartToolUse,
			ToolUse: &cairn.ToolUse{CallID: "c", Tool: "t", Input: json.RawMessage("{}")}},
		`{"role":"user","tool_result":{"call_id":"c","tool":"t","output":1}}`: {Type: cairn.PartToolResult,
			Result: &cairn.ToolResult{CallID: "c", Tool: "t", Output: json.RawMessage("1")}},
		`{"role":"user","parts":[{"type":"reasoning","text":"hm"}]}`: {Type: cairn.PartReasoning, Text: "hm"},
		`{"role":"user","parts":[{"type":"text"}]}`:                  cairn.TextPart(""),
	} {
		m := cairn.Message{Role: cairn.RoleUser, Parts: []cairn.Part{part}}
		if got, err := ShortText(&m, "", ""); err != nil || got != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%q is not UTF-8", text)
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

var (
	texts = []string{"", "a", "on the way", `say "no"`, `\`, "a\nb\tc\r\v\f\x00\x1f\x7f", "<b>&</b>", "naïve 世界 🙂", "\u2028\u2029", "bad \xff\xfe utf-8 \xe4\xb8"}
	raws  = []string{"null", `{"a":1}`, " {\n\"a\" : [1, 2 , \"x y\"] } ", `"text"`, `"<&>"`, "12.50", `[]`}
	times = []time.Time{{}, time.UnixMicro(1763720000000000).UTC(), time.Unix(5, 1).In(time.FixedZone("", 3600)), time.Unix(1<<40, 0).UTC()}
)

// fill sets everything in a value at random; it leaves some fields unset.
func fill(rng *rand.Rand, v reflect.Value) {
	switch into := v.Addr().Interface().(type) {
	case *time.Time:
		*into = times[rng.IntN(16)%len(times)/(1+rng.IntN(2))]
		return
	case *json.RawMessage:
		*into = json.RawMessage(raws[rng.IntN(len(raws))])
		if n := rng.IntN(100); n == 0 {
			*into = json.RawMessage(`{"a":`)
		} else if n < 10 {
			*into = nil
		} else if n == 10 {
			*into = json.RawMessage{}
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts[rng.IntN(len(texts))])
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(rng.Int64())
	case reflect.Uint8:
		v.SetUint(rng.Uint64() & 255)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(rng, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rng.IntN(4), 4))
		for i := range v.Len() {
			fill(rng, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rng.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(rng, key)
			fill(rng, value)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if rng.IntN(3) > 0 {
				fill(rng, v.Field(i))
			}
		}
	default:
		panic("a message has a " + v.Type().String())
	}
}

func FuzzText(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, _ := json.Marshal(text)
		if got := decoded(t, string(Text(nil, text))); got != decoded(t, string(want)) {
			t.Errorf("%q became %q", text, got)
		}
	})
}

// A reply that calls a tool.
func BenchmarkMessage(b *testing.B) {
	m := &cairn.Message{ID: "run_pkoay6wimgcwrdv4k37twfm5lm/1/reply", Role: cairn.RoleAssistant, RunID: "run_pkoay6wimgcwrdv4k37twfm5lm",
		CreatedAt: time.UnixMicro(1763720000000000).UTC(),
		Parts: []cairn.Part{cairn.TextPart(strings.Repeat("I am looking that up. ", 10)),
			{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: "call_1", Tool: "lookup", Input: json.RawMessage(`{"order":42,"fields":["total","item"]}`)}}}}
	b.Run("compose", func(b *testing.B) {
		var to []byte
		for b.Loop() {
			var err error
			if to, err = Message(to[:0], m); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		for b.Loop() {
			if _, err := json.Marshal(m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
