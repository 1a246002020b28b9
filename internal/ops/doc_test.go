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

func newDoc(t *testing.T, raw string) *ops.Doc {
	t.Helper()
	d, err := ops.NewDoc(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestNewDoc(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{"": "{}", "null": "{}", " null\n": "{}", " {} ": "{}", ` {"a": [1]} `: `{"a":[1]}`} {
		if got := newDoc(t, raw).Raw(); !equal(got, json.RawMessage(want)) {
			t.Errorf("%q becomes %s, want %s", raw, got, want)
		}
	}
	for _, bad := range []string{"[]", "1", `"x"`, "true", "{", `{"a":}`, "{} {}", "nul", "nonsense", "null null"} {
		if d, err := ops.NewDoc(json.RawMessage(bad)); err == nil {
			t.Errorf("%q becomes %s, want an error", bad, d.Raw())
		}
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, before, after string
		ops                 []cairn.Op
		patch               string
	}{
		{"nothing", `{"a":1}`, `{"a":1}`, nil, `[]`},
		{"replace", `{"a":1}`, `{"a":2}`, []cairn.Op{replace("/a", "2")}, `[{"op":"replace","path":"/a","value":2}]`},
		{"new member", `{}`, `{"a":2}`, []cairn.Op{replace("/a", "2")}, `[{"op":"add","path":"/a","value":2}]`},
		{"objects on the way", `{}`, `{"a":{"b":{"c":1}}}`, []cairn.Op{replace("/a/b/c", "1")},
			`[{"op":"add","path":"/a","value":{}},{"op":"add","path":"/a/b","value":{}},{"op":"add","path":"/a/b/c","value":1}]`},
		{"null on the way", `{"a":null}`, `{"a":{"b":1}}`, []cairn.Op{replace("/a/b", "1")},
			`[{"op":"replace","path":"/a","value":{}},{"op":"add","path":"/a/b","value":1}]`},
		{"the whole", `{"a":1}`, `{"b":2}`, []cairn.Op{replace("", `{"b":2}`)}, `[{"op":"replace","path":"","value":{"b":2}}]`},
		{"append", `{"a":[1]}`, `{"a":[1,2,3]}`, []cairn.Op{appendTo("/a", "2", "3")},
			`[{"op":"add","path":"/a/-","value":2},{"op":"add","path":"/a/-","value":3}]`},
		{"append to nothing", `{}`, `{"a":{"b":[1]}}`, []cairn.Op{appendTo("/a/b", "1")},
			`[{"op":"add","path":"/a","value":{}},{"op":"add","path":"/a/b","value":[1]}]`},
		{"append to null", `{"a":null}`, `{"a":[1]}`, []cairn.Op{appendTo("/a", "1")}, `[{"op":"replace","path":"/a","value":[1]}]`},
		{"append nothing to nothing", `{}`, `{"a":[]}`, []cairn.Op{appendTo("/a")}, `[{"op":"add","path":"/a","value":[]}]`},
		{"delete", `{"a":1,"b":2}`, `{"b":2}`, []cairn.Op{remove("/a")}, `[{"op":"remove","path":"/a"}]`},
		{"delete what is not there", `{"a":null}`, `{"a":null}`, []cairn.Op{remove("/x"), remove("/x/y"), remove("/a/b")}, `[]`},
		{"increment", `{"a":1}`, `{"a":4}`, []cairn.Op{increment("/a", "3")}, `[{"op":"replace","path":"/a","value":4}]`},
		{"increments add up", `{"a":1}`, `{"a":2}`, []cairn.Op{increment("/a", "3"), increment("/a", "-2")},
			`[{"op":"replace","path":"/a","value":4},{"op":"replace","path":"/a","value":2}]`},
		{"increment of nothing", `{}`, `{"a":{"b":3}}`, []cairn.Op{increment("/a/b", "3")}, `[{"op":"add","path":"/a","value":{}},{"op":"add","path":"/a/b","value":3}]`},
		{"increment of null", `{"a":null}`, `{"a":3}`, []cairn.Op{increment("/a", "3")}, `[{"op":"replace","path":"/a","value":3}]`},
		{"increment then replace", `{"a":1}`, `{"a":7}`, []cairn.Op{increment("/a", "3"), replace("/a", "7")},
			`[{"op":"replace","path":"/a","value":4},{"op":"replace","path":"/a","value":7}]`},
		{"replace then increment", `{"a":1}`, `{"a":10}`, []cairn.Op{replace("/a", "7"), increment("/a", "3")},
			`[{"op":"replace","path":"/a","value":7},{"op":"replace","path":"/a","value":10}]`},
		{"one after the other", `{}`, `{"a":{"c":[4]}}`, []cairn.Op{replace("/a/b", "1"), remove("/a/b"), appendTo("/a/c", "4")},
			`[{"op":"add","path":"/a","value":{}},{"op":"add","path":"/a/b","value":1},{"op":"remove","path":"/a/b"},{"op":"add","path":"/a/c","value":[4]}]`},
		{"escaped names", `{"a/b":{"~1":1}}`, `{"a/b":{"~1":2}}`, []cairn.Op{replace("/a~1b/~01", "2")}, `[{"op":"replace","path":"/a~1b/~01","value":2}]`},
	} {
		d := newDoc(t, test.before)
		patch, err := d.Apply(test.ops)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got := d.Raw(); !equal(got, json.RawMessage(test.after)) {
			t.Errorf("%s: got %s, want %s", test.name, got, test.after)
		}
		if got := encode(append([]cairn.PatchOp{}, patch...)); !equal(got, json.RawMessage(test.patch)) {
			t.Errorf("%s: patch %s, want %s", test.name, got, test.patch)
		}
	}
}

// TestApplyIsAllOrNothing makes each operation of a list fail in turn, on documents in various states.
func TestApplyIsAllOrNothing(t *testing.T) {
	t.Parallel()
	const before = `{"text":"x","list":[1],"null":null,"m":{"inner":[{"x":1}]},"gone":1}`
	good := []cairn.Op{appendTo("/list", "2"), replace("/m/new/deep", "1"), appendTo("/m/inner", "2"), remove("/gone"), replace("/null/x", "1"),
		replace("/gone", `{"back":1}`), appendTo("/new", "1"), remove("/m"), increment("/m/count", "2"), increment("/m/count", "3"), replace("", `{"text":"whole"}`), appendTo("/list", "9")}
	bad := map[string]cairn.Op{
		"a member of a scalar":     replace("/text/x", "1"),
		"a deletion in a scalar":   remove("/text/x"),
		"an append to a scalar":    appendTo("/text", "1"),
		"an increment of text":     increment("/text", "1"),
		"an operation of bad form": {Kind: "move", Path: "/a"},
	}
	for name, op := range bad {
		for n := range len(good) + 1 {
			for _, used := range []bool{false, true} {
				d := newDoc(t, before)
				want := json.RawMessage(before)
				if used {
					if _, err := d.Apply([]cairn.Op{appendTo("/list", "0"), replace("/m/x", "0")}); err != nil {
						t.Fatal(err)
					}
					want = json.RawMessage(`{"text":"x","list":[1,0],"null":null,"m":{"inner":[{"x":1}],"x":0},"gone":1}`)
				}
				if _, err := d.Apply(append(append([]cairn.Op{}, good[:n]...), op)); err == nil {
					t.Fatalf("%s after %d good operations: no error", name, n)
				}
				if got := d.Raw(); !equal(got, want) {
					t.Fatalf("%s after %d good operations left %s, want %s", name, n, got, want)
				}
				if _, err := d.Apply([]cairn.Op{appendTo("/list", "5"), appendTo("/m/inner", "6")}); err != nil {
					t.Fatalf("after a failure: %v", err)
				}
				if got := string(d.Raw()); !strings.Contains(got, `5]`) || !strings.Contains(got, `{"x":1},6]`) {
					t.Fatalf("after a failure and an append: %s", got)
				}
			}
		}
	}
}

func TestApplyErrorsNameTheOperation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		op   cairn.Op
		want []string
	}{
		{replace("/text/x", "1"), []string{"replace /text/x", "/text: not an object"}},
		{replace("/list/0", "1"), []string{"/list: not an object"}},
		{appendTo("/text", "1"), []string{"append /text", "not an array"}},
		{appendTo("/m", "1"), []string{"append /m", "not an array"}},
		{increment("/text", "1"), []string{"increment /text", "not a number"}},
		{increment("/list", "1"), []string{"increment /list", "not a number"}},
		{increment("/text/x", "1"), []string{"increment /text/x", "/text: not an object"}},
	} {
		_, err := newDoc(t, `{"text":"x","list":[1],"m":{}}`).Apply([]cairn.Op{test.op})
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %s: error %v, want one with %q", test.op.Kind, test.op.Path, err, want)
			}
		}
	}
}

// TestOperationsAreNotKept applies one list to two documents and modifies it afterwards.
func TestOperationsAreNotKept(t *testing.T) {
	t.Parallel()
	list := []cairn.Op{appendTo("/list", "1", "2")}
	one, two := newDoc(t, `{}`), newDoc(t, `{}`)
	for _, d := range []*ops.Doc{one, two} {
		if _, err := d.Apply(list); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := one.Apply([]cairn.Op{appendTo("/list", "3")}); err != nil {
		t.Fatal(err)
	}
	list[0].Items[0] = json.RawMessage("9")
	if got := string(one.Raw()); got != `{"list":[1,2,3]}` {
		t.Errorf("the first document became %s", got)
	}
	if got := string(two.Raw()); got != `{"list":[1,2]}` {
		t.Errorf("the second document became %s", got)
	}
}

// TestRawIsStable checks that what Raw returned does not change with the document.
func TestRawIsStable(t *testing.T) {
	t.Parallel()
	d := newDoc(t, `{"list":[0]}`)
	var seen []json.RawMessage
	for i := range 20 {
		seen = append(seen, d.Raw())
		if _, err := d.Apply([]cairn.Op{appendTo("/list", fmt.Sprint(i+1))}); err != nil {
			t.Fatal(err)
		}
	}
	for i, raw := range seen {
		var doc struct{ List []int }
		if err := json.Unmarshal(raw, &doc); err != nil || len(doc.List) != i+1 {
			t.Fatalf("version %d is now %s, %v", i, raw, err)
		}
	}
}

func TestFoldErrors(t *testing.T) {
	t.Parallel()
	if got, err := ops.Fold(json.RawMessage(`[]`)); err == nil {
		t.Errorf("folding an array gives %s", got)
	}
	if got, err := ops.Fold(json.RawMessage(`{"a":1}`), []cairn.Op{replace("/b", "1")}, []cairn.Op{appendTo("/a", "1")}); err == nil {
		t.Errorf("folding what does not fit gives %s", got)
	}
}

func randomOps(random *rand.Rand) []cairn.Op {
	paths := []string{"/a", "/b", "/c", "/a/a", "/a/b", "/b/c/a", "/a~1b", "/~0", "/", "/a/"}
	var list []cairn.Op
	for range random.IntN(6) {
		path := paths[random.IntN(len(paths))]
		switch random.IntN(9) {
		case 7, 8:
			list = append(list, increment(path, fmt.Sprint(random.IntN(5)-2)))
		case 0, 1, 2:
			list = append(list, appendTo(path, string(randomValue(random, 2)), "1"))
		case 3, 4:
			list = append(list, replace(path, string(randomValue(random, 2))))
		case 5:
			list = append(list, remove(path))
		case 6:
			list = append(list, replace("", string(randomObject(random, 3))))
		}
	}
	return list
}

// TestPatchGivesTheSameDocument applies random lists of operations and, independently, the resulting JSON Patch.
func TestPatchGivesTheSameDocument(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	applied := 0
	for range 5000 {
		ok, err := checkPatch(randomObject(random, 3), randomOps(random), randomOps(random))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if ok {
			applied++
		}
	}
	if applied < 500 {
		t.Fatalf("seed %d: only %d of 5000 lists of operations fit their document", seed, applied)
	}
}

// checkPatch applies two lists to one document, and their patches to its text. ok reports whether both applied.
func checkPatch(before json.RawMessage, lists ...[]cairn.Op) (ok bool, err error) {
	d, err := ops.NewDoc(before)
	if err != nil {
		return false, err
	}
	text := before
	ok = true
	for _, list := range lists {
		patch, err := d.Apply(list)
		if err != nil {
			if !equal(d.Raw(), text) {
				return false, fmt.Errorf("%s with %s failed and left %s", text, encode(list), d.Raw())
			}
			ok = false
			continue
		}
		after, err := applyPatch(text, patch)
		if err != nil {
			return false, fmt.Errorf("%s with the patch %s: %w", text, encode(patch), err)
		}
		if !equal(d.Raw(), after) {
			return false, fmt.Errorf("%s with %s gives %s, but with the patch %s it gives %s", text, encode(list), d.Raw(), encode(patch), after)
		}
		folded, err := ops.Fold(text, list)
		if err != nil || !equal(folded, after) {
			return false, fmt.Errorf("%s with %s folds to %s, %v, want %s", text, encode(list), folded, err, after)
		}
		text = after
	}
	return ok, nil
}

func FuzzNewDoc(f *testing.F) {
	for _, seed := range []string{"", "null", "{}", `{"a":[1,{"b":null}]}`, "nul", "[]", `{"a":1,"a":2}`, "{\"\xff\":1}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := ops.NewDoc(raw)
		if err != nil {
			return
		}
		if !json.Valid(d.Raw()) {
			t.Fatalf("%q becomes %q", raw, d.Raw())
		}
		if _, err := d.Apply([]cairn.Op{replace("/new member/x", "1")}); err == nil && !json.Valid(d.Raw()) {
			t.Fatalf("%q becomes %q", raw, d.Raw())
		}
	})
}

func FuzzApply(f *testing.F) {
	f.Add([]byte(`{"a":[1]}`), []byte(`[{"op":"append","path":"/a","items":[2]},{"op":"replace","path":"/b/c","value":null}]`))
	f.Add([]byte(`{"a":{"b":1}}`), []byte(`[{"op":"delete","path":"/a/b"},{"op":"replace","path":"","value":{}}]`))
	f.Add([]byte(`{}`), []byte(`[{"op":"append","path":"/~1/~0","items":[]}]`))
	f.Add([]byte(`{"a":9223372036854775806}`), []byte(`[{"op":"increment","path":"/a","value":1},{"op":"increment","path":"/b/c","value":0.5}]`))
	f.Fuzz(func(t *testing.T, doc, list []byte) {
		var parsed []cairn.Op
		if json.Unmarshal(list, &parsed) != nil || !isObject(doc) || !isText(list) {
			return
		}
		if _, err := checkPatch(doc, parsed); err != nil {
			t.Fatal(err)
		}
	})
}
