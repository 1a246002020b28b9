package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// collect reads one call to its end.
func collect(ctx context.Context, m cairn.Model, req *cairn.Request) (chunks []cairn.Chunk, err error) {
	for c, streamErr := range m.Stream(ctx, req) {
		if streamErr != nil {
			return chunks, streamErr
		}
		chunks = append(chunks, c)
	}
	return chunks, nil
}

func texts(chunks []cairn.Chunk) string {
	var list []string
	for _, c := range chunks {
		list = append(list, c.Text)
	}
	return strings.Join(list, "|")
}

func request(session string, messages int) *cairn.Request {
	return &cairn.Request{SessionID: session, Messages: make([]cairn.Message, messages)}
}

func TestTextIsCutIntoWordsAndLosesNothing(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":              "|",
		"one":           "one|",
		"two words":     "two |words|",
		"a\n\nb  c ":    "a\n\n|b  |c |",
		" leading":      " |leading|",
		"grüße 世界 done": "grüße |世界 |done|",
	} {
		chunks, err := collect(t.Context(), scripted.New(scripted.Text(text)), request("s", 1))
		if got := texts(chunks); err != nil || got != strings.TrimPrefix(want, "|") {
			t.Errorf("Text(%q): deltas %q, error %v, want %q", text, got, err, want)
		}
	}
}

func TestCallIDs(t *testing.T) {
	t.Parallel()
	ids := func(m cairn.Model, req *cairn.Request) string {
		chunks, err := collect(t.Context(), m, req)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, c := range chunks {
			if c.CallID != "" {
				list = append(list, c.CallID)
			}
		}
		return strings.Join(list, " ")
	}
	two := scripted.Reply(scripted.Call("a", nil), scripted.Call("b", nil))
	reply := func() cairn.Model { return scripted.New(two) }

	first := ids(reply(), request("s", 3))
	list := strings.Fields(first)
	if len(list) != 4 || list[0] != list[1] || list[2] != list[3] || list[0] == list[2] {
		t.Fatalf("ids of two calls, each with start and arguments: %q", first)
	}
	if again := ids(reply(), request("s", 3)); again != first {
		t.Errorf("the same request got %q, then %q", first, again)
	}
	for what, req := range map[string]*cairn.Request{"session": request("t", 3), "history": request("s", 5)} {
		if other := ids(reply(), req); other == first {
			t.Errorf("another %s got the same ids %q", what, other)
		}
	}
	if got := ids(scripted.New(two.ID("mine")), request("s", 3)); got != list[0]+" "+list[0]+" mine mine" {
		t.Errorf("with an id for the last call: %q", got)
	}
	if again := ids(scripted.New(two), request("s", 3)); again != first {
		t.Errorf("ID changed the step it was called on: %q", again)
	}
}

func TestCallArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args any
		want string
	}{
		{nil, "{}"},
		{`{"half":`, `{"half":`},
		{[]byte(`[1]`), `[1]`},
		{json.RawMessage(`{"a":1}`), `{"a":1}`},
		{struct {
			Order int `json:"order"`
		}{42}, `{"order":42}`},
	} {
		chunks, err := collect(t.Context(), scripted.New(scripted.Call("tool", c.args)), request("s", 1))
		if err != nil || len(chunks) != 3 || chunks[1].Text != c.want {
			t.Errorf("Call(%v): %+v, %v", c.args, chunks, err)
		}
	}
	_, err := collect(t.Context(), scripted.New(scripted.Call("pay", math.Inf(1))), request("s", 1))
	if code := cairn.AsError(err).Code; code != cairn.ErrModelRequest || !strings.Contains(err.Error(), `"pay"`) {
		t.Errorf("arguments that do not marshal: %s %v", code, err)
	}
}

func TestFailKeepsVocabulary(t *testing.T) {
	t.Parallel()
	limited := &cairn.Error{Code: cairn.ErrRateLimited, Message: "slow down", RetryAfter: cairn.Duration(time.Minute)}
	cause := errors.New("reset")
	m := scripted.New(scripted.Fail(limited), scripted.Fail(cause), scripted.Fail(nil), scripted.Text("ok"))
	want := []cairn.Code{cairn.ErrRateLimited, cairn.ErrModel, cairn.ErrModelRequest}
	var errs []error
	for i, code := range want {
		_, err := collect(t.Context(), m, request("s", 1))
		if got := cairn.AsError(err); got == nil || got.Code != code {
			t.Fatalf("call %d: %v, want code %s", i+1, err, code)
		}
		errs = append(errs, err)
	}
	if cairn.AsError(errs[0]).RetryAfter != cairn.Duration(time.Minute) || !errors.Is(errs[1], cause) {
		t.Errorf("details were lost: %+v, %+v", errs[0], errs[1])
	}
	if chunks, err := collect(t.Context(), m, request("s", 1)); err != nil || texts(chunks) != "ok|" {
		t.Errorf("the call after three failures: %v %v", chunks, err)
	}
}

func TestBeyondTheScriptIsNotRetryable(t *testing.T) {
	t.Parallel()
	_, err := collect(t.Context(), scripted.New(), request("s", 1))
	if e := cairn.AsError(err); e == nil || e.Retryable() || e.Code.Category() != cairn.CategoryModel {
		t.Errorf("got %v", err)
	}
}

func TestFinishGivenByHandComesOnce(t *testing.T) {
	t.Parallel()
	step := scripted.Reply(scripted.Text("x"), scripted.Chunk(cairn.Chunk{Type: cairn.ChunkFinish, FinishReason: cairn.FinishReasonStopSequence}))
	chunks, err := collect(t.Context(), scripted.New(step), request("s", 1))
	if err != nil || len(chunks) != 2 || chunks[1].FinishReason != cairn.FinishReasonStopSequence {
		t.Errorf("%+v %v", chunks, err)
	}
}

func TestReplyKeepsUsageStopAndPaceOfItsParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		m := scripted.New(scripted.Reply(
			scripted.Text("one two").Pace(time.Second), scripted.Text("three").Usage(1, 2), scripted.Text("").FinishReason(cairn.FinishReasonLength)))
		chunks, err := collect(t.Context(), m, request("s", 1))
		if err != nil || len(chunks) != 5 || chunks[3].Usage.OutputTokens != 2 || chunks[4].FinishReason != cairn.FinishReasonLength {
			t.Errorf("%+v %v", chunks, err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("three deltas at one a second took %v", took)
		}
	})
}

func TestCancelEndsTheStream(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]func() scripted.Step{
		"gate":  func() scripted.Step { return scripted.Gate(make(chan struct{})) },
		"pause": func() scripted.Step { return scripted.Pause(time.Hour) },
		"pace":  func() scripted.Step { return scripted.Text("slow").Pace(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				step := scripted.Reply(scripted.Text("before"), held(), scripted.Text("after"))
				chunks, err := collect(ctx, scripted.New(step), request("s", 1))
				if !errors.Is(err, context.DeadlineExceeded) || cairn.AsError(err).Code != cairn.ErrTimeout {
					t.Errorf("error %v", err)
				}
				if time.Since(start) != time.Minute || strings.Contains(texts(chunks), "after") {
					t.Errorf("after %v: %q", time.Since(start), texts(chunks))
				}
			})
		})
	}
}

func TestCancelBetweenChunks(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"", "more"} {
		ctx, cancel := context.WithCancel(t.Context())
		step := scripted.Reply(scripted.Text("one"), scripted.Do(cancel), scripted.Text(last))
		chunks, err := collect(ctx, scripted.New(step), request("s", 1))
		if !errors.Is(err, context.Canceled) || cairn.AsError(err).Code != cairn.ErrAborted || texts(chunks) != "one" {
			t.Errorf("with %q to come: %q %v", last, texts(chunks), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range scripted.New(scripted.Text("one").Usage(1, 1)).Stream(ctx, request("s", 1)) {
		cancel() // while the last of the text is being read
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("a reply whose context ended just before its finish: %v", last)
	}
	m := scripted.New(scripted.Text("one"))
	if _, err := collect(ctx, m, request("s", 1)); !errors.Is(err, context.Canceled) || m.Calls() != 0 {
		t.Errorf("a call with an ended context: error %v, %d calls counted", err, m.Calls())
	}
}

func TestReaderMayStopAnywhere(t *testing.T) {
	t.Parallel()
	for n := range 5 {
		m := scripted.New(scripted.Reply(scripted.Text("a b"), scripted.Call("t", nil)).Usage(1, 1).Pace(1))
		seen := 0
		for range m.Stream(t.Context(), request("s", 1)) {
			if seen == n {
				break
			}
			seen++
		}
		if seen != n {
			t.Errorf("stopped at %d, not %d", seen, n)
		}
	}
}

func TestRequestsAreRecorded(t *testing.T) {
	t.Parallel()
	m := scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Step{} })
	req := request("s", 2)
	req.System = "be kind"
	for range 3000 {
		if _, err := collect(t.Context(), m, req); err != nil {
			t.Fatal(err)
		}
		req = &cairn.Request{SessionID: "s", Messages: append(req.Messages, cairn.Message{})}
	}
	seen := m.Requests()
	if m.Calls() != 3000 || len(seen) < 128 || len(seen) > 256 {
		t.Fatalf("%d calls, %d requests kept", m.Calls(), len(seen))
	}
	for i, r := range seen {
		if want := 2 + 3000 - len(seen) + i; len(r.Messages) != want {
			t.Fatalf("request %d has %d messages, want %d", i, len(r.Messages), want)
		}
	}
}

func TestConcurrentCallsGetOneStepEach(t *testing.T) {
	t.Parallel()
	words := strings.Fields("a b c d e f g h")
	var steps []scripted.Step
	for _, w := range words {
		steps = append(steps, scripted.Text(w))
	}
	m := scripted.New(steps...)
	var mu sync.Mutex
	got := map[string]int{}
	var all sync.WaitGroup
	for range words {
		all.Go(func() {
			chunks, err := collect(t.Context(), m, request("s", 1))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			got[chunks[0].Text]++
		})
	}
	all.Wait()
	if len(got) != len(words) {
		t.Errorf("steps played: %v", got)
	}
}

// BenchmarkTurn is the model's share of a turn: a reply that calls one tool, then one that answers.
func BenchmarkTurn(b *testing.B) {
	m := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if len(req.Messages) == 1 {
			return scripted.Call("lookup", `{"order":42}`)
		}
		return scripted.Text("Your order has shipped and is on its way.").Usage(100, 10)
	})
	first, second := request("s", 1), request("s", 3)
	b.ReportAllocs()
	for b.Loop() {
		for range m.Stream(b.Context(), first) {
		}
		for range m.Stream(b.Context(), second) {
		}
	}
}
