package provider

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
)

// Encode encodes JSON without escaping <, > and &, which costs models fewer tokens to read.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// Text returns a tool's output as a model reads it: the value of a string, anything else as JSON.
func Text(output json.RawMessage) string {
	text := string(output)
	var s string
	if json.Unmarshal(output, &s) == nil && text != "null" {
		text = s
	}
	return text
}

// Arguments returns a call's arguments as an object. Some servers fail permanently if arguments in the history are
// not objects.
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

// Address parses the base URL of a server. problem says what is wrong with it, or is empty.
func Address(base string) (address *url.URL, problem string) {
	address, err := url.Parse(base)
	switch {
	case err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "":
		return nil, "must be an http or https URL"
	case address.RawQuery != "" || address.Fragment != "" || address.User != nil:
		return nil, "must not have a query, a fragment or a password"
	}
	return address, ""
}
