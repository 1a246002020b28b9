package otlptest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// made matches ids that Cairn generates.
var made = regexp.MustCompile(`\b(run|call|child|approval)_[a-z2-7]{26}`)

// Describe shows the traces as trees. Ids that Cairn has generated become names such as run1, numbered by first
// appearance.
func (c *Collector) Describe() string {
	names, counts := map[string]string{}, map[string]int{}
	return made.ReplaceAllStringFunc(c.describe(), func(id string) string {
		if names[id] == "" {
			kind, _, _ := strings.Cut(id, "_")
			counts[kind]++
			names[id] = kind + strconv.Itoa(counts[kind])
		}
		return names[id]
	})
}

func (c *Collector) describe() string {
	spans := c.Spans()
	var b strings.Builder
	seen := map[string]bool{}
	for _, s := range spans {
		trace := hex.EncodeToString(s.TraceId)
		if seen[trace] {
			continue
		}
		seen[trace] = true
		fmt.Fprintf(&b, "trace %d\n", len(seen))
		if s.ParentSpanId != nil {
			fmt.Fprintf(&b, "  below span %x of the caller\n", s.ParentSpanId)
		}
		describeBelow(&b, spans, s.TraceId, s.ParentSpanId, "  ")
	}
	return b.String()
}

// describeBelow shows the spans of a trace below a parent.
func describeBelow(b *strings.Builder, all []*tracepb.Span, trace, parent []byte, indent string) {
	var list []*tracepb.Span
	for _, s := range all {
		if bytes.Equal(s.TraceId, trace) && bytes.Equal(s.ParentSpanId, parent) {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(x, y *tracepb.Span) int { // calls of a step begin in any order
		for _, key := range []string{"gen_ai.operation.name", "cairn.step"} {
			if Attribute(x, key) != Attribute(y, key) {
				return 0
			}
		}
		return strings.Compare(x.Name, y.Name)
	})
	for _, s := range list {
		fmt.Fprintf(b, "%s%s, %s", indent, s.Name, strings.ToLower(strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_")))
		if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
			fmt.Fprintf(b, ", error %s", s.Status.Message)
		}
		fmt.Fprintln(b)
		for _, a := range s.Attributes {
			fmt.Fprintf(b, "%s    %s = %s\n", indent, a.Key, value(a))
		}
		for _, e := range s.Events {
			fmt.Fprintf(b, "%s    event %s", indent, e.Name)
			for _, a := range e.Attributes {
				fmt.Fprintf(b, " %s=%s", a.Key, value(a))
			}
			fmt.Fprintln(b)
		}
		for _, l := range s.Links {
			linked := "a span that was not exported"
			for _, o := range all {
				if bytes.Equal(o.SpanId, l.SpanId) && bytes.Equal(o.TraceId, l.TraceId) {
					linked = o.Name
				}
			}
			fmt.Fprintf(b, "%s    link to %s\n", indent, linked)
		}
		describeBelow(b, all, trace, s.SpanId, indent+"  ")
	}
}

func value(a *commonpb.KeyValue) string {
	switch v := a.Value.Value.(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *commonpb.AnyValue_DoubleValue:
		return fmt.Sprint(v.DoubleValue)
	case *commonpb.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *commonpb.AnyValue_ArrayValue:
		var list []string
		for _, one := range v.ArrayValue.Values {
			list = append(list, one.GetStringValue())
		}
		return "[" + strings.Join(list, " ") + "]"
	}
	return a.Value.String()
}
