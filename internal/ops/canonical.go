package ops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Canonical returns raw with sorted members, no white space and one form of escaping. Numbers keep their spelling.
// Members with the same name keep their order, which decoders depend on.
func Canonical(raw json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(raw) {
		return nil, fmt.Errorf("not valid JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var b bytes.Buffer
	if err := writeCanonical(&b, dec); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// writeCanonical writes the next value of a valid text.
func writeCanonical(b *bytes.Buffer, dec *json.Decoder) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		return writeObject(b, dec)
	case json.Delim('['):
		b.WriteByte('[')
		for n := 0; dec.More(); n++ {
			if n > 0 {
				b.WriteByte(',')
			}
			if err := writeCanonical(b, dec); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		_, err = dec.Token() // the closing bracket
		return err
	}
	raw, err := json.Marshal(token)
	b.Write(raw)
	return err
}

// writeObject writes the rest of an object, after its opening brace.
func writeObject(b *bytes.Buffer, dec *json.Decoder) error {
	type member struct {
		name  string
		value bytes.Buffer
	}
	var list []*member
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		m := &member{name: name.(string)}
		if err := writeCanonical(&m.value, dec); err != nil {
			return err
		}
		list = append(list, m)
	}
	slices.SortStableFunc(list, func(a, b *member) int { return strings.Compare(a.name, b.name) })
	b.WriteByte('{')
	for i, m := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(m.name) // a string always encodes
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value.Bytes())
	}
	b.WriteByte('}')
	_, err := dec.Token() // the closing brace
	return err
}
