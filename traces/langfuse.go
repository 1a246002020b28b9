package traces

import (
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"

	"github.com/cairn-agents/cairn"
)

// observations are Langfuse's types of observations, by operation.
var observations = map[string]string{opInvokeAgent: "agent", opChat: "generation", opExecuteTool: "tool"}

// langfuse returns the attributes by which Langfuse shows a span. They repeat what other attributes have, since Langfuse
// prefers them. The name and the tags of a trace are on each span that may be its root.
func (w *writer) langfuse(x *span) (attrs []attribute.KeyValue) {
	has := map[attribute.Key]attribute.Value{}
	for _, a := range x.attrs {
		has[a.Key] = a.Value
	}
	op := has[attrOperation].AsString()
	attrs = append(attrs, attrObservation.String(observations[op]))
	if op == opInvokeAgent {
		attrs = append(attrs, attrTraceName.String(w.root.Agent))
		if len(w.root.Tags) > 0 {
			attrs = append(attrs, attrTraceTags.StringSlice(w.root.Tags))
		}
	}
	switch {
	case x.void:
		attrs = append(attrs, attrLevel.String("WARNING"))
	case x.code != "":
		attrs = append(attrs, attrLevel.String("ERROR"))
	}
	if model, ok := has[attrModel]; ok {
		attrs = append(attrs, attrObsModel.String(model.AsString()))
	}
	if in, ok := has[attrInput]; ok {
		u := cairn.Usage{InputTokens: in.AsInt64(), OutputTokens: has[attrOutput].AsInt64(), CachedTokens: has[attrCacheRead].AsInt64(), CacheWriteTokens: has[attrCacheWrite].AsInt64()}
		attrs = append(attrs, attrObsUsage.String(details(u)))
	}
	if cost, ok := has[attrCost]; ok {
		raw, _ := json.Marshal(map[string]float64{"total": cost.AsFloat64()}) // finite
		attrs = append(attrs, attrObsCost.String(string(raw)))
	}
	for _, pair := range [][2]attribute.Key{{attrArguments, attrObsInput}, {attrResult, attrObsOutput}, {attrMessagesIn, attrObsInput}, {attrMessagesOut, attrObsOutput}} {
		if v, ok := has[pair[0]]; ok {
			attrs = append(attrs, pair[1].String(v.AsString()))
		}
	}
	return attrs
}

// details returns the tokens of a call as Langfuse counts them: each kind of input by itself.
func details(u cairn.Usage) string {
	raw, _ := json.Marshal(struct { // numbers
		Input  int64 `json:"input"`
		Cached int64 `json:"input_cached_tokens,omitempty"`
		Write  int64 `json:"input_cache_creation,omitempty"`
		Output int64 `json:"output"`
		Total  int64 `json:"total"`
	}{max(0, u.InputTokens-u.CachedTokens-u.CacheWriteTokens), u.CachedTokens, u.CacheWriteTokens, u.OutputTokens, u.InputTokens + u.OutputTokens})
	return string(raw)
}
