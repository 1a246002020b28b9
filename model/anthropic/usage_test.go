package anthropic_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
)

// stream is a reply with a search, with the usage of its first and of its last event.
func stream(start, end string) anthropictest.Reply {
	event := func(kind, fields string) string {
		return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, fields)
	}
	block := func(n int, content string) string {
		return event("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, n, content)) + event("content_block_stop", fmt.Sprintf(`,"index":%d`, n))
	}
	return anthropictest.Raw(event("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[],"usage":`+start+`}`) +
		block(0, `{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{"query":"go"}}`) +
		block(1, `{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[{"type":"web_search_result","url":"https://go.dev","title":"Go","encrypted_content":"`+strings.Repeat("E", 4000)+`"}]}`) +
		block(2, `{"type":"text","text":"Go."}`) +
		event("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":`+end) + event("message_stop", ""))
}

// The input of a reply with tools of the provider is the sum of its requests, each of which reads the conversation
// again. Only the last one's fills the window. Compactions and advisors add to the bill, not to the window.
func TestUsageOfSeveralRequests(t *testing.T) {
	t.Parallel()
	used := func(in, cached, write, hour, out, thought int64) cairn.Usage {
		return cairn.Usage{InputTokens: in, CachedTokens: cached, CacheWriteTokens: write, CacheWriteHourTokens: hour, OutputTokens: out, ReasoningTokens: thought}
	}
	const start = `{"input_tokens":1000,"cache_read_input_tokens":100,"cache_creation_input_tokens":50,"cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":30},"output_tokens":1}`
	const message = `{"type":"message","model":"claude-test","input_tokens":1000,"cache_read_input_tokens":100,"cache_creation_input_tokens":50,"cache_creation":{"ephemeral_1h_input_tokens":30},"output_tokens":20}`
	const second = `{"type":"message","model":"claude-test","input_tokens":2000,"cache_read_input_tokens":150,"cache_creation_input_tokens":0,"output_tokens":30}`
	const top = `"input_tokens":3000,"cache_read_input_tokens":250,"cache_creation_input_tokens":50,"output_tokens":50,"output_tokens_details":{"thinking_tokens":9}`
	const searched = `"server_tool_use":{"web_search_requests":2,"web_fetch_requests":1}`
	searches := func(u cairn.Usage, n int64) cairn.Usage {
		u.WebSearches = n
		return u
	}
	first, last := used(1150, 100, 50, 30, 20, 0), used(2150, 150, 0, 0, 30, 9)
	for name, test := range map[string]struct {
		end    string
		calls  []cairn.ModelCall
		sum    cairn.Usage
		window int64
	}{
		"one request":           {`{"output_tokens":20,"iterations":[` + message + `]}`, nil, first, 0},
		"two requests":          {`{` + top + `,"iterations":[` + message + `,` + second + `]}`, []cairn.ModelCall{{Usage: first}, {Usage: last}}, first.Add(last), 2180},
		"requests without name": {`{` + top + `,"iterations":[` + strings.NewReplacer(`"model":"claude-test",`, "", `"type":"message",`, "").Replace(message+","+second) + `]}`, []cairn.ModelCall{{Usage: first}, {Usage: last}}, first.Add(last), 2180},
		"a compaction": {`{"output_tokens":20,"iterations":[{"type":"compaction","input_tokens":150000,"output_tokens":900},` + message + `]}`,
			[]cairn.ModelCall{{Usage: used(150000, 0, 0, 0, 900, 0)}, {Usage: first}}, used(151150, 100, 50, 30, 920, 0), 1170},
		"a compaction at the end": {`{"output_tokens":20,"iterations":[` + message + `,{"type":"compaction","input_tokens":150000,"output_tokens":900}]}`,
			[]cairn.ModelCall{{Usage: first}, {Usage: used(150000, 0, 0, 0, 900, 0)}}, used(151150, 100, 50, 30, 920, 0), 1170},
		"an advisor": {`{` + top + `,"iterations":[` + message + `,{"type":"advisor_message","model":"claude-wise","input_tokens":1200,"output_tokens":700},` + second + `]}`,
			[]cairn.ModelCall{{Usage: first}, {Model: "anthropic:claude-wise", Usage: used(1200, 0, 0, 0, 700, 0)}, {Usage: last}}, first.Add(last).Add(used(1200, 0, 0, 0, 700, 0)), 2180},
		"a fallback of the provider": {`{"output_tokens":30,"iterations":[` + message + `,{"type":"fallback_message","model":"claude-other","input_tokens":1100,"output_tokens":30}]}`,
			[]cairn.ModelCall{{Usage: first}, {Model: "anthropic:claude-other", Usage: used(1100, 0, 0, 0, 30, 0)}}, first.Add(used(1100, 0, 0, 0, 30, 0)), 1130},
		// The sum alone: the window is the input of the first request, the result of the search and the reply.
		"no list of requests": {`{` + top + `}`, nil, used(3300, 250, 50, 30, 50, 9), 1150 + 4152/4 + 50},
		"searches":            {`{` + searched + `,"output_tokens":20,"iterations":[` + message + `]}`, nil, searches(first, 2), 0},
		"searches of several": {`{` + top + `,` + searched + `,"iterations":[` + message + `,` + second + `]}`, []cairn.ModelCall{{Usage: first}, {Usage: searches(last, 2)}}, searches(first.Add(last), 2), 2180},
		"searches of each":    {`{` + top + `,` + searched + `,"iterations":[` + strings.Replace(message, "{", `{`+searched+`,`, 1) + `,` + second + `]}`, []cairn.ModelCall{{Usage: searches(first, 2)}, {Usage: last}}, searches(first.Add(last), 2), 2180},
		"searches before another model": {`{` + searched + `,"output_tokens":30,"iterations":[` + message + `,{"type":"fallback_message","model":"claude-other","input_tokens":1100,"output_tokens":30}]}`,
			[]cairn.ModelCall{{Usage: searches(first, 2)}, {Model: "anthropic:claude-other", Usage: used(1100, 0, 0, 0, 30, 0)}}, searches(first.Add(used(1100, 0, 0, 0, 30, 0)), 2), 1130},
		"searches without a list": {`{` + top + `,` + searched + `}`, nil, searches(used(3300, 250, 50, 30, 50, 9), 2), 1150 + 4152/4 + 50},
		"a small sum":             {`{"input_tokens":1010,"output_tokens":50}`, nil, used(1160, 100, 50, 30, 50, 0), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _ := serve(t, stream(start, test.end))
			chunks, err := ask(t.Context(), m, hello())
			if err != nil {
				t.Fatal(err)
			}
			var got cairn.Chunk
			for _, c := range chunks {
				if c.Type == cairn.ChunkUsage {
					got = c
				}
			}
			if !reflect.DeepEqual(got.Usage, test.sum) || !reflect.DeepEqual(got.Calls, test.calls) || got.WindowTokens != test.window {
				t.Errorf("reported %+v\nof %+v\nwindow %d\nwant %+v\nof %+v\nwindow %d", got.Usage, got.Calls, got.WindowTokens, test.sum, test.calls, test.window)
			}
		})
	}
}
