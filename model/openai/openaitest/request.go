package openaitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/cairn-agents/cairn/internal/provider/testserver"
	"github.com/cairn-agents/cairn/internal/toolschema"
)

// Request is a request of a client.
type Request struct {
	Header http.Header     `json:"-"`
	Body   json.RawMessage `json:"-"`

	Model        string            `json:"model"`
	Instructions string            `json:"instructions"`
	Input        []json.RawMessage `json:"input"`
	Tools        []Tool            `json:"tools"`
	Store        *bool             `json:"store"`
	Stream       bool              `json:"stream"`
	Previous     string            `json:"previous_response_id"`
	CacheKey     string            `json:"prompt_cache_key"`
	Stop         json.RawMessage   `json:"stop"`
	Include      []string          `json:"include"`
	ToolChoice   json.RawMessage   `json:"tool_choice"`
}

// Tool is a tool that the model may call.
type Tool struct {
	Type       string          `json:"type"`
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
	Strict     bool            `json:"strict"`
}

// Entry is an item of a request's input.
type Entry struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	ID        string          `json:"id"`
	Phase     string          `json:"phase"`
	Status    string          `json:"status"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"` // a text, or a list of Content
	Encrypted string          `json:"encrypted_content"`
	Content   []Content       `json:"content"`
	Summary   []Content       `json:"summary"`
}

// Content is a piece of a message.
type Content struct {
	Type        string            `json:"type"`
	Text        string            `json:"text"`
	ImageURL    string            `json:"image_url"`
	FileData    string            `json:"file_data"`
	FileURL     string            `json:"file_url"`
	Filename    string            `json:"filename"`
	Annotations []json.RawMessage `json:"annotations"`
}

// Entries returns the input, decoded.
func (r *Request) Entries() []Entry { return testserver.Decoded[Entry](r.Input) }

// Text returns an entry's text.
func (e *Entry) Text() string {
	var b strings.Builder
	for _, c := range e.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

// Last returns the last entry.
func (r *Request) Last() *Entry {
	list := r.Entries()
	return &list[len(list)-1]
}

// Prefix returns a request as the provider's cache sees it: one line for each tool, the instructions and each item.
func (r *Request) Prefix() []string {
	var body struct{ Tools []json.RawMessage }
	_ = json.Unmarshal(r.Body, &body) // already checked
	var list []string
	for _, raw := range body.Tools {
		list = append(list, string(raw))
	}
	list = append(list, r.Instructions)
	for _, raw := range r.Input {
		list = append(list, string(raw))
	}
	return list
}

// encrypted is what encrypted reasoning is bound to: the model, the item's id, and the summary.
const encrypted = "openai %q %q %q"

// check reports what OpenAI would reject, and what would be stored or continued there.
func (r *Request) check() error {
	switch {
	case r.Model == "":
		return fmt.Errorf("missing required parameter: 'model'")
	case r.Store == nil || *r.Store:
		return fmt.Errorf("store: this server stores nothing")
	case r.Previous != "":
		return fmt.Errorf("previous response with id %q not found", r.Previous)
	case !r.Stream:
		return fmt.Errorf("stream: this server only streams")
	case len(r.Input) == 0:
		return fmt.Errorf("missing required parameter: 'input'")
	case len(r.Stop) > 0:
		return fmt.Errorf("unknown parameter: 'stop'")
	case len(r.CacheKey) > 64:
		return fmt.Errorf("invalid 'prompt_cache_key': string too long")
	}
	if err := r.checkTools(); err != nil {
		return err
	}
	c := checker{model: r.Model, open: map[string]bool{}, seen: map[string]bool{}, typed: map[string]string{}}
	for i, raw := range r.Input {
		var e Entry
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("input[%d]: %w", i, err)
		}
		if e.Type == "compaction" && e.Encrypted != compacted(r.Model, r.Input[:i]) {
			return fmt.Errorf("input[%d]: the encrypted content for item %s could not be verified", i, e.ID)
		}
		if err := c.entry(&e); err != nil {
			return fmt.Errorf("input[%d]: %w", i, err)
		}
	}
	switch {
	case c.thought != "":
		return fmt.Errorf("item %q of type 'reasoning' was provided without its required following item", c.thought)
	case len(c.open)+len(c.typed) > 0:
		return fmt.Errorf("no tool output found for function call %v %v", c.open, c.typed)
	}
	return nil
}

func (r *Request) checkTools() error {
	names := map[string]bool{}
	for i, t := range r.Tools {
		if t.Type != "function" && t.Type != "custom" {
			continue
		}
		switch {
		case !testserver.Identifier.MatchString(t.Name):
			return fmt.Errorf("invalid 'tools[%d].name': string does not match pattern", i)
		case names[t.Name]:
			return fmt.Errorf("tools: function names must be unique")
		case t.Type == "function" && !strings.HasPrefix(string(t.Parameters), "{"):
			return fmt.Errorf("missing required parameter: 'tools[%d].parameters'", i)
		case t.Strict && !toolschema.OpenAI.Enforceable(t.Parameters):
			return fmt.Errorf("invalid schema for function %q: a strict schema requires 'additionalProperties' to be false, all properties, and supported keywords", t.Name)
		}
		names[t.Name] = true
	}
	var choice struct{ Name string }
	if json.Unmarshal(r.ToolChoice, &choice) == nil && choice.Name != "" && !names[choice.Name] || len(r.ToolChoice) > 0 && len(r.Tools) == 0 {
		return fmt.Errorf("tool choice %s not found in 'tools' parameter", r.ToolChoice)
	}
	return nil
}

// checker validates the items of a request.
type checker struct {
	model   string
	open    map[string]bool // calls that need an output
	seen    map[string]bool
	typed   map[string]string // calls of other tools that need an output, by their types
	thought string            // reasoning that nothing has followed yet
}

func (c *checker) entry(e *Entry) error {
	leads := e.Type == "function_call" || e.Role == "assistant" || strings.HasSuffix(e.Type, "_call") || e.Type == "reasoning"
	if c.thought != "" && !leads {
		return fmt.Errorf("item %q of type 'reasoning' was provided without its required following item", c.thought)
	}
	c.thought = ""
	switch e.Type {
	case "message":
		return e.message()
	case "compaction": // already checked
	case "reasoning":
		var summary string
		for _, s := range e.Summary {
			summary += s.Text
		}
		if e.Encrypted != testserver.Sign(encrypted, c.model, e.ID, summary) {
			return fmt.Errorf("the encrypted content for item %s could not be verified", e.ID)
		}
		c.thought = e.ID
	case "function_call":
		if !testserver.Identifier.MatchString(e.CallID) || !testserver.Identifier.MatchString(e.Name) || c.seen[e.CallID] {
			return fmt.Errorf("function_call: call_id %q or name %q is malformed or repeated", e.CallID, e.Name)
		}
		c.seen[e.CallID], c.open[e.CallID] = true, true
	case "function_call_output":
		if !c.open[e.CallID] {
			return fmt.Errorf("no tool call found for function call output with call_id %s", e.CallID)
		}
		delete(c.open, e.CallID)
		return e.output()
	case "custom_tool_call_output", "shell_call_output", "apply_patch_call_output":
		if c.typed[e.CallID]+"_output" != e.Type {
			return fmt.Errorf("no tool call found for %s with call_id %s", e.Type, e.CallID)
		}
		delete(c.typed, e.CallID)
		return e.typedOutput()
	default:
		if !strings.HasSuffix(e.Type, "_call") || e.ID == "" {
			return fmt.Errorf("invalid value: %q", e.Type)
		}
		if e.Type == "custom_tool_call" || e.Type == "shell_call" || e.Type == "apply_patch_call" {
			c.typed[e.CallID] = e.Type
		}
	}
	return nil
}

// typedOutput reports what is wrong with the output of a tool that is no function.
func (e *Entry) typedOutput() error {
	var commands []struct {
		Stdout, Stderr *string
		Outcome        struct{ Type string }
	}
	switch {
	case e.Type == "custom_tool_call_output":
		return e.output()
	case e.Type == "apply_patch_call_output" && e.Status != "completed" && e.Status != "failed":
		return fmt.Errorf("invalid value: %q of 'status'", e.Status)
	case e.Type == "shell_call_output" && (json.Unmarshal(e.Output, &commands) != nil || len(commands) == 0 || commands[0].Stdout == nil || commands[0].Stderr == nil || commands[0].Outcome.Type == ""):
		return fmt.Errorf("invalid value of 'output': %s", e.Output)
	}
	return nil
}

// output reports what is wrong with the output of a call.
func (e *Entry) output() error {
	var text string
	if len(e.Output) > 0 && json.Unmarshal(e.Output, &text) == nil {
		return nil
	}
	var list []Content
	if err := json.Unmarshal(e.Output, &list); err != nil || len(list) == 0 {
		return fmt.Errorf("invalid type for 'output': expected one of a string or array of objects")
	}
	return pieces("user", list)
}

// message reports what is wrong with a message.
func (e *Entry) message() error {
	if e.Role != "user" && e.Role != "assistant" || len(e.Content) == 0 {
		return fmt.Errorf("message of role %q with %d pieces", e.Role, len(e.Content))
	}
	return pieces(e.Role, e.Content)
}

func pieces(role string, list []Content) error {
	for _, p := range list {
		image := strings.HasPrefix(p.ImageURL, "https://") || strings.HasPrefix(p.ImageURL, "data:image/")
		switch {
		case role == "assistant" && p.Type != "output_text" || role == "user" && !strings.HasPrefix(p.Type, "input_"):
			return fmt.Errorf("invalid value: %q of role %s", p.Type, role)
		case p.Type == "output_text" && (p.Annotations == nil || p.Text == ""):
			return fmt.Errorf("missing required parameter: 'annotations' or 'text'")
		case p.Type == "input_image" && !image:
			return fmt.Errorf("invalid 'image_url'")
		case p.Type == "input_file" && p.FileURL == "" && (p.Filename == "" || !strings.HasPrefix(p.FileData, "data:")):
			return fmt.Errorf("invalid 'input_file'")
		}
	}
	return nil
}
