package ops_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/pointer"
)

func appendTo(path string, items ...string) cairn.Op {
	op := cairn.Op{Kind: cairn.OpAppend, Path: path}
	for _, item := range items {
		op.Items = append(op.Items, json.RawMessage(item))
	}
	return op
}

func replace(path, value string) cairn.Op {
	return cairn.Op{Kind: cairn.OpReplace, Path: path, Value: json.RawMessage(value)}
}

func increment(path, amount string) cairn.Op {
	return cairn.Op{Kind: cairn.OpIncrement, Path: path, Value: json.RawMessage(amount)}
}

func remove(path string) cairn.Op { return cairn.Op{Kind: cairn.OpDelete, Path: path} }

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		op   cairn.Op
		want string // part of the error; empty if there is none
	}{
		{"append", appendTo("/a", "1"), ""},
		{"append nothing", appendTo("/a"), ""},
		{"replace", replace("/a/b~1c/~0", `{"x":[]}`), ""},
		{"replace with null", replace("/a", "null"), ""},
		{"replace the whole", replace("", " {} "), ""},
		{"the member with an empty name", replace("/", "1"), ""},
		{"delete", remove("/a"), ""},
		{"increment", increment("/a/b", "-3"), ""},
		{"increment by a fraction", increment("/a", "1.5e-3"), ""},
		{"increment the whole", increment("", "1"), "increment"},
		{"increment by nothing", cairn.Op{Kind: cairn.OpIncrement, Path: "/a"}, "increment /a"},
		{"increment by text", increment("/a", `"1"`), "increment /a: the amount is not a number"},
		{"increment by null", increment("/a", "null"), "increment /a: the amount is not a number"},
		{"increment by an object", increment("/a", "{}"), "increment /a: the amount is not a number"},
		{"increment by too much", increment("/a", "9223372036854775808"), "increment /a: the amount is an integer beyond int64"},
		{"increment by infinity", increment("/a", "1e999"), "increment /a"},
		{"no slash", replace("a", "1"), `path "a"`},
		{"not UTF-8", replace("/\xff", "1"), "UTF-8"},
		{"append to the whole", appendTo("", "1"), "append"},
		{"bad item", appendTo("/a", "1", "{"), "item 1"},
		{"empty item", appendTo("/a", ""), "item 0"},
		{"no value", cairn.Op{Kind: cairn.OpReplace, Path: "/a"}, "replace /a"},
		{"bad value", replace("/a", "nul"), "replace /a"},
		{"two values", replace("/a", "1 2"), "replace /a"},
		{"whole that is an array", replace("", "[]"), "object"},
		{"whole that is null", replace("", "null"), "object"},
		{"delete the whole", remove(""), "delete"},
		{"no kind", cairn.Op{Path: "/a"}, "unknown operation"},
		{"unknown kind", cairn.Op{Kind: "move", Path: "/a"}, `"move"`},
	} {
		err := ops.Validate(&test.op)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.name, err, test.want)
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, before, after string
		want                []cairn.Op
	}{
		{"equal", `{"a":1}`, `{"a":1}`, nil},
		{"equal in other words", `{"a":{"x":1,"y":[1, 2]}}`, `{"a":{"y":[1,2],"x":1}}`, nil},
		{"nothing to nothing", ``, `null`, nil},
		{"scalar", `{"a":1,"b":2}`, `{"a":1,"b":3}`, []cairn.Op{replace("/b", "3")}},
		{"new member", `{}`, `{"a":"x"}`, []cairn.Op{replace("/a", `"x"`)}},
		{"member gone", `{"a":1,"b":2}`, `{"b":2}`, []cairn.Op{remove("/a")}},
		{"only what changed in an object", `{"a":{"x":1,"y":2}}`, `{"a":{"x":1,"y":3}}`, []cairn.Op{replace("/a/y", "3")}},
		{"array that grew", `{"a":[1]}`, `{"a":[1,2,3]}`, []cairn.Op{appendTo("/a", "2", "3")}},
		{"array that grew, in other words", `{"a":[{"x":1,"y":2}]}`, `{"a":[{"y":2, "x":1},3]}`, []cairn.Op{appendTo("/a", "3")}},
		{"array that shrank", `{"a":[1,2]}`, `{"a":[1]}`, []cairn.Op{replace("/a", "[1]")}},
		{"array that changed", `{"a":[1,2]}`, `{"a":[3,2,1]}`, []cairn.Op{replace("/a", "[3,2,1]")}},
		{"array from nothing", `{}`, `{"a":[1]}`, []cairn.Op{appendTo("/a", "1")}},
		{"array from null", `{"a":null}`, `{"a":[1]}`, []cairn.Op{appendTo("/a", "1")}},
		{"empty array from null", `{"a":null}`, `{"a":[]}`, []cairn.Op{replace("/a", "[]")}},
		{"object from null", `{"a":null}`, `{"a":{"x":1}}`, []cairn.Op{replace("/a/x", "1")}},
		{"empty object from nothing", `{}`, `{"a":{}}`, []cairn.Op{replace("/a", "{}")}},
		{"object of nulls from null", `{"a":null}`, `{"a":{"x":null}}`, []cairn.Op{replace("/a/x", "null")}},
		{"null from nothing", `{"a":{}}`, `{"a":{"x":null}}`, []cairn.Op{replace("/a/x", "null")}},
		{"null from an array", `{"a":[1]}`, `{"a":null}`, []cairn.Op{replace("/a", "null")}},
		{"array to object", `{"a":[1]}`, `{"a":{"x":1}}`, []cairn.Op{replace("/a", `{"x":1}`)}},
		{"object to array", `{"a":{"x":1}}`, `{"a":[1]}`, []cairn.Op{replace("/a", "[1]")}},
		{"names that need escaping", `{}`, `{"a/b":{"~":1}}`, []cairn.Op{replace("/a~1b/~0", "1")}},
		{"number in another spelling", `{"a":1}`, `{"a":1.0}`, []cairn.Op{replace("/a", "1.0")}},
	} {
		got, err := ops.Diff(json.RawMessage(test.before), json.RawMessage(test.after))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if g, w := text(t, got), text(t, test.want); g != w {
			t.Errorf("%s: got %s, want %s", test.name, g, w)
		}
	}
}

func text(t *testing.T, list []cairn.Op) string {
	t.Helper()
	raw, err := json.Marshal(append([]cairn.Op{}, list...))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestDiffErrors(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{`[]`, `1`, `"x"`, `{`, `{"a":}`, `nonsense`, `{} {}`} {
		if _, err := ops.Diff(json.RawMessage(bad), json.RawMessage(`{}`)); err == nil || !strings.HasPrefix(err.Error(), "before: ") {
			t.Errorf("before %s: error %v", bad, err)
		}
		if _, err := ops.Diff(json.RawMessage(`{}`), json.RawMessage(bad)); err == nil || !strings.HasPrefix(err.Error(), "after: ") {
			t.Errorf("after %s: error %v", bad, err)
		}
	}
}

// TestDiffsOfOneBaseMerge has two writers start from the same document, and checks that what each appended or set
// survives.
func TestDiffsOfOneBaseMerge(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ base, one, two, want string }{
		{`{}`, `{"list":[1]}`, `{"list":[2]}`, `{"list":[1,2]}`},
		{`{"list":null}`, `{"list":[1]}`, `{"list":[2]}`, `{"list":[1,2]}`},
		{`{"list":[0]}`, `{"list":[0,1]}`, `{"list":[0,2]}`, `{"list":[0,1,2]}`},
		{`{"m":null}`, `{"m":{"a":1}}`, `{"m":{"b":2}}`, `{"m":{"a":1,"b":2}}`},
		{`{"m":{"x":1,"y":1}}`, `{"m":{"x":2,"y":1}}`, `{"m":{"x":1}}`, `{"m":{"x":2}}`},
		{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":3}`},
	} {
		var lists [2][]cairn.Op
		for i, after := range []string{test.one, test.two} {
			var err error
			if lists[i], err = ops.Diff(json.RawMessage(test.base), json.RawMessage(after)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := ops.Fold(json.RawMessage(test.base), lists[:]...)
		if err != nil || !equal(got, json.RawMessage(test.want)) {
			t.Errorf("%s to %s and %s: got %s, %v, want %s", test.base, test.one, test.two, got, err, test.want)
		}
	}
}

// TestDiffThenApply checks on random pairs of documents that applying the difference turns one into the other.
func TestDiffThenApply(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		before, after := randomObject(random, 3), randomObject(random, 3)
		if err := checkDiff(before, after); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func checkDiff(before, after json.RawMessage) error {
	list, err := ops.Diff(before, after)
	if err != nil {
		return fmt.Errorf("diff of %s and %s: %w", before, after, err)
	}
	got, err := ops.Fold(before, list)
	if err != nil {
		return fmt.Errorf("%s with the difference to %s: %w", before, after, err)
	}
	if !equal(got, after) {
		return fmt.Errorf("%s with the difference to %s gives %s", before, after, got)
	}
	if again, err := ops.Diff(got, after); err != nil || len(again) > 0 {
		return fmt.Errorf("%s and %s still differ by %v, %v", got, after, again, err)
	}
	return nil
}

func randomValue(random *rand.Rand, depth int) json.RawMessage {
	switch n := random.IntN(8); {
	case n < 2 && depth > 0:
		return randomObject(random, depth-1)
	case n < 4 && depth > 0:
		list := []json.RawMessage{}
		for i := range random.IntN(4) {
			list = append(list, json.RawMessage(fmt.Sprint(i))) // equal prefixes, so that some arrays only grow
		}
		if random.IntN(3) == 0 {
			list = append(list, randomValue(random, depth-1))
		}
		return encode(list)
	case n == 4:
		return json.RawMessage("null")
	case n == 5:
		return json.RawMessage(`"text ~/\u00e9"`)
	}
	return json.RawMessage(fmt.Sprint(random.IntN(3)))
}

func randomObject(random *rand.Rand, depth int) json.RawMessage {
	names := []string{"a", "b", "c", "a/b", "~", "", "~1"}
	m := map[string]json.RawMessage{}
	for range random.IntN(4) {
		m[names[random.IntN(len(names))]] = randomValue(random, depth)
	}
	return encode(m)
}

func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps and lists of JSON always encode
	}
	return raw
}

func TestPointer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		tokens []string
		want   string
	}{{nil, ""}, {[]string{"a", "b"}, "/a/b"}, {[]string{""}, "/"}, {[]string{"a/b", "~", "~1"}, "/a~1b/~0/~01"}} {
		if got := pointer.Join(test.tokens...); got != test.want {
			t.Errorf("Join(%q) = %q, want %q", test.tokens, got, test.want)
		}
		if len(test.tokens) == 0 {
			continue
		}
		doc, err := ops.Fold(nil, []cairn.Op{replace(pointer.Join(test.tokens...), "7")})
		if err != nil {
			t.Fatal(err)
		}
		var at any
		if at, err = decode(doc); err != nil {
			t.Fatal(err)
		}
		for _, token := range test.tokens {
			at = at.(map[string]any)[token]
		}
		if at != json.Number("7") {
			t.Errorf("the value at %q is not where %q leads: %s", test.want, test.tokens, doc)
		}
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	got, err := ops.Canonical(json.RawMessage(" {\"b\" : [1.0, 1e2, 12345678901234567890],\n\"a\":{\"d\":null,\"c\":\"\\u00e9\"}} "))
	if want := `{"a":{"c":"é","d":null},"b":[1.0,1e2,12345678901234567890]}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	for _, bad := range []string{"", "{", `{"a":1} x`, `1 2`} {
		if got, err := ops.Canonical(json.RawMessage(bad)); err == nil {
			t.Errorf("%q becomes %s, want an error", bad, got)
		}
	}
}

func FuzzDiff(f *testing.F) {
	for _, pair := range [][2]string{{`{}`, `{"a":[1]}`}, {`{"a":{"b":null}}`, `{"a":{"b":{}}}`}, {`{"a":[1,2]}`, `{"a":[1]}`}, {`{"~":1}`, `{"/":null}`}} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	f.Fuzz(func(t *testing.T, before, after []byte) {
		if _, err := ops.Diff(before, after); err != nil || !isObject(before) || !isObject(after) {
			return
		}
		if err := checkDiff(before, after); err != nil {
			t.Fatal(err)
		}
	})
}

func isObject(raw []byte) bool {
	v, err := decode(raw)
	_, ok := v.(map[string]any)
	return err == nil && ok && json.Valid(raw) && isText(raw)
}

// isText reports whether a text is valid UTF-8 without escapes that decoding replaces.
func isText(raw []byte) bool { return utf8.Valid(raw) && !bytes.Contains(raw, []byte(`\u`)) }
