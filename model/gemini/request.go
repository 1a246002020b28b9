package gemini

import (
	"encoding/json"
	"mime"
	"regexp"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
	"github.com/cairn-agents/cairn/internal/toolschema"
)

// unsigned replaces the signature of a call that another model made. The API requires one on the first call of each
// step.
const unsigned = "skip_thought_signature_validator"

// filler stands in where the API requires a user turn.
const filler = "Continue."

// body builds the body of a request. Options are merged into it.
func (m *ContentModel) body(req *cairn.Request) (map[string]any, error) {
	s, e := &req.Settings, m.endpoint
	body := map[string]any{"contents": m.contents(req.Messages)}
	if req.System != "" {
		body["systemInstruction"] = content{Parts: []any{part{Text: req.System}}}
	}
	config, thinking := map[string]any{}, map[string]any{}
	if s.Temperature != nil {
		config["temperature"] = *s.Temperature
	}
	if s.TopP != nil {
		config["topP"] = *s.TopP
	}
	if s.MaxOutputTokens > 0 {
		config["maxOutputTokens"] = s.MaxOutputTokens
	}
	if len(s.StopSequences) > 0 {
		config["stopSequences"] = s.StopSequences
	}
	if s.ReasoningEffort != "" {
		thinking["thinkingLevel"] = s.ReasoningEffort
	}
	if e.thoughts {
		thinking["includeThoughts"] = true
	}
	if len(thinking) > 0 {
		config["thinkingConfig"] = thinking
	}
	if len(config) > 0 {
		body["generationConfig"] = config
	}
	if err := m.tools(req, body); err != nil {
		return nil, err
	}
	if err := e.Merge(body, s); err != nil {
		return nil, err
	}
	for name, value := range body { // encoded here so that mistakes are found before the SDK is called
		raw, err := provider.Encode(value)
		if err != nil {
			return nil, e.Errorf(cairn.ErrModelRequest, "encode request: %w", err)
		}
		body[name] = raw
	}
	return body, nil
}

// tools adds the tools and the tool choice.
func (m *ContentModel) tools(req *cairn.Request, body map[string]any) error {
	list := make([]any, 0, 1+len(m.endpoint.serverTools))
	for _, raw := range m.endpoint.serverTools {
		list = append(list, raw)
	}
	if len(req.Tools) > 0 {
		functions := make([]any, len(req.Tools))
		for i := range req.Tools {
			t := &req.Tools[i]
			schema, err := m.endpoint.Schema(t, toolschema.Gemini)
			if err != nil {
				return err
			}
			functions[i] = m.endpoint.Extended(t, function{t.Name, t.Description, schema})
		}
		list = append(list, map[string]any{"functionDeclarations": functions})
	}
	if len(list) == 0 {
		return nil
	}
	body["tools"] = list
	choice := map[string]any{}
	switch {
	case req.Choice.None:
		choice["mode"] = "NONE"
	case req.Choice.Tool != "":
		choice["mode"], choice["allowedFunctionNames"] = "ANY", []string{req.Choice.Tool}
	default:
		return nil
	}
	body["toolConfig"] = map[string]any{"functionCallingConfig": choice}
	return nil
}

// conversation collects the contents of a request.
type conversation struct {
	list    []content
	results []answer // of the previous reply; they go into one content
	rest    []any
	ids     map[string]string        // of the provider's calls, by the session's ids
	names   map[string]string        // of the tools that were called
	order   map[string]int           // of the calls; results without an id are matched by it
	files   map[string][]*cairn.File // that are sent in results, by the calls
	refers  bool                     // the API takes "$ref" in a result for the name of a file in it
}

type answer struct {
	at   int
	part part
}

// contents converts the history.
func (m *ContentModel) contents(history []cairn.Message) []content {
	history, files := m.endpoint.Attached(history, func(_ *cairn.ToolResult, f *cairn.File) bool { return file(f).InlineData != nil })
	c := conversation{files: files, refers: m.endpoint.refers, ids: map[string]string{}, names: map[string]string{}, order: map[string]int{}}
	for i := range history {
		msg := &history[i]
		if msg.Role == cairn.RoleAssistant {
			c.model(m.reply(msg.Parts, &c))
			continue
		}
		for j := range msg.Parts {
			switch p := &msg.Parts[j]; p.Type {
			case cairn.PartText:
				if p.Text != "" {
					c.rest = append(c.rest, part{Text: p.Text})
				}
			case cairn.PartFile:
				c.rest = append(c.rest, file(p.File))
			case cairn.PartToolResult:
				c.results = append(c.results, answer{c.order[p.Result.CallID], part{FunctionResponse: c.result(p.Result)}})
			}
		}
	}
	c.flush()
	if n := len(c.list); n == 0 || c.list[n-1].Role == "model" {
		c.list = append(c.list, content{"user", []any{part{Text: filler}}})
	}
	return c.list
}

// flush closes the open user turn.
func (c *conversation) flush() {
	if len(c.results) > 0 {
		slices.SortStableFunc(c.results, func(a, b answer) int { return a.at - b.at })
		var parts []any
		for _, r := range c.results {
			parts = append(parts, r.part)
		}
		c.list = append(c.list, content{"user", parts})
	}
	if len(c.rest) > 0 {
		c.list = append(c.list, content{"user", c.rest})
	}
	c.results, c.rest = nil, nil
}

// model adds a reply after a user turn, if it has any content that can be sent.
func (c *conversation) model(parts []any) {
	if len(parts) == 0 {
		return
	}
	c.flush()
	if n := len(c.list); n == 0 || c.list[n-1].Role == "model" {
		c.list = append(c.list, content{"user", []any{part{Text: filler}}})
	}
	c.list = append(c.list, content{"model", parts})
}

// result returns the response to a call. Output that is no object becomes a member of one.
func (c *conversation) result(r *cairn.ToolResult) *functionResponse {
	out := json.RawMessage(strings.TrimSpace(string(r.Output)))
	switch {
	case r.IsError:
		out, _ = provider.Encode(map[string]string{"error": provider.Text(r.Output)}) // strings always encode
	case !json.Valid(out):
		out, _ = provider.Encode(map[string]string{"output": string(out)})
	case c.refers && namesRef.Match(out): // the API refuses one that names no file, and may refuse one that does
		out, _ = provider.Encode(map[string]string{"output": string(out)})
	case out[0] != '{':
		out, _ = provider.Encode(map[string]json.RawMessage{"output": out})
	}
	name := c.names[r.CallID]
	if name == "" {
		name = provider.ToolName(r.Tool)
	}
	response := &functionResponse{ID: c.ids[r.CallID], Name: name, Response: out}
	for _, f := range c.files[r.CallID] {
		response.Parts = append(response.Parts, file(f))
	}
	return response
}

// namesRef matches JSON that has, or may have, a member "$ref".
var namesRef = regexp.MustCompile(`(?:\$|\\u0024)ref"`)

// reply returns the parts of an assistant's message. Thoughts and the provider's own parts are sent only to the
// model that gave them.
func (m *ContentModel) reply(parts []cairn.Part, c *conversation) []any {
	var list []any
	signed := false // a call of this reply has a signature
	for i := range parts {
		p := &parts[i]
		own := p.Model == m.endpoint.ID && len(p.Provider) > 0
		switch p.Type {
		case cairn.PartText:
			if p.Text != "" {
				list = append(list, joined(part{Text: p.Text}, p.Provider, own))
			}
		case cairn.PartReasoning:
			if own && p.Text != "" {
				list = append(list, joined(part{Text: p.Text}, p.Provider, own))
			}
		case cairn.PartProvider:
			if own {
				list = append(list, p.Provider)
			}
		case cairn.PartToolUse:
			call := m.call(p, own, c)
			if !own && !signed {
				call.ThoughtSignature = unsigned
			}
			signed = true
			list = append(list, joined(call, p.Provider, own))
		case cairn.PartFile:
			list = append(list, part{Text: provider.Described(p.File)})
		}
	}
	return list
}

// call returns a call with the id that the provider gave it, if any.
func (m *ContentModel) call(p *cairn.Part, own bool, c *conversation) part {
	call := &functionCall{Name: provider.ToolName(p.ToolUse.Tool), Args: provider.Arguments(p.ToolUse.Input)}
	if own {
		var had struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(p.Provider, &had) // provider data without an id leaves it empty
		call.ID = had.ID
	}
	c.ids[p.ToolUse.CallID], c.names[p.ToolUse.CallID], c.order[p.ToolUse.CallID] = call.ID, call.Name, len(c.order)
	return part{FunctionCall: call}
}

// joined returns a part merged with the provider data that belongs to it.
func joined(p part, more json.RawMessage, own bool) any {
	if !own {
		return p
	}
	fields := map[string]json.RawMessage{}
	raw, err := provider.Encode(p)
	if err != nil || json.Unmarshal(more, &fields) != nil {
		return p
	}
	delete(fields, "id") // it is part of the call
	if json.Unmarshal(raw, &fields) != nil {
		return p
	}
	return fields
}

// file returns a file in a form that the model can read.
func file(f *cairn.File) part {
	media, _, err := mime.ParseMediaType(f.MediaType)
	if err != nil {
		media = f.MediaType
	}
	kind, _, _ := strings.Cut(media, "/")
	switch {
	case provider.Readable(media, f):
		return part{Text: f.Name + ":\n\n" + string(f.Data)}
	case kind != "image" && kind != "audio" && kind != "video" && media != "application/pdf":
		return part{Text: provider.Described(f)}
	case len(f.Data) > 0:
		return part{InlineData: &blob{media, f.Data}}
	}
	return part{FileData: &fileData{media, f.URL}}
}
