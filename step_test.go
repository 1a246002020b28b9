package cairn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/ops"
)

// caseFile is a define.Env that keeps everything in its fields.
type caseFile struct {
	state       json.RawMessage
	ops         []cairn.Op
	events      []string
	context     []cairn.Message
	usage       map[string]float64
	checkpoints int
	fail        error
	asked       []define.Question
	answer      json.RawMessage // to each question; nil for none yet
	workspace   string
	blobs       []int // sizes
	published   []string
}

func (d *caseFile) State() (json.RawMessage, error) { return d.state, d.fail }

func (d *caseFile) Update(op cairn.Op) error { return d.update(op) }

func (d *caseFile) Change(before, after json.RawMessage) error {
	list, err := ops.Diff(before, after)
	if err != nil || len(list) == 0 {
		return err
	}
	return d.update(list...)
}

func (d *caseFile) Publish(typ, name, _, _ string) error {
	d.events = append(d.events, typ+" "+name)
	return nil
}

func (d *caseFile) Sent() []cairn.Message { return d.context }

func (d *caseFile) SwitchedOff() []string { return nil }

func (d *caseFile) Tainted() bool {
	return len(d.context) > 0 && d.context[len(d.context)-1].Trust == cairn.TrustTainted
}

func (d *caseFile) Workspace() string { return d.workspace }

func (d *caseFile) SetWorkspace(ref string) error {
	d.workspace = ref
	return d.fail
}

func (d *caseFile) StoreBlob(_ context.Context, part []byte) (string, error) {
	d.blobs = append(d.blobs, len(part))
	return fmt.Sprint(len(d.blobs)), d.fail
}

func (d *caseFile) Publishes(name, mediaType string, size int64, blobs []string) error {
	d.published = append(d.published, fmt.Sprint(name, " ", mediaType, " ", size, " ", blobs))
	return nil
}

func (d *caseFile) update(list ...cairn.Op) error {
	state, err := ops.Fold(d.state, list)
	if err != nil {
		return err
	}
	d.state, d.ops = state, append(d.ops, list...)
	return nil
}

func (d *caseFile) Emit(name, id string, data json.RawMessage) error {
	d.events = append(d.events, name+id+" "+string(data))
	return nil
}

func (d *caseFile) AddContext(m cairn.Message)              { d.context = append(d.context, m) }
func (d *caseFile) RecordUsage(name string, amount float64) { d.usage[name] += amount }
func (d *caseFile) SwitchTools(map[string]bool) error       { return nil }
func (d *caseFile) Exec(_, _, _ string, _ []any) error      { return nil }
func (d *caseFile) Checkpoint()                             { d.checkpoints++ }

func (d *caseFile) Describe(*string, []string, map[string]any) error { return nil }

func (d *caseFile) Ask(q define.Question) (json.RawMessage, error) {
	if d.asked = append(d.asked, q); d.answer == nil {
		return nil, cairn.ErrSuspended
	}
	return d.answer, nil
}

func (d *caseFile) Kept() (json.RawMessage, error) { return nil, nil }
func (d *caseFile) Keep(json.RawMessage) error     { return nil }

func newCaseFile(state string) (*caseFile, *cairn.Step) {
	d := &caseFile{state: json.RawMessage(state), usage: map[string]float64{}}
	return d, define.NewStep(cairn.Step{SessionID: "session", RunID: "run", Number: 2}, d)
}

type ledger struct {
	Issued  []string        `json:"issued"`
	Count   int             `json:"count"`
	Note    *string         `json:"note,omitempty"`
	Inner   *inner          `json:"inner"`
	Numbers map[string]*int `json:"numbers,omitempty"`
}

type inner struct {
	Text *string `json:"text"`
}

func TestUpdateStateWritesWhatChanged(t *testing.T) {
	t.Parallel()
	note := "n"
	for _, test := range []struct {
		name, before string
		change       func(*ledger)
		ops, after   string
	}{
		{"nothing", `{"issued":["a"],"other":1}`, func(*ledger) {}, `null`, `{"issued":["a"],"other":1}`},
		{"append", `{"issued":["a"],"other":1}`, func(l *ledger) { l.Issued = append(l.Issued, "b") },
			`[{"op":"append","path":"/issued","items":["b"]}]`, `{"issued":["a","b"],"other":1}`},
		{"append to nothing", `{}`, func(l *ledger) { l.Issued = append(l.Issued, "a") }, `[{"op":"append","path":"/issued","items":["a"]}]`, `{"issued":["a"]}`},
		{"replace", `{"count":1}`, func(l *ledger) { l.Count++ }, `[{"op":"replace","path":"/count","value":2}]`, `{"count":2}`},
		{"delete", `{"note":"x"}`, func(l *ledger) { l.Note = nil }, `[{"op":"delete","path":"/note"}]`, `{}`},
		{"add", `{}`, func(l *ledger) { l.Note = &note }, `[{"op":"replace","path":"/note","value":"n"}]`, `{"note":"n"}`},
		{"pointer to a struct of nil", `{}`, func(l *ledger) { l.Inner = &inner{} }, `[{"op":"replace","path":"/inner/text","value":null}]`, `{"inner":{"text":null}}`},
		{"nil in a map", `{"numbers":{"a":1}}`, func(l *ledger) { l.Numbers["b"] = nil }, `[{"op":"replace","path":"/numbers/b","value":null}]`, `{"numbers":{"a":1,"b":null}}`},
		{"shrink", `{"issued":["a","b"]}`, func(l *ledger) { l.Issued = l.Issued[:1] }, `[{"op":"replace","path":"/issued","value":["a"]}]`, `{"issued":["a"]}`},
	} {
		d, step := newCaseFile(test.before)
		if err := cairn.UpdateState(step, test.change); err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		list, err := json.Marshal(d.ops)
		if err != nil {
			t.Fatal(err)
		}
		if string(list) != test.ops {
			t.Errorf("%s: wrote %s, want %s", test.name, list, test.ops)
		}
		same, err := ops.Diff(d.state, json.RawMessage(test.after))
		if err != nil || len(same) > 0 {
			t.Errorf("%s: state is %s, want %s", test.name, d.state, test.after)
		}
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	d, step := newCaseFile(`{"count":3,"unknown":true}`)
	call := &cairn.Call{Step: step, ID: "call"}
	for _, handle := range []cairn.Handle{step, call} {
		if got, err := cairn.State[ledger](handle); err != nil || got.Count != 3 {
			t.Errorf("state %+v, %v", got, err)
		}
	}
	d.state = json.RawMessage(`{"count":"three"}`)
	if _, err := cairn.State[ledger](step); !errors.Is(err, cairn.ErrState) {
		t.Errorf("state that does not decode: %v", err)
	}
	if err := cairn.UpdateState(step, func(*ledger) { t.Error("change was called") }); !errors.Is(err, cairn.ErrState) {
		t.Errorf("update of state that does not decode: %v", err)
	}
	d.fail = io.EOF
	if _, err := cairn.State[ledger](step); err != io.EOF {
		t.Errorf("the host's error becomes %v", err)
	}
	d.fail, d.state = nil, json.RawMessage(`{}`)
	err := cairn.UpdateState(step, func(m *map[string]any) { (*m)["f"] = func() {} })
	if !errors.Is(err, cairn.ErrState) || len(d.ops) > 0 {
		t.Errorf("state that does not encode: %v, wrote %v", err, d.ops)
	}
}

func TestStateType(t *testing.T) {
	t.Parallel()
	typ := cairn.StateOf(ledger{Count: 1})
	if string(typ.Initial()) != `{"issued":null,"count":1,"inner":null}` {
		t.Errorf("initial state %s", typ.Initial())
	}
	if err := typ.Check(typ.Initial()); err != nil {
		t.Error(err)
	}
	if err := typ.Check(json.RawMessage(`{"count":"x"}`)); !errors.Is(err, cairn.ErrState) {
		t.Errorf("error %v", err)
	}
}

func TestStepWrites(t *testing.T) {
	t.Parallel()
	d, step := newCaseFile(`{}`)
	for _, err := range []error{step.Append([]string{"list"}, "a", 1), step.Append([]string{"a/b", "~"}, nil), step.Set([]string{"m", "x"}, map[string]int{"y": 1}),
		step.Set([]string{"gone"}, 1), step.Delete("gone"), step.Add([]string{"sums", "a"}, 3), step.Add([]string{"sums", "a"}, int64(-1)), step.Add([]string{"sums", "b"}, json.Number("0.5"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := `{"a/b":{"~":[null]},"list":["a",1],"m":{"x":{"y":1}},"sums":{"a":2,"b":0.5}}`
	if string(d.state) != want {
		t.Errorf("state %s, want %s", d.state, want)
	}
	n := len(d.ops)
	for name, err := range map[string]error{
		"append a function": step.Append([]string{"x"}, func() {}), "set a channel": step.Set([]string{"x"}, make(chan int)),
		"add a function": step.Add([]string{"x"}, func() {}),
	} {
		if !errors.Is(err, cairn.ErrState) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if len(d.ops) != n {
		t.Errorf("mistakes wrote %v", d.ops[n:])
	}
}

func TestStepSays(t *testing.T) {
	t.Parallel()
	d, step := newCaseFile(`{}`)
	if err := step.Emit("progress", map[string]int{"done": 3}); err != nil {
		t.Error(err)
	}
	if err := step.AddContext("The user is on the phone."); err != nil {
		t.Error(err)
	}
	step.RecordUsage("pages", 1.5)
	step.RecordUsage("pages", 1)
	step.Checkpoint()
	if len(d.events) != 1 || d.events[0] != `progress {"done":3}` || d.usage["pages"] != 2.5 || d.checkpoints != 1 {
		t.Errorf("events %q, usage %v, checkpoints %d", d.events, d.usage, d.checkpoints)
	}
	if len(d.context) != 1 || !d.context[0].Hidden || d.context[0].Role != cairn.RoleUser || d.context[0].Text() != "The user is on the phone." {
		t.Errorf("context %+v", d.context)
	}
	for field, err := range map[string]error{"name": step.Emit("", 1), "data": step.Emit("x", func() {}), "id": step.Emit("x", 1, cairn.EmitID("a\n")), "context": step.AddContext("")} {
		var e *cairn.Error
		if !errors.As(err, &e) || e.Code != cairn.ErrInvalid || e.Field != field {
			t.Errorf("%s: error %v", field, err)
		}
	}
	if len(d.events)+len(d.context) != 2 {
		t.Error("mistakes were recorded")
	}
	if err := step.AddContext("caf\xe9 \x00"); err != nil || d.context[1].Text() != "caf\uFFFD \uFFFD" {
		t.Errorf("context with characters that cannot be stored: %v, %v", d.context, err)
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	key := func(session, run, call string) string {
		return (&cairn.Call{Step: &cairn.Step{SessionID: session, RunID: run}, ID: call}).IdempotencyKey()
	}
	if key("s", "run-1", "c") != key("s", "run-2", "c") {
		t.Error("a call tried again by another run has another key")
	}
	if key("s", "", "c") == key("s", "", "d") || key("s", "", "c") == key("t", "", "c") || key("s", "", "c") == key("", "", "sc") {
		t.Error("two calls have one key")
	}
}

// Without an initial state a session begins with the zero value.
func TestStateOfNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		typ  *cairn.StateType
		want string
	}{
		"struct": {cairn.StateOf[struct{ N int }](), `{"N":0}`},
		"map":    {cairn.StateOf[map[string]int](), `{}`},
	} {
		if got := string(c.typ.Initial()); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
