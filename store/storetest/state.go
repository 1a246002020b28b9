package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var stateTests = []storeTest{
	{name: "Operations", run: stateOperations},
	{name: "OperationThatDoesNotFit", run: badOperations},
	{name: "KeyframeIsKeptInsteadOfOps", run: keyframe},
	{name: "UnchangedStateHasNoPosition", run: unchangedState},
	{name: "ValuesKeepTheirSpelling", run: exactValues},
	{name: "SmallChangesOfALargeState", run: smallChanges},
	{name: "AtEachCheckpoint", run: stateAtCheckpoints},
	{name: "ConcurrentMergesAllSurvive", run: concurrentMerges},
	{name: "NoSession", run: stateOfNobody},
}

func appendOp(path string, values ...string) cairn.Op {
	return cairn.Op{Kind: cairn.OpAppend, Path: path, Items: items(values...)}
}

func incrementOp(path, amount string) cairn.Op {
	return cairn.Op{Kind: cairn.OpIncrement, Path: path, Value: []byte(amount)}
}

func stateOperations(h *harness) {
	for i, test := range []struct {
		name, before, after string
		ops                 []cairn.Op
	}{
		{"replace", `{"a":1}`, `{"a":2}`, []cairn.Op{replaceOp("/a", "2")}},
		{"replace makes what is missing", `{}`, `{"a":{"b":{"c":1}}}`, []cairn.Op{replaceOp("/a/b/c", "1")}},
		{"replace through null", `{"a":null}`, `{"a":{"b":1}}`, []cairn.Op{replaceOp("/a/b", "1")}},
		{"replace the whole", `{"a":1}`, `{"b":2}`, []cairn.Op{replaceOp("", `{"b":2}`)}},
		{"replace with null", `{"a":1}`, `{"a":null}`, []cairn.Op{replaceOp("/a", "null")}},
		{"last write wins", `{}`, `{"a":3}`, []cairn.Op{replaceOp("/a", "1"), replaceOp("/a", "2"), replaceOp("/a", "3")}},
		{"append", `{"a":[1]}`, `{"a":[1,2,3]}`, []cairn.Op{appendOp("/a", "2", "3")}},
		{"append to nothing", `{}`, `{"a":[1]}`, []cairn.Op{appendOp("/a", "1")}},
		{"append to null", `{"a":null}`, `{"a":[1]}`, []cairn.Op{appendOp("/a", "1")}},
		{"append deep down", `{"a":{"b":[]}}`, `{"a":{"b":[{"x":1},"y"]}}`, []cairn.Op{appendOp("/a/b", `{"x":1}`), appendOp("/a/b", `"y"`)}},
		{"delete", `{"a":1,"b":2}`, `{"b":2}`, []cairn.Op{deleteOp("/a")}},
		{"delete what is not there", `{"b":2}`, `{"b":2}`, []cairn.Op{deleteOp("/a"), deleteOp("/x/y/z")}},
		{"delete then append", `{"a":[1]}`, `{"a":[2]}`, []cairn.Op{deleteOp("/a"), appendOp("/a", "2")}},
		{"increment", `{"a":9007199254740993}`, `{"a":9007199254740990}`, []cairn.Op{incrementOp("/a", "-3")}},
		{"increment by a fraction", `{"a":1}`, `{"a":1.75}`, []cairn.Op{incrementOp("/a", "0.5"), incrementOp("/a", "0.25")}},
		{"increment what is not there", `{"b":null}`, `{"a":{"x":1},"b":5}`, []cairn.Op{incrementOp("/a/x", "1"), incrementOp("/b", "5")}},
		{"replace then increment", `{"a":1}`, `{"a":12}`, []cairn.Op{replaceOp("/a", "10"), incrementOp("/a", "2")}},
		{"names that need escaping", `{"a/b":{"c~d":1}}`, `{"a/b":{"c~d":2,"":3}}`, []cairn.Op{replaceOp("/a~1b/c~0d", "2"), replaceOp("/a~1b/", "3")}},
	} {
		id := fmt.Sprint("session-", i)
		h.createWith(id, test.before)
		s, err := driver.MergeState(h.Context(), h.st, id, test.ops...)
		h.must(err)
		same(h.T, test.name, h.state(id, ""), json.RawMessage(test.after))
		if s.State.Position != 1 || s.Version < 2 {
			h.Fatalf("%s: position %d, version %d, want 1 and a version after 1", test.name, s.State.Position, s.Version)
		}
	}
}

func badOperations(h *harness) {
	h.createWith("session", `{"a":1,"list":[]}`)
	for _, list := range [][]cairn.Op{
		{incrementOp("", "1")}, {incrementOp("/a", `"1"`)}, {incrementOp("/list", "1")}, {incrementOp("/a", "9223372036854775807")},
		{appendOp("/a", "1")}, {replaceOp("/a/b", "1")}, {appendOp("/list/x", "1")},
		{replaceOp("/b", "2"), appendOp("/a", "1")},
		{replaceOp("", "[]")}, {deleteOp("")}, {{Kind: "upsert", Path: "/a"}}, {replaceOp("a", "1")}, {replaceOp("/a", "{")},
	} {
		h.unchanged("session", fmt.Sprintf("%s %s", list[0].Kind, list[0].Path), func() {
			_, err := driver.MergeState(h.Context(), h.st, "session", list...)
			h.wantError(err, cairn.ErrState, fmt.Sprintf("%s %s", list[0].Kind, list[0].Path))
		})
	}
}

func keyframe(h *harness) {
	h.createWith("session", `{"a":1}`)
	s := h.commit("session", &driver.Commit{State: &driver.StateChange{Ops: []cairn.Op{replaceOp("/a", "2")}, Keyframe: []byte(`{"whole":true}`)}})
	h.wantState("session", "", `{"whole":true}`)
	if s.State.Position != 1 || s.State.ChangeBytes != 0 {
		h.Fatalf("after a keyframe the position is %+v", s.State)
	}
	s = h.commit("session", &driver.Commit{State: &driver.StateChange{Ops: []cairn.Op{replaceOp("/b", "2")}}})
	h.wantState("session", "", `{"whole":true,"b":2}`)
	if s.State.Position != 2 || s.State.ChangeBytes == 0 {
		h.Fatalf("after a change the position is %+v", s.State)
	}
}

func unchangedState(h *harness) {
	s := h.running("session")
	for range 3 {
		next := h.step(s, "reply")
		if next.State != s.State {
			h.Fatalf("a step without a change moved the state from %+v to %+v", s.State, next.State)
		}
		cp, err := driver.FindCheckpoint(h.Context(), h.st, "session", next.CheckpointID)
		h.must(err)
		if cp.StatePosition != s.State.Position {
			h.Fatalf("the checkpoint is at state position %d, want %d", cp.StatePosition, s.State.Position)
		}
		s = next
	}
}

func exactValues(h *harness) {
	const want = `{"big":12345678901234567890,"exact":0.1,"small":1e-300,"neg":-9007199254740993,"text":"é 🜁 \" \\ \n <&> 中","deep":[[[[{"x":[]}]]]],"":{}}`
	h.createWith("initial", want)
	h.wantState("initial", "", want)
	h.create("changed")
	_, err := driver.MergeState(h.Context(), h.st, "changed", replaceOp("", want))
	h.must(err)
	h.wantState("changed", "", want)
	_, err = driver.MergeState(h.Context(), h.st, "changed", replaceOp("/copy", want), appendOp("/list", want))
	h.must(err)
	h.wantState("changed", "", strings.TrimSuffix(want, "}")+`,"copy":`+want+`,"list":[`+want+`]}`)
}

// smallChanges adds 100 bytes at a time to a state of 100 KB. The stored size stays near the sum of the changes and the
// keyframes, which the row's state position counts.
func smallChanges(h *harness) {
	body := strings.Repeat("x", 100<<10)
	s := h.createWith("session", fmt.Sprintf(`{"body":%q}`, body))
	if s.State.KeyframeBytes < int64(len(body)) {
		h.Fatalf("the initial keyframe counts %d bytes, want at least %d", s.State.KeyframeBytes, len(body))
	}
	n := h.rounds(500)
	want := []string{}
	var changes, keyframes, stored int64
	for i := range n {
		item := fmt.Sprintf("%q", fmt.Sprintf("%0100d", i))
		want = append(want, item)
		op := appendOp("/list", item)
		raw, err := json.Marshal([]cairn.Op{op})
		h.must(err)
		c := &driver.Commit{State: &driver.StateChange{Ops: []cairn.Op{op}}}
		if driver.KeyframeDue(s.State, len(raw)) {
			c.State = h.change(s, op)
		}
		next := h.commit("session", c)
		if next.State.Position != s.State.Position+1 {
			h.Fatalf("change %d moved the position from %d to %d", i, s.State.Position, next.State.Position)
		}
		changes += int64(len(raw))
		if next.State.ChangeBytes == 0 {
			keyframes += int64(len(c.State.Keyframe))
			stored += next.State.KeyframeBytes
		} else {
			stored += next.State.ChangeBytes - s.State.ChangeBytes
		}
		s = next
	}
	h.wantState("session", "", fmt.Sprintf(`{"body":%q,"list":[%s]}`, body, strings.Join(want, ",")))
	if stored > 3*(changes+keyframes) || stored < changes/3 {
		h.Fatalf("%d changes of %d bytes with keyframes of %d bytes count as %d bytes", n, changes, keyframes, stored)
	}
}

// stateAtCheckpoints makes changes of all sizes, some of which fold into keyframes, and reads the state at each
// checkpoint.
func stateAtCheckpoints(h *harness) {
	h.createWith("session", `{"n":0}`)
	s := h.begin("session", "run")
	random := rand.New(rand.NewPCG(1, 2))
	current := json.RawMessage(`{"n":0}`)
	want := map[string]json.RawMessage{}
	keyframes := 0
	for i := range 60 {
		list := []cairn.Op{replaceOp("/n", fmt.Sprint(i)), incrementOp("/sum", fmt.Sprint(i)), appendOp("/list", fmt.Sprintf("%q", strings.Repeat("x", random.IntN(1500))))}
		if i%7 == 0 {
			list = append(list, deleteOp("/list"))
		}
		var err error
		current, err = driver.FoldState(current, [][]cairn.Op{list})
		h.must(err)
		s = h.stepState(s, fmt.Sprint("reply ", i), list...)
		want[s.CheckpointID] = current
		if s.State.ChangeBytes == 0 {
			keyframes++
		}
	}
	if keyframes < 2 {
		h.Fatalf("%d keyframes were written, the test wants several", keyframes)
	}
	for id, state := range want {
		h.wantState("session", id, string(state))
	}
	h.wantState("session", "", string(current))
}

func concurrentMerges(h *harness) {
	h.create("session")
	total := h.rounds(50)
	handles := handles{h.st}
	if h.opts.Second != nil {
		handles = append(handles, h.opts.Second(h.T, h.st))
	}
	errs := race(racers, func(i int) error {
		for n := 0; n < total; {
			_, err := driver.MergeState(h.Context(), handles.of(i), "session",
				appendOp("/all", fmt.Sprintf(`[%d,%d]`, i, n)), replaceOp(fmt.Sprintf("/last/%d", i), fmt.Sprint(n)), incrementOp("/count", "1"))
			if errors.Is(err, cairn.ErrStale) {
				continue // others were faster in all of Update's attempts
			}
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	h.must(errors.Join(errs...))
	var state struct {
		All   [][2]int
		Last  map[string]int
		Count int
	}
	h.must(json.Unmarshal(h.state("session", ""), &state))
	if state.Count != racers*total {
		h.Fatalf("%d of %d increments survived", state.Count, racers*total)
	}
	next := map[int]int{}
	for _, item := range state.All {
		if writer, n := item[0], item[1]; next[writer] != n {
			h.Fatalf("writer %d: item %d comes where %d is expected", writer, n, next[writer])
		}
		next[item[0]]++
	}
	for i := range racers {
		if next[i] != total || state.Last[fmt.Sprint(i)] != total-1 {
			h.Fatalf("writer %d: %d of %d items survived, its last one is %d", i, next[i], total, state.Last[fmt.Sprint(i)])
		}
	}
}

func stateOfNobody(h *harness) {
	s := h.running("session")
	h.create("other")
	for _, at := range [][2]string{{"nobody", ""}, {"session", "nothing"}, {"other", s.CheckpointID}} {
		_, err := driver.State(h.Context(), h.st, at[0], at[1])
		h.wantError(err, cairn.ErrNotFound, fmt.Sprintf("state of %q at %q", at[0], at[1]))
	}
}
