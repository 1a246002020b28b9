package provider

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
)

// Encode writes JSON with <, > and & as they are, which costs fewer tokens in what models read.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// Text returns what a model reads of a tool's output: a string's value, anything else as JSON.
func Text(output json.RawMessage) string {
	text := string(output)
	var s string
	if json.Unmarshal(output, &s) == nil && text != "null" {
		text = s
	}
	return text
}

// Arguments returns a call's arguments as an object. Some servers fail permanently if those of the history are none.
func Arguments(input json.RawMessage) json.RawMessage {
	if strings.HasPrefix(strings.TrimSpace(string(input)), "{") {
		return input
	}
	wrapped, err := json.Marshal(map[string]json.RawMessage{"invalid_arguments": input})
	if err != nil {
		return json.RawMessage("{}")
	}
	return wrapped
}

// Address reads the base URL of a server. The problem is what is wrong with it, or "".
func Address(base string) (address *url.URL, problem string) {
	address, err := url.Parse(base)
	switch {
	case err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "":
		return nil, "is not an http or https address"
	case address.RawQuery != "" || address.Fragment != "" || address.User != nil:
		return nil, "must not hold a query, a fragment or a password"
	}
	return address, ""
}
