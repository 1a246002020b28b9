package backend

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/sample"
)

// step is what a step with a tool says, and the beginning of the answer.
func step() []cairn.Event {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	list := []cairn.Event{
		{Type: cairn.EventStepStart},
		{Type: cairn.EventToolArgStart, CallID: "call_0123456789", Tool: "look_up"},
		{Type: cairn.EventToolArgEnd, CallID: "call_0123456789", Tool: "look_up", Data: json.RawMessage(`{"q":"weather"}`)},
		{Type: cairn.EventUsage, Usage: &cairn.Usage{InputTokens: 1200, OutputTokens: 40, ModelCalls: 1}},
		{Type: cairn.EventToolStart, CallID: "call_0123456789", Tool: "look_up", Data: json.RawMessage(`{"q":"weather"}`)},
		{Type: cairn.EventToolEnd, CallID: "call_0123456789", Tool: "look_up", Data: json.RawMessage(`{"sky":"<blue>"}`)},
		{Type: cairn.EventCheckpoint, CheckpointID: "cp_0123456789", MessageCount: 3},
		{Type: cairn.EventUserMessage, Index: 3, MessageID: "run_0123456789/in0", Text: "and at night?"},
		{Type: cairn.EventContextAdded, Index: 4, MessageID: "msg_0123456789", Files: []cairn.FileRef{{Part: 1, MediaType: "image/png"}}},
		{Type: cairn.EventStepCommitted, MessageCount: 3},
		{Type: cairn.EventStepStart, Step: 2},
	}
	for i, word := range strings.Fields("The sky is blue, as it has been all day.") {
		list = append(list, cairn.Event{Type: cairn.EventTextDelta, Step: 2, Text: word, Time: at.Add(time.Duration(i))})
	}
	for i := range list {
		ev := &list[i]
		ev.SessionID, ev.RunID, ev.Agent = "session-0123456789", "run_0123456789", "support"
		ev.Step, ev.Time = max(ev.Step, 1), at.Add(time.Duration(i)*time.Millisecond)
	}
	return list
}

// odd returns events with rare fields.
func odd() []cairn.Event {
	return []cairn.Event{
		{},
		{Type: "a type of tomorrow", SessionID: "s", Time: time.Unix(0, 0).UTC()},
		{Type: cairn.EventCustom, Name: "n", Data: json.RawMessage(`null`), Step: math.MinInt64, MessageCount: math.MaxInt64},
		{Type: "a type of tomorrow", Usage: &cairn.Usage{}, Step: math.MaxInt64},
		{Usage: &cairn.Usage{InputTokens: -1, SubAgentRuns: math.MaxInt64, Custom: map[string]float64{"eur": 0.01}}},
		{Time: time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), Error: cairn.Errorf(cairn.ErrInvalid, "no")},
		{Time: time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC), Deadline: sample.Time},
		{Time: time.Unix(0, math.MaxInt64).UTC()},
		{Time: sample.Time, Patch: []cairn.PatchOp{{Op: "add", Path: "/a", Value: json.RawMessage(`[1]`)}}},
		{Text: strings.Repeat("long ", 10_000), Data: json.RawMessage(`"` + strings.Repeat("x", 70_000) + `"`)},
		{Data: json.RawMessage(`"` + strings.Repeat("x", 70_000) + `"`)},
	}
}

func encoded(t testing.TB, events []cairn.Event) []byte {
	t.Helper()
	data, err := EncodeEvents(events)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// numbered returns the events with their sequences, starting at first.
func numbered(first int64, events []cairn.Event) []cairn.Event {
	list := slices.Clone(events)
	for i := range list {
		list[i].Sequence = first + int64(i)
	}
	return list
}

func sameEvents(t testing.TB, got, want []cairn.Event) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("event %d:\n%+v\nwant\n%+v", i, got[i], want[i])
		}
	}
}

// Any part of a batch can be read.
func TestEventsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, events := range [][]cairn.Event{nil, step(), odd(), slices.Concat(odd(), step(), odd())} {
		data, all := encoded(t, events), numbered(41, events)
		if n, err := CountEvents(data); n != len(events) || err != nil {
			t.Errorf("%d events (%v), want %d", n, err, len(events))
		}
		for after := int64(0); after < int64(len(events))+2; after++ {
			for _, limit := range []int{0, 1, 2, 7, 1000} {
				got, err := DecodeEvents(nil, data, 41, 40+after, limit)
				if err != nil {
					t.Fatal(err)
				}
				from := min(int(after), len(all))
				sameEvents(t, got, all[from:min(from+limit, len(all))])
			}
		}
	}
}

// A field that cairn.Event gets is stored without a change of this package.
func TestEveryFieldOfAnEventIsStored(t *testing.T) {
	t.Parallel()
	var whole cairn.Event
	sample.Fill(&whole)
	whole.Sequence, whole.Incarnation = 0, ""
	list := []cairn.Event{whole, {}, whole}
	for i := range reflect.TypeFor[cairn.Event]().NumField() {
		var one cairn.Event
		reflect.ValueOf(&one).Elem().Field(i).Set(reflect.ValueOf(whole).Field(i))
		list = append(list, one)
	}
	for i := range reflect.TypeFor[cairn.Usage]().NumField() {
		one := cairn.Event{Usage: &cairn.Usage{}}
		reflect.ValueOf(one.Usage).Elem().Field(i).Set(reflect.ValueOf(whole.Usage).Elem().Field(i))
		list = append(list, one)
	}
	got, err := DecodeEvents(nil, encoded(t, list), 1, 0, len(list))
	if err != nil {
		t.Fatal(err)
	}
	sameEvents(t, got, numbered(1, list))
}

// Each type that package cairn names has a number, so that it takes one byte.
func TestEveryTypeHasANumber(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../../event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	named := []cairn.EventType{""}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "EventType" {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		named = append(named, cairn.EventType(text))
		return true
	})
	slices.Sort(named)
	numbered := slices.Sorted(slices.Values(eventTypes[:]))
	if len(named) < 20 || !slices.Equal(named, numbered) {
		t.Errorf("the types are\n%q\nand those with a number\n%q", named, numbered)
	}
}

// Events can be added to a copy of a batch, and what a batch has is not stored again.
func TestEventsAreAdded(t *testing.T) {
	t.Parallel()
	events := step()
	var b Events
	for i := range events {
		c := b.Clone()
		if err := c.Add(&events[i]); err != nil {
			t.Fatal(err)
		}
		if b.Count() != i || c.Count() != i+1 || c.Size() != len(c.Bytes()) {
			t.Fatalf("after %d events the batch has %d, and the one before %d", i+1, c.Count(), b.Count())
		}
		b = *c
	}
	if !bytes.Equal(b.Bytes(), encoded(t, events)) {
		t.Error("a batch that events were added to differs from the one that was made of all")
	}
	one := len(encoded(t, events[:1]))
	text := 0
	for i := range events {
		text += len(events[i].Text)
	}
	if size := b.Size(); size > 3*one+text+9*len(events) {
		t.Errorf("%d events with %d bytes of text take %d bytes, the first one %d", len(events), text, size, one)
	}
	bad := cairn.Event{Usage: &cairn.Usage{Custom: map[string]float64{"n": math.NaN()}}}
	if err := b.Add(&bad); !errors.Is(err, cairn.ErrInvalid) || b.Count() != len(events) {
		t.Errorf("an event that does not encode: %v, %d events", err, b.Count())
	}
}

func isCorrupt(err error) bool {
	var e *cairn.Error
	return errors.As(err, &e) && e.Code == cairn.ErrCorrupt
}

// A batch that was cut is never taken for a shorter one, and what follows a batch is not passed over.
func TestDamagedBatchIsCorrupt(t *testing.T) {
	t.Parallel()
	data := encoded(t, slices.Concat(step(), odd()[:9]))
	prior := []cairn.Event{{Text: "before"}}
	for n := range data {
		if list, err := DecodeEvents(prior, data[:n], 1, 0, 1000); !isCorrupt(err) || len(list) != 1 {
			t.Fatalf("%d of %d bytes: %v, %d events", n, len(data), err, len(list))
		}
	}
	if _, err := DecodeEvents(nil, append(slices.Clone(data), 0), 1, 0, 1000); !isCorrupt(err) {
		t.Errorf("a byte more: %v", err)
	}
	if _, err := DecodeEvents(nil, append([]byte{2}, data[1:]...), 1, 0, 1000); !isCorrupt(err) {
		t.Errorf("another version: %v", err)
	}
}

// FuzzDecodeEvents reads batches of any bytes: they are corrupt, or what is read can be written and read again, and any
// part of it is a part of the whole.
func FuzzDecodeEvents(f *testing.F) {
	f.Add(encoded(f, step()), int64(3), 5)
	f.Add(encoded(f, odd()[:9]), int64(0), 1)
	f.Add([]byte{1, 2, 1, 0, 2, 'a', 4, 1, 'b'}, int64(1), 1)
	f.Fuzz(func(t *testing.T, data []byte, after int64, limit int) {
		whole, err := DecodeEvents(nil, bytes.Clone(data), 1, 0, math.MaxInt)
		if err != nil {
			if !isCorrupt(err) {
				t.Fatal(err)
			}
			return
		}
		after, limit = max(0, after), min(max(0, limit), 1000)
		part, err := DecodeEvents(nil, bytes.Clone(data), 1, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		from := int(min(after, int64(len(whole))))
		sameEvents(t, part, whole[from:min(from+limit, len(whole))])
		again, err := EncodeEvents(whole)
		if err != nil {
			if !errors.Is(err, cairn.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if back, err := DecodeEvents(nil, again, 1, 0, math.MaxInt); err != nil || len(back) != len(whole) {
			t.Fatalf("%d of %d events come back: %v", len(back), len(whole), err)
		}
	})
}

func BenchmarkEncodeEvents(b *testing.B) {
	events := step()
	for b.Loop() {
		if _, err := EncodeEvents(events); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeEventsAsJSON(b *testing.B) {
	events := step()
	for b.Loop() {
		for i := range events {
			if _, err := json.Marshal(&events[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkDecodeEvents(b *testing.B) {
	data := encoded(b, step())
	var list []cairn.Event
	for b.Loop() {
		var err error
		if list, err = DecodeEvents(list[:0], data, 1, 0, 1000); err != nil {
			b.Fatal(err)
		}
	}
}
