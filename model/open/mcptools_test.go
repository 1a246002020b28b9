package open_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/open"
)

// rule is a rule of a provider for the definition of a tool.
type rule struct {
	// source is the provider's documentation, or the error with which its API refuses a request.
	source string
	broken func(name string, schema map[string]any) bool
}

const (
	anthropicDocs = "https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use"
	openAIDocs    = "https://platform.openai.com/docs/guides/function-calling"
	geminiDocs    = "https://ai.google.dev/api/generate-content#FIELDS.response_json_schema"
	geminiNames   = "https://ai.google.dev/api/caching#FunctionDeclaration"
)

func named(pattern string) func(string, map[string]any) bool {
	re := regexp.MustCompile(pattern)
	return func(name string, _ map[string]any) bool { return !re.MatchString(name) }
}

func topHas(keys ...string) func(string, map[string]any) bool {
	return func(_ string, s map[string]any) bool {
		return s["type"] != "object" || slices.ContainsFunc(keys, func(k string) bool { _, has := s[k]; return has })
	}
}

// anywhere holds a rule for each schema of a definition.
func anywhere(broken func(s map[string]any) bool) func(string, map[string]any) bool {
	var walk func(v any) bool
	walk = func(v any) bool {
		s, ok := v.(map[string]any)
		if !ok {
			return false
		}
		if broken(s) {
			return true
		}
		for key, inner := range s {
			switch inner := inner.(type) {
			case map[string]any:
				if slices.Contains([]string{"properties", "patternProperties", "$defs", "definitions"}, key) {
					for _, p := range inner {
						if walk(p) {
							return true
						}
					}
				} else if key != "default" && key != "const" && walk(inner) {
					return true
				}
			case []any:
				if slices.Contains([]string{"anyOf", "oneOf", "allOf", "prefixItems", "items"}, key) && slices.ContainsFunc(inner, walk) {
					return true
				}
			}
		}
		return false
	}
	return func(_ string, s map[string]any) bool { return walk(s) }
}

func isArray(s map[string]any) bool {
	list, _ := s["type"].([]any)
	return s["type"] == "array" || slices.Contains(list, any("array"))
}

func oldDraft(s map[string]any) bool {
	_, tuple := s["items"].([]any)
	_, low := s["exclusiveMinimum"].(bool)
	_, high := s["exclusiveMaximum"].(bool)
	_, flag := s["required"].(bool)
	values, enum := s["enum"].([]any)
	kinds := []any{"string", "number", "integer", "boolean", "object", "array", "null"}
	list, several := s["type"].([]any)
	kind, has := s["type"]
	return tuple || low || high || flag || enum && len(values) == 0 || has && !several && !slices.Contains(kinds, kind) ||
		slices.ContainsFunc(list, func(k any) bool { return !slices.Contains(kinds, k) })
}

var rules = map[string][]rule{
	"anthropic": {
		{anthropicDocs + ": ^[a-zA-Z0-9_-]{1,64}$", named(`^[a-zA-Z0-9_-]{1,64}$`)},
		{"input_schema does not support oneOf, allOf, or anyOf at the top level", topHas("oneOf", "allOf", "anyOf")},
		{"JSON schema is invalid. It must match JSON Schema draft 2020-12", anywhere(oldDraft)},
		{"Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'", anywhere(func(s map[string]any) bool {
			props, _ := s["properties"].(map[string]any)
			for name := range props {
				if !regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`).MatchString(name) {
					return true
				}
			}
			return false
		})},
	},
	"openai": {
		{openAIDocs + ": ^[a-zA-Z0-9_-]{1,64}$", named(`^[a-zA-Z0-9_-]{1,64}$`)},
		{"schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the top level", topHas("oneOf", "anyOf", "allOf", "enum", "const", "not")},
		{"object schema missing properties", func(_ string, s map[string]any) bool { return s["properties"] == nil }},
		{"array schema missing items", anywhere(func(s map[string]any) bool { return isArray(s) && s["items"] == nil })},
		{"is not of type 'object', 'boolean'", anywhere(func(s map[string]any) bool { _, list := s["items"].([]any); return list })},
		{"is not a 'regex'", anywhere(func(s map[string]any) bool {
			p, _ := s["pattern"].(string)
			_, err := regexp.Compile(p)
			return err != nil
		})},
		{"is not valid under any of the given schemas", anywhere(oldDraft)},
	},
	"gemini": {
		{geminiNames + ": a letter or underscore, then a-z, A-Z, 0-9, underscores, colons, dots and dashes, 64 at most", named(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)},
		{geminiDocs + ": the subset of keywords, of which references are left out too", anywhere(func(s map[string]any) bool {
			known := strings.Fields("type format title description enum items prefixItems minItems maxItems minimum maximum anyOf oneOf properties additionalProperties required")
			for key := range s {
				if !slices.Contains(known, key) {
					return true
				}
			}
			return false
		})},
		{"required[0]: property is not defined", anywhere(func(s map[string]any) bool {
			list, _ := s["required"].([]any)
			props, _ := s["properties"].(map[string]any)
			return slices.ContainsFunc(list, func(r any) bool { name, ok := r.(string); return !ok || props[name] == nil })
		})},
		{"enum[0]: cannot be empty", anywhere(func(s map[string]any) bool {
			list, is := s["enum"].([]any)
			return is && (len(list) == 0 || slices.Contains(list, any("")))
		})},
		{geminiDocs + ": values of an enum are strings and numbers", anywhere(func(s map[string]any) bool {
			list, _ := s["enum"].([]any)
			return slices.ContainsFunc(list, func(v any) bool {
				_, text := v.(string)
				_, number := v.(float64)
				return !text && !number
			})
		})},
		{"items: missing field", anywhere(func(s map[string]any) bool { return isArray(s) && s["items"] == nil })},
	},
}

// unusual are schemas of the kinds that providers refuse.
var unusual = []mcpTool{
	{"any_of", json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`)},
	{"one_of", json.RawMessage(`{"oneOf":[{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]},{"type":"object","properties":{"k":{"const":"b"},"n":{"type":"integer"}},"required":["k"]}]}`)},
	{"all_of", json.RawMessage(`{"type":"object","allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"enum":["",null,true]}}}]}`)},
	{"bare", json.RawMessage(`{"type":"object"}`)},
	{"list", json.RawMessage(`{"type":"object","properties":{"a":{"type":"array"},"b":{"type":["array","null"]}}}`)},
	{"tuple", json.RawMessage(`{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"},{"type":"number"}]}}}`)},
	{"bound", json.RawMessage(`{"type":"object","properties":{"a":{"type":"number","minimum":0,"exclusiveMinimum":true}}}`)},
	{"look", json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","format":"odd","pattern":"^(?!x)(?=y)"}}}`)},
	{"tree", json.RawMessage(`{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}}}`)},
	{"odd", json.RawMessage(`{"type":"object","properties":{"$top":{"type":"integer"}},"required":["$top","gone"]}`)},
	{"mixed", json.RawMessage(`{"type":"object","properties":{"marks":{"type":"array","items":{"oneOf":[{"type":"string"},{"type":"object","properties":{"mark":{"type":"string"},"sure":{"enum":["yes","no"],"type":"string"}},"required":["mark"],"additionalProperties":false}]}}}}`)},
	{"none", json.RawMessage(`{"type":"object","properties":{"kind":{"anyOf":[{"type":"string","minLength":1},{"type":"null"}],"default":null},"value":{"type":["string","number","boolean"]}}}`)},
	{"type", json.RawMessage(`{"type":"object","properties":{"a":{"type":"date"},"b":{"enum":[]},"c":true}}`)},
}

// sent returns the definitions of tools as an adapter sends them.
func sent(t *testing.T, provider string, tools []cairn.ToolSpec) map[string]map[string]any {
	t.Helper()
	var body []byte
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer api.Close()
	model, err := open.Model(provider+":m", &open.Options{BaseURL: api.URL, APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	for range model.Stream(t.Context(), &cairn.Request{Messages: []cairn.Message{cairn.User(cairn.TextPart("Hello."))}, Tools: tools}) {
	}
	type definition struct {
		Name         string
		Input        map[string]any `json:"input_schema"`
		Parameters   map[string]any
		Schema       map[string]any `json:"parametersJsonSchema"`
		Function     *definition
		Declarations []definition `json:"functionDeclarations"`
	}
	var req struct{ Tools []definition }
	if err := json.Unmarshal(body, &req); err != nil {
		t.Fatalf("%v in %.300s", err, body)
	}
	all := map[string]map[string]any{}
	for _, d := range req.Tools {
		for _, one := range append(d.Declarations, d) {
			if one.Function != nil {
				one = *one.Function
			}
			for _, s := range []map[string]any{one.Input, one.Parameters, one.Schema} {
				if s != nil {
					all[one.Name] = s
				}
			}
		}
	}
	return all
}

// TestToolsOfMCPServers offers the tools of real MCP servers, and unusual schemas, to each adapter: none breaks a rule
// of its provider, and none is left out.
func TestToolsOfMCPServers(t *testing.T) {
	t.Parallel()
	given := slices.Clone(unusual)
	for _, s := range mcpServers(t) {
		given = append(given, s.Tools...)
	}
	var specs []cairn.ToolSpec
	raw := map[string]map[string]any{}
	for i, tool := range given {
		name := fmt.Sprintf("t%d_%s", i, regexp.MustCompile(`[^a-zA-Z0-9_-]`).ReplaceAllString(tool.Name, "_"))
		specs = append(specs, cairn.ToolSpec{Name: name[:min(len(name), 64)], Schema: tool.Schema})
		var s map[string]any
		if err := json.Unmarshal(tool.Schema, &s); err != nil {
			t.Fatal(err)
		}
		raw[specs[i].Name] = s
	}
	for _, provider := range open.Providers() {
		of := rules[strings.TrimSuffix(provider, "-chat")]
		all := sent(t, provider, specs)
		if len(all) != len(specs) {
			t.Errorf("%s: %d of %d tools were sent", provider, len(all), len(specs))
		}
		lowered := 0
		for name, s := range all {
			broke := false
			for _, r := range of {
				broke = broke || r.broken(name, raw[name])
				if r.broken(name, s) {
					text, _ := json.Marshal(s)
					t.Errorf("%s refuses %s (%s): %s", provider, name, r.source, text)
				}
			}
			if broke {
				lowered++
			}
		}
		for i, r := range of[1:] { // the first one is of names
			if !slices.ContainsFunc(unusual, func(u mcpTool) bool {
				var s map[string]any
				return json.Unmarshal(u.Schema, &s) == nil && r.broken(u.Name, s)
			}) {
				t.Errorf("%s: no schema breaks rule %d: %s", provider, i+1, r.source)
			}
		}
		t.Logf("%s: %d tools, %d of them changed", provider, len(all), lowered)
	}
}
