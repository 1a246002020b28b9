package provider_test

import (
	"encoding/json"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

func TestOptionsMergeDeeply(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, options, want string }{
		"a new member":            {`{"a":1}`, `{"b":2}`, `{"a":1,"b":2}`},
		"a member of an object":   {`{"generationConfig":{"temperature":0.5}}`, `{"generationConfig":{"seed":7}}`, `{"generationConfig":{"seed":7,"temperature":0.5}}`},
		"two levels":              {`{"a":{"b":{"c":1}}}`, `{"a":{"b":{"d":2}}}`, `{"a":{"b":{"c":1,"d":2}}}`},
		"the option wins":         {`{"a":{"b":1}}`, `{"a":{"b":2}}`, `{"a":{"b":2}}`},
		"a list replaces":         {`{"a":[1]}`, `{"a":[2]}`, `{"a":[2]}`},
		"null replaces":           {`{"a":{"b":1}}`, `{"a":null}`, `{"a":null}`},
		"a text replaces":         {`{"tool_choice":{"type":"tool","name":"x"}}`, `{"tool_choice":"auto"}`, `{"tool_choice":"auto"}`},
		"another type replaces":   {`{"tool_choice":{"type":"tool","name":"x"}}`, `{"tool_choice":{"type":"any"}}`, `{"tool_choice":{"type":"any"}}`},
		"the same type is merged": {`{"a":{"type":"x","b":1}}`, `{"a":{"type":"x","c":2}}`, `{"a":{"b":1,"c":2,"type":"x"}}`},
		"large numbers":           {`{"a":{"b":12345678901234567890}}`, `{"a":{"c":1}}`, `{"a":{"b":12345678901234567890,"c":1}}`},
	} {
		var body, options map[string]json.RawMessage
		if err := json.Unmarshal([]byte(c.body), &body); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.options), &options); err != nil {
			t.Fatal(err)
		}
		s := cairn.Settings{Options: map[string]any{}}
		for name, value := range options {
			s.Options[name] = value
		}
		all := map[string]any{}
		for name, value := range body {
			all[name] = value
		}
		raw, err := provider.Failures{}.Body(all, &s)
		var got json.RawMessage = raw
		if err != nil || string(got[:len(got)-1]) != c.want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, c.want)
		}
	}
}
