package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"unsafe"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server/aisdk"
	"github.com/cairn-agents/cairn/server/internal/shared"
	"github.com/cairn-agents/cairn/store/memstore"
)

// eventfulLog returns the log of a turn with reasoning, tools, data and discarded attempts.
func eventfulLog(t *testing.T) []cairn.Event {
	t.Helper()
	look := cairn.Func("look", "Looks.", func(_ context.Context, call *cairn.Call, _ struct{}) (map[string]any, error) {
		return map[string]any{"seen": strings.Repeat("a tree ", 20)}, call.Emit("progress", map[string]int{"done": 1})
	})
	attempts := 0
	bot := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{look}, Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		if r.Messages[len(r.Messages)-1].Role != cairn.RoleTool {
			return scripted.Reply(scripted.Thinking("Let me look at it."), scripted.Text("One moment, please."), scripted.Call("look", struct{}{}), scripted.Call("look", struct{}{}))
		}
		if attempts++; attempts < 3 {
			return scripted.Reply(scripted.Text("This is wrong and taken back."), scripted.Fail(errors.New("overloaded")))
		}
		return scripted.Reply(scripted.Thinking("Now I know."), scripted.Text("It is a tree, and a tall one."))
	})}
	st := memstore.New(nil)
	eng, err := engine.New(st, []*cairn.Agent{bot}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(context.Background())
	run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("what is it?"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	events, err := eng.History(t.Context(), "s", cairn.Cursor{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// follower is a simulated reader: a client's, from some place in the log.
type follower struct {
	name  string
	at    int // index of the next event
	enc   *aisdk.Encoder
	alone *aisdk.Encoder // encodes the same for a reader without others
	shown []any
}

func newFollower(rng *rand.Rand, events []cairn.Event) *follower {
	f := &follower{at: rng.IntN(len(events) - 1)}
	kind := rng.IntN(5)
	switch kind {
	case 0, 1:
		f.shown = [][]any{[]any{shownEvent{}}, []any{shownEvent{whole: true}}}[kind]
		f.name = fmt.Sprint("events, whole ", f.shown[0])
	default:
		v := []aisdk.Version{aisdk.V5, aisdk.V6, aisdk.V7}[kind-2]
		f.name = fmt.Sprint("chat of version ", v)
		f.enc, f.alone = aisdk.New(v, "s", "turn"), aisdk.New(v, "s", "turn")
		f.enc.Replay(events[:f.at])
		f.alone.Replay(events[:f.at])
	}
	f.name += fmt.Sprint(" from ", f.at)
	return f
}

// next returns the frames of the next event, and those of a reader alone.
func (f *follower) next(t *testing.T, log *shared.Log, events []cairn.Event) (got, want []byte) {
	ev := events[f.at] // a copy, as a reader gets it
	f.at++
	var err error
	if f.enc == nil {
		if got, err = log.Frame(&ev, f.shown, frame); err == nil {
			want, err = frame(&ev, f.shown)
		}
	} else {
		if chunks := f.enc.Chunks(&ev); len(chunks) > 0 {
			got, err = log.Frame(&ev, chunks, chunkFrames)
		}
		want = f.alone.Event(&ev)
	}
	if err != nil {
		t.Fatal(err)
	}
	return got, want
}

// Whatever other clients read of a log, in which form, from where on and how far behind: each gets the bytes that it
// would get alone.
func TestSharedFramesAreThoseOfAReaderAlone(t *testing.T) {
	t.Parallel()
	var events []cairn.Event
	synctest.Test(t, func(t *testing.T) { events = eventfulLog(t) })
	types := map[cairn.EventType]int{}
	for i := range events {
		types[events[i].Type]++
	}
	for _, want := range []cairn.EventType{cairn.EventThinking, cairn.EventToolEnd, cairn.EventCustom, cairn.EventStepDiscarded} {
		if types[want] == 0 {
			t.Errorf("the log has no %s: %v", want, types)
		}
	}
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var logs shared.Logs
		type joined struct {
			*follower
			log   *shared.Log
			leave func()
		}
		var list []joined
		for len(list) < 20 {
			log, leave := logs.Join("log")
			list = append(list, joined{newFollower(rng, events), log, leave})
		}
		for len(list) > 0 {
			i := rng.IntN(len(list))
			if rng.IntN(20) == 0 { // it drops out
				list[i].at = len(events)
			}
			for range 1 + rng.IntN(8) {
				if list[i].at == len(events) {
					list[i].leave()
					list = append(list[:i], list[i+1:]...)
					break
				}
				if got, want := list[i].next(t, list[i].log, events); !bytes.Equal(got, want) {
					t.Fatalf("seed %d: %s: event %d is sent as\n%s\nalone as\n%s", seed, list[i].name, list[i].at, got, want)
				}
			}
		}
	}
}

// Readers that are shown the same get the same memory, also if they joined at other places.
func TestReadersShareFrames(t *testing.T) {
	t.Parallel()
	var events []cairn.Event
	synctest.Test(t, func(t *testing.T) { events = eventfulLog(t) })
	var logs shared.Logs
	log, _ := logs.Join("log")
	logs.Join("log")
	v6, v7 := aisdk.New(aisdk.V6, "s", "turn"), aisdk.New(aisdk.V7, "s", "turn")
	v7.Replay(events[:3])
	v6.Replay(events[:1])
	v6.Chunks(&events[1])
	v6.Chunks(&events[2])
	sharing := 0
	for _, ev := range events[3:] {
		a, b := v6.Chunks(&ev), v7.Chunks(&ev)
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		x, _ := log.Frame(&ev, a, chunkFrames)
		y, _ := log.Frame(&ev, b, chunkFrames)
		if bytes.Equal(x, y) {
			if sharing++; unsafe.SliceData(x) != unsafe.SliceData(y) {
				t.Fatalf("%s is encoded twice", x)
			}
		}
		x, _ = log.Frame(&ev, []any{shownEvent{}}, frame)
		y, _ = log.Frame(&ev, []any{shownEvent{}}, frame)
		if unsafe.SliceData(x) != unsafe.SliceData(y) {
			t.Fatalf("%s is encoded twice", x)
		}
	}
	if sharing < 20 {
		t.Errorf("%d frames are shared", sharing)
	}
}

// A server keeps frames for the streams that are open, and no longer.
func TestFramesAreForgottenWithTheirReaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	want[json.RawMessage](w, 201, "a", "POST", "/sessions", map[string]any{"session_id": "s"})
	await := func(want int) {
		t.Helper()
		testclock.Await(t, fmt.Sprint(want, " readers to share frames"), func() bool { return w.h.frames.Readers() == want })
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for n := range 3 {
		req, err := http.NewRequestWithContext(ctx, "GET", w.url+"/sse?session_id=s", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer a")
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != 200 {
			t.Fatal(res, err)
		}
		defer res.Body.Close()
		await(n + 1)
	}
	leave()
	await(0)
}
