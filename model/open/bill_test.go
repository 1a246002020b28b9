package open_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/fallback"
	"github.com/cairn-agents/cairn/model/open"
	"github.com/cairn-agents/cairn/store/memstore"
)

// answers is a provider that sends event streams in turn; an empty one is an overload.
type answers struct {
	mu   sync.Mutex
	list []string
	left int
}

func (a *answers) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left == len(a.list) {
		http.Error(w, "no more", http.StatusTeapot)
		return
	}
	text := a.list[a.left]
	if a.left++; text == "" {
		http.Error(w, `{"error":{"type":"overloaded_error","message":"busy"}}`, http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = w.Write([]byte(text))
}

// spent is what a request used: fresh input, input from the cache, input into it, of which some for an hour, output, of
// which some is reasoning, and the provider's searches of the web and of files.
type spent struct{ fresh, read, write, hour, output, thought, web, files int64 }

// times returns a text n times.
func times(n int64, text string) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = text
	}
	return list
}

// ends is how a reply ends.
type ends int

const (
	whole ends = iota
	cut
	refused
)

// sse writes events, each with its type if typed is set.
func sse(typed bool, events ...string) string {
	var b strings.Builder
	for _, ev := range events {
		if kind, rest, ok := strings.Cut(strings.TrimPrefix(ev, `{"type":"`), `"`); typed && ok && rest != "" {
			fmt.Fprintf(&b, "event: %s\n", kind)
		}
		fmt.Fprintf(&b, "data: %s\n\n", ev)
	}
	return b.String()
}

// claude writes a reply as the Messages API does. Further requests and an advisor are on the list of iterations.
func claude(u spent, end ends, more ...string) string {
	usage := fmt.Sprintf(`"input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,"cache_creation":{"ephemeral_5m_input_tokens":%d,"ephemeral_1h_input_tokens":%d}`,
		u.fresh, u.read, u.write, u.write-u.hour, u.hour)
	output := fmt.Sprintf(`"output_tokens":%d,"output_tokens_details":{"thinking_tokens":%d}`, u.output, u.thought)
	if u.web > 0 {
		output += fmt.Sprintf(`,"server_tool_use":{"web_search_requests":%d,"web_fetch_requests":5}`, u.web)
	}
	events := []string{`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"dated","content":[],"usage":{` + usage + `,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello."}}`}
	if end == cut {
		return sse(true, append(events, `{"type":"message_delta","delta":{},"usage":{`+output+`}}`, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`)...)
	}
	iterations := ""
	if len(more) > 0 {
		iterations = `,"iterations":[{"type":"message","model":"dated",` + usage + "," + output + "}," + strings.Join(more, ",") + "]"
	}
	reason := map[ends]string{whole: "end_turn", refused: "refusal"}[end]
	return sse(true, append(events, `{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"`+reason+`"},"usage":{`+output+iterations+`}}`, `{"type":"message_stop"}`)...)
}

// gpt writes a reply as the Responses API does.
func gpt(u spent, end ends, _ ...string) string {
	usage := fmt.Sprintf(`"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d}}`,
		u.fresh+u.read+u.write, u.read, u.write, u.output, u.thought)
	text := []string{`{"type":"response.created","response":{"status":"in_progress"}}`, `{"type":"response.output_text.delta","output_index":0,"delta":"Hello."}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"i","content":[{"type":"output_text","text":"Hello.","annotations":[]}]}}`}
	text = append(text, times(u.web, `{"type":"response.output_item.done","output_index":1,"item":{"type":"web_search_call","id":"w","status":"completed","action":{"type":"search","queries":["a","b"]}}}`)...)
	text = append(text, times(u.files, `{"type":"response.output_item.done","output_index":2,"item":{"type":"file_search_call","id":"f","status":"completed"}}`)...)
	switch end {
	case cut:
		return sse(true, append(text[:2:2], `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"busy"},`+usage+`}}`)...)
	case refused:
		return sse(true, text[0], `{"type":"response.refusal.delta","output_index":0,"delta":"No."}`, `{"type":"response.completed","response":{"status":"completed",`+usage+`}}`)
	}
	return sse(true, append(text, `{"type":"response.completed","response":{"status":"completed",`+usage+`}}`)...)
}

// chat writes a reply as Chat Completions does, with the counts of xAI, which counts reasoning separately.
func chat(u spent, end ends, _ ...string) string {
	text := `{"choices":[{"index":0,"delta":{"role":"assistant","content":"Hello."},"finish_reason":null}],"usage":null}`
	usage := fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}`,
		u.fresh+u.read+u.write, u.output-u.thought, u.fresh+u.read+u.write+u.output, u.read, u.write, u.thought)
	if end == cut {
		return sse(false, text, usage+`,"error":{"code":503,"message":"busy"}}`)
	}
	reason := map[ends]string{whole: "stop", refused: "content_filter"}[end]
	return sse(false, text, `{"choices":[{"index":0,"delta":{},"finish_reason":"`+reason+`"}]}`, usage+"}", "[DONE]")
}

// gemini writes a reply as the Gemini API does.
func gemini(u spent, end ends, _ ...string) string {
	usage := fmt.Sprintf(`"usageMetadata":{"promptTokenCount":%d,"cachedContentTokenCount":%d,"candidatesTokenCount":%d,"thoughtsTokenCount":%d,"totalTokenCount":%d}`,
		u.fresh+u.read+u.write, u.read, u.output-u.thought, u.thought, u.fresh+u.read+u.write+u.output)
	var queries []string
	for i := range u.web {
		queries = append(queries, fmt.Sprintf(`"query %d"`, i))
	}
	text := func(reason string) string {
		if u.web > 0 {
			reason += `,"groundingMetadata":{"webSearchQueries":[` + strings.Join(queries, ",") + `]}`
		}
		return `{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"Hello."}]}` + reason + `}],` + usage + `}`
	}
	switch end {
	case cut:
		return sse(false, text(""))
	case refused:
		return sse(false, text(`,"finishReason":"SAFETY"`))
	}
	return sse(false, text(`,"finishReason":"STOP"`))
}

// TestBill holds the bill of a conversation against one made by hand, to the nano-dollar. It has replies that broke
// off, that were refused, retried and handed to another model, an overload, and, at Anthropic, an advisor and requests
// on both sides of a long price. An answer comes after searches of the provider, which have fees.
func TestBill(t *testing.T) {
	t.Parallel()
	for provider, write := range map[string]func(spent, ends, ...string) string{"anthropic": claude, "openai": gpt, "openai-chat": chat, "gemini": gemini} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			bill(t, provider, write)
		})
	}
}

func bill(t *testing.T, provider string, write func(spent, ends, ...string) string) {
	broke, long := spent{fresh: 101, read: 7, write: 0, output: 3, thought: 1}, spent{fresh: 1501, read: 33, output: 19, thought: 4}
	denied, second := spent{fresh: 11, output: 1}, spent{fresh: 203, read: 5, output: 77, thought: 70}
	var more []string
	if provider != "openai-chat" {
		long.web = 3
	}
	if provider == "openai" {
		long.files = 2
	}
	if provider == "anthropic" {
		broke.write, broke.hour = 13, 6
		second.write = 9
		more = []string{`{"type":"advisor_message","model":"wise-20260801","input_tokens":301,"output_tokens":41}`,
			`{"type":"message","model":"dated","input_tokens":990,"cache_read_input_tokens":11,"output_tokens":17}`}
	}
	server := &answers{list: []string{
		write(broke, cut), "", write(long, whole, more...), // "first" breaks off, "second" is overloaded, "first" answers
		write(denied, refused), write(second, whole), // "first" refuses, "second" answers
		write(denied, refused), write(second, refused), // both refuse
	}}
	at := httptest.NewServer(server)
	t.Cleanup(at.Close)
	base := at.URL
	if provider == "openai" || provider == "openai-chat" {
		base += "/v1"
	}
	model := func(name string) cairn.Model {
		m, err := open.Model(provider+":"+name, &open.Options{BaseURL: base, APIKey: "k"})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}

	// Thousandths of a nano-dollar a token, so that each request is rounded.
	table, err := cairn.ParseModels([]byte(`[
		{"provider": "anthropic", "name": "wise", "input": 0.333333, "output": 1.111111, "as_of": "2026-11-01", "source": "test"},
		{"provider": "` + strings.TrimSuffix(provider, "-chat") + `", "name": "first", "input": 0.123457, "output": 0.654321, "cache_read": 0.012347, "cache_write": 0.154321, "cache_write_hour": 0.246914,
			"fees": {"web_search": 10.000001, "file_search": 2.5, "as_of": "2026-11-01", "source": "test"},
			"long": {"over": 1500, "input": 0.246913, "output": 0.987653, "cache_read": 0.024691}, "as_of": "2026-11-01", "source": "test"},
		{"provider": "` + strings.TrimSuffix(provider, "-chat") + `", "name": "second", "input": 3.000001, "output": 15.000007, "cache_read": 0.300003, "cache_write": 3.750001, "as_of": "2026-11-01", "source": "test"}]`))
	if err != nil {
		t.Fatal(err)
	}
	nanos := func(thousandths int64) int64 { return (thousandths + 999) / 1000 }
	first := func(u spent) int64 {
		return nanos(u.fresh*123457 + u.read*12347 + (u.write-u.hour)*154321 + u.hour*246914 + u.output*654321)
	}
	later := func(u spent) int64 {
		return nanos(u.fresh*3000001 + u.read*300003 + u.write*3750001 + u.output*15000007)
	}
	fees := long.web*10_000_001 + long.files*2_500_000
	turns := []int64{first(broke) + nanos(long.fresh*246913+long.read*24691+long.output*987653) + fees, first(denied) + later(second), first(denied) + later(second)}
	if provider == "anthropic" {
		turns[0] += nanos(301*333333+41*1111111) + nanos(990*123457+11*12347+17*654321)
	}

	agent := &cairn.Agent{Name: "bot", Retry: &cairn.RetryPolicy{First: time.Millisecond},
		Model: fallback.New(&fallback.Options{Refusals: true, Cooldown: -1}, model("first"), model("second"))}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, &engine.Options{Models: table})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = eng.Close(context.Background()) }()
	var sum cairn.Usage
	for i, want := range turns {
		run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("Hello?"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := run.Wait(t.Context())
		if res == nil {
			t.Fatal(err)
		}
		if done := i < 2; done != (res.Status == cairn.RunCompleted) {
			t.Fatalf("turn %d is %s: %v", i+1, res.Status, res.Error)
		}
		if u := res.Usage; u.CostNanos != want || u.PricedCalls != u.ModelCalls+u.DiscardedCalls {
			t.Errorf("turn %d costs %d nano-dollars, want %d: %+v", i+1, u.CostNanos, want, u)
		}
		sum = sum.Add(res.Usage)
	}
	row, err := eng.Session(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if u := row.Usage; u.WebSearches != long.web || u.FileSearches != long.files {
		t.Errorf("the session has %d searches of the web and %d of files", u.WebSearches, u.FileSearches)
	}
	if u := row.Usage; u.CostNanos != sum.CostNanos || u.ModelCalls != 2 || u.DiscardedCalls != 4 || server.left != len(server.list) {
		t.Errorf("the session has %+v, its runs %+v, after %d requests", u, sum, server.left)
	}
}
