package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/durations"
	"github.com/cairn-agents/cairn/model/scripted"
)

// usualPace is the default time that the scripted model takes for a word.
const usualPace = 30 * time.Millisecond

// scriptedModel returns the model "scripted:PACE", which needs no provider. It calls the tool that the user's
// message names and reports the result. PACE is the time per word; default 30ms.
func scriptedModel(pace string) (cairn.Model, error) {
	d := usualPace
	if pace != "" {
		var err error
		if d, err = durations.Parse(pace); err != nil || d < 0 {
			return nil, cairn.Invalid("model", "scripted:%s: time per word must be a duration such as 30ms, not %q", pace, pace)
		}
	}
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step { return playOne(req).Pace(d) }), nil
}

// playOne returns the next reply.
func playOne(req *cairn.Request) scripted.Step {
	last := len(req.Messages) - 1
	for last > 0 && req.Messages[last].Hidden {
		last--
	}
	if last < 0 {
		return scripted.Text("Hello.")
	}
	m := &req.Messages[last]
	if results := m.ToolResults(); len(results) > 0 {
		var said []string
		for _, r := range results {
			verb := "returned"
			if r.IsError {
				verb = "failed with"
			}
			said = append(said, fmt.Sprintf("%s %s %s.", r.Tool, verb, shortened(string(r.Output))))
		}
		return scripted.Text(strings.Join(said, "\n"))
	}
	if t := named(req.Tools, m.Text()); t != nil {
		return scripted.Reply(scripted.Text(fmt.Sprintf("One moment, I call %s. ", t.Name)), scripted.Call(t.Name, arguments(t, m.Text())))
	}
	var names []string
	for _, t := range req.Tools {
		names = append(names, t.Name)
	}
	text := fmt.Sprintf("You said: %s\n\nI play a script, without a provider of models.", shortened(m.Text()))
	if len(names) > 0 {
		text += " Name one of my tools and I call it: " + strings.Join(names, ", ") + "."
	}
	return scripted.Text(text)
}

func shortened(text string) string {
	if r := []rune(text); len(r) > 300 {
		return string(r[:300]) + "…"
	}
	return text
}

// named returns the tool whose name shares the most words with a text; nil if none shares any.
func named(tools []cairn.ToolSpec, text string) *cairn.ToolSpec {
	var best *cairn.ToolSpec
	most := 0
	said := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9') })
	for i := range tools {
		n := 0
		for _, word := range strings.FieldsFunc(strings.ToLower(tools[i].Name), func(r rune) bool { return r == '_' || r == '-' }) {
			for _, s := range said {
				if len(word) > 3 && s == word {
					n++
				}
			}
		}
		if n > most {
			best, most = &tools[i], n
		}
	}
	return best
}

// arguments returns arguments for a tool: those that its schema requires, with the user's text for strings.
func arguments(t *cairn.ToolSpec, text string) map[string]any {
	var schema struct {
		Properties map[string]struct {
			Type string `json:"type"`
			Enum []any  `json:"enum"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	args := map[string]any{}
	if json.Unmarshal(t.Schema, &schema) != nil {
		return args
	}
	for _, name := range schema.Required {
		p := schema.Properties[name]
		switch {
		case len(p.Enum) > 0:
			args[name] = p.Enum[0]
		case p.Type == "integer" || p.Type == "number":
			args[name] = 1
		case p.Type == "boolean":
			args[name] = true
		case p.Type == "array":
			args[name] = []any{}
		case p.Type == "object":
			args[name] = map[string]any{}
		default:
			args[name] = text
		}
	}
	return args
}
