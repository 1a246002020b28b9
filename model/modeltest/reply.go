package modeltest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
)

var replyChecks = []check{
	{name: "Info", run: info},
	{name: "Finish", run: ruled(finish)},
	{name: "Text", run: text},
	{name: "Order", run: ruled(order)},
	{name: "Calls", needs: Calls, run: calls},
	{name: "Usage", needs: Usage, run: ruled(usage)},
}

// ruled returns a check of a rule on each kind of reply. A rule returns what a reply violates, or an empty text.
func ruled(rule func(*reply) string) func(*harness) {
	return func(h *harness) {
		for what, r := range h.replies() {
			if problem := rule(r); problem != "" {
				h.Errorf("asked for %s: %s\n%s", what, problem, r)
			}
		}
	}
}

// info tests that a model has one name, before and after its calls, and can be used.
func info(h *harness) {
	before := h.model.Info()
	if v, ok := h.model.(cairn.Validator); ok {
		if err := v.Validate(); err != nil {
			h.Errorf("Validate: %v", err)
		}
	}
	for what, r := range h.replies() {
		if after := h.model.Info(); after != before {
			h.Errorf("Info was %+v, and is %+v after the reply to a request for %s", before, after, what)
		}
		for _, c := range r.valid() {
			if c.Type == cairn.ChunkModel && (c.Model == "" || c.Model == before.ID()) {
				h.Errorf("a ChunkModel names %q, which is not another model than the requested %q", c.Model, before.ID())
			}
		}
	}
	if before.Provider == "" || before.Name == "" || !utf8.ValidString(before.ID()) {
		h.Errorf("Info is %+q: Provider and Name must be set and valid UTF-8", before)
	}
}

// finish tests that a reply ends with the only ChunkFinish.
func finish(r *reply) string {
	if err := r.err(); err != nil {
		return fmt.Sprintf("the call failed: %v", err)
	}
	n := 0
	for i, e := range r.elements {
		if e.chunk.Type != cairn.ChunkFinish {
			continue
		}
		if n++; n > 1 {
			return "the reply has several chunks of type finish"
		}
		if i < len(r.elements)-1 {
			return fmt.Sprintf("a chunk of type %q follows the finish", r.elements[i+1].chunk.Type)
		}
		if !slices.Contains([]cairn.FinishReason{cairn.FinishReasonEnd, cairn.FinishReasonTools, cairn.FinishReasonLength,
			cairn.FinishReasonWindow, cairn.FinishReasonStopSequence}, e.chunk.FinishReason) {
			return fmt.Sprintf("the finish reason is %q, which is not a FinishReason", e.chunk.FinishReason)
		}
	}
	if n == 0 {
		return "the reply ends without a chunk of type finish: it counts as incomplete"
	}
	return ""
}

// text tests a text of characters of several bytes.
func text(h *harness) {
	const words = "Grüße, 世界 👩‍🚀"
	replies := h.replies()
	replies["words of many scripts"] = h.ask(h.Context(), h.text(words))
	if problem := replies["words of many scripts"].unanswered(words); problem != "" {
		h.Error(problem)
	}
	for what, r := range replies {
		for i, e := range r.elements {
			for _, text := range []string{e.chunk.Text, e.chunk.Tool, e.chunk.CallID, e.chunk.Model} {
				if !utf8.ValidString(text) {
					h.Errorf("asked for %s: chunk %d has %q, which is not valid UTF-8", what, i+1, text)
				}
			}
		}
	}
}

// order tests that each chunk is of a known type, has what belongs to it, and comes where it may.
func order(r *reply) string {
	open, parts := false, 0 // open is whether a text or reasoning is under way
	for i, c := range r.chunks() {
		if problem := misplaced(&c, open, parts); problem != "" {
			return fmt.Sprintf("chunk %d: %s", i+1, problem)
		}
		switch c.Type {
		case cairn.ChunkText, cairn.ChunkReasoning:
			open, parts = true, parts+1
		case cairn.ChunkPartEnd:
			open = false
		case cairn.ChunkProvider, cairn.ChunkToolStart, cairn.ChunkFile:
			open, parts = false, parts+1
		case cairn.ChunkRestart:
			open, parts = false, 0
		}
	}
	return ""
}

// misplaced returns what is wrong with a chunk.
func misplaced(c *cairn.Chunk, open bool, parts int) string {
	if len(c.Provider) > 0 {
		if err := cairn.CheckJSON("provider", c.Provider); err != nil {
			return err.Error()
		}
	}
	switch c.Type {
	case cairn.ChunkText, cairn.ChunkReasoning, cairn.ChunkUsage, cairn.ChunkRestart, cairn.ChunkFinish, cairn.ChunkToolArgs:
	case cairn.ChunkPartEnd:
		if !open {
			return "a part ends, but neither a text nor reasoning has begun"
		}
	case cairn.ChunkProvider:
		if len(c.Provider) == 0 || c.Model == "" {
			return "a provider's part needs both Provider and Model"
		}
	case cairn.ChunkToolStart:
		if c.Awaits != nil && c.Awaits.Kind == "" {
			return "a call that awaits an answer has no Kind"
		}
	case cairn.ChunkFile:
		if c.File == nil || c.File.MediaType == "" || (c.File.URL == "") == (c.File.Data == nil) {
			return "a file needs a media type, and either Data or URL"
		}
	case cairn.ChunkModel:
		if parts > 0 {
			return "the model that answers is named after its answer began"
		}
	case cairn.ChunkEvent:
		if c.Event == nil {
			return "an event is nil"
		}
	default:
		return fmt.Sprintf("type %q is not a ChunkType", c.Type)
	}
	return ""
}

// calls tests that calls have names and ids of their own, and arguments that are JSON.
func calls(h *harness) {
	const words = "blue lamp"
	r := h.ask(h.Context(), h.call(words))
	if problem := r.broken(); problem != "" {
		h.Fatal(problem)
	}
	if err := r.err(); err != nil {
		h.Fatalf("the call failed: %v", err)
	}
	for what, r := range map[string]*reply{"a call": r, "a text": h.ask(h.Context(), h.text("green lamp"))} {
		if problem := callsOf(r); problem != "" {
			h.Errorf("asked for %s: %s\n%s", what, problem, r)
		}
	}
	if !h.Failed() && !strings.Contains(r.args(), words) {
		h.Errorf("no call has %q in its arguments\n%s", words, r)
	}
}

// callsOf returns what is wrong with the calls of a reply.
func callsOf(r *reply) string {
	var ids []string
	args := map[string]string{}
	for _, c := range r.valid() {
		_, begun := args[c.CallID]
		switch c.Type {
		case cairn.ChunkToolStart:
			switch {
			case c.CallID == "":
				return "a call has no CallID"
			case c.Tool == "":
				return fmt.Sprintf("call %q has no Tool", c.CallID)
			case begun:
				return fmt.Sprintf("two calls have the id %q", c.CallID)
			}
			ids, args[c.CallID] = append(ids, c.CallID), ""
		case cairn.ChunkToolArgs:
			if !begun {
				return fmt.Sprintf("arguments of call %q come before its start", c.CallID)
			}
			args[c.CallID] += c.Text
		}
	}
	for _, id := range ids {
		if !json.Valid([]byte(args[id])) {
			return fmt.Sprintf("the arguments of call %q are not one JSON document: %q", id, args[id])
		}
	}
	return ""
}

// usage tests that a reply reports its usage, and that parts are not larger than the whole.
func usage(r *reply) string {
	var last *cairn.Chunk
	for i, c := range r.chunks() {
		if c.Type != cairn.ChunkUsage {
			continue
		}
		if problem := senseless(&c.Usage); problem != "" {
			return fmt.Sprintf("chunk %d: %s", i+1, problem)
		}
		var sum cairn.Usage
		for k := range c.Calls {
			if problem := senseless(&c.Calls[k].Usage); problem != "" {
				return fmt.Sprintf("chunk %d: request %d: %s", i+1, k+1, problem)
			}
			sum = sum.Add(c.Calls[k].Usage)
		}
		if c.Calls != nil && (sum.InputTokens != c.Usage.InputTokens || sum.OutputTokens != c.Usage.OutputTokens) {
			return fmt.Sprintf("chunk %d: the requests in Calls have %d input and %d output tokens, Usage has %d and %d",
				i+1, sum.InputTokens, sum.OutputTokens, c.Usage.InputTokens, c.Usage.OutputTokens)
		}
		if c.WindowTokens < 0 {
			return fmt.Sprintf("chunk %d: WindowTokens is negative", i+1)
		}
		last = &c
	}
	if last == nil || last.Usage.InputTokens == 0 && last.Usage.OutputTokens == 0 {
		return "the reply reports no usage"
	}
	return ""
}

// senseless returns what is wrong with the figures of a usage.
func senseless(u *cairn.Usage) string {
	if err := u.Validate(); err != nil {
		return err.Error()
	}
	switch {
	case u.CachedTokens+u.CacheWriteTokens > u.InputTokens:
		return fmt.Sprintf("%d tokens were read from a cache and %d written to it, but there are %d input tokens",
			u.CachedTokens, u.CacheWriteTokens, u.InputTokens)
	case u.ReasoningTokens > u.OutputTokens:
		return fmt.Sprintf("%d reasoning tokens are more than %d output tokens", u.ReasoningTokens, u.OutputTokens)
	}
	return ""
}

// chunks returns all chunks, those before a restart included.
func (r *reply) chunks() []cairn.Chunk {
	var list []cairn.Chunk
	for _, e := range r.elements {
		if e.err == nil {
			list = append(list, e.chunk)
		}
	}
	return list
}

// String lists the elements of a reply, for the message of a failure.
func (r *reply) String() string {
	var b strings.Builder
	for i, e := range r.elements {
		fmt.Fprintf(&b, "%4d ", i+1)
		if e.err != nil {
			fmt.Fprintf(&b, "error: %v\n", e.err)
			continue
		}
		data, err := json.Marshal(e.chunk)
		if err != nil {
			data = fmt.Appendf(nil, "%+v", e.chunk)
		}
		fmt.Fprintf(&b, "%s\n", data)
	}
	return b.String()
}
