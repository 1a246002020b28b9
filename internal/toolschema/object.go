package toolschema

import (
	"encoding/json"
	"slices"
)

// Object returns a schema of arguments with the type "object" at the top, where it has none or a list with it: arguments
// are objects, whatever their schema leaves open. Any other schema is returned as it is.
func Object(raw json.RawMessage) json.RawMessage {
	root, err := parse(raw)
	if err != nil {
		return raw
	}
	list, several := root.get("type").([]any)
	if root.get("type") != nil && (!several || !slices.Contains(list, any("object"))) {
		return raw
	}
	out := newObject()
	out.set("type", "object")
	for _, name := range root.names {
		if name != "type" {
			out.set(name, root.of[name])
		}
	}
	text, err := encode(out)
	if err != nil {
		return raw
	}
	return text
}
