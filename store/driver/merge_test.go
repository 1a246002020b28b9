package driver_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A state that does not decode as its type is refused with the field, and stays as it was.
func TestMergeStateOfAType(t *testing.T) {
	t.Parallel()
	type state struct {
		N    int      `json:"n"`
		List []string `json:"list"`
		In   struct {
			Yes bool `json:"yes"`
		} `json:"in"`
	}
	typ := cairn.StateOf(state{})
	st := memstore.New(nil)
	defer st.Close()
	const before = `{"n":1,"list":["a"],"in":{"yes":true}}`
	if _, err := driver.Create(t.Context(), st, &cairn.Session{ID: "s", Agent: "bot"}, json.RawMessage(before)); err != nil {
		t.Fatal(err)
	}
	replace := func(path, value string) cairn.Op {
		return cairn.Op{Kind: cairn.OpReplace, Path: path, Value: json.RawMessage(value)}
	}
	for name, test := range map[string]struct {
		op  cairn.Op
		has string
	}{
		"a text for a number":   {replace("/n", `"one"`), "state.n of type int"},
		"a fraction":            {cairn.Op{Kind: cairn.OpIncrement, Path: "/n", Value: json.RawMessage("0.5")}, "state.n of type int"},
		"a number in a list":    {cairn.Op{Kind: cairn.OpAppend, Path: "/list", Items: []json.RawMessage{json.RawMessage("1")}}, "state.list of type string"},
		"deeper":                {replace("/in/yes", `"no"`), "in.yes of type bool"},
		"the whole":             {replace("", `{"list":{}}`), "state.list of type []string"},
		"what does not fit":     {cairn.Op{Kind: cairn.OpAppend, Path: "/n", Items: []json.RawMessage{json.RawMessage("1")}}, "/n"},
		"an operation of none":  {cairn.Op{Kind: "swap", Path: "/n"}, `unknown operation "swap"`},
		"below a plain value":   {replace("/n/deep", "1"), "/n"},
		"a list for an object":  {replace("/in", "[]"), "state.in of type"},
		"an object for a truth": {replace("/in/yes", "{}"), "in.yes of type bool"},
	} {
		_, err := driver.MergeStateOf(t.Context(), st, "s", typ, replace("/more", "1"), test.op)
		if !errors.Is(err, cairn.ErrState) || !strings.Contains(err.Error(), test.has) {
			t.Errorf("%s: %v, want an error about %s", name, err, test.has)
		}
		if now, err := driver.State(t.Context(), st, "s", ""); err != nil || string(now) != before {
			t.Fatalf("%s: the state is %s, %v", name, now, err)
		}
	}
	if _, err := driver.MergeStateOf(t.Context(), st, "s", typ, replace("/n", "2"), replace("/unknown", "{}")); err != nil {
		t.Error(err)
	}
	if _, err := driver.MergeState(t.Context(), st, "s", replace("/n", `"two"`)); err != nil {
		t.Errorf("a state of any type: %v", err)
	}
	if _, err := driver.MergeStateOf(t.Context(), st, "s", typ, replace("/n", "3")); err != nil {
		t.Errorf("a repair: %v", err)
	}
}
