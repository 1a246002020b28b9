package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// JSON prints one document.
func JSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}

// Items prints a list as one JSON object with its items, without holding them all in memory, and with next if it is not
// empty once they are read: where the list continues. next may be nil. After an error in the middle the object is whole
// and has the items up to there.
func Items[T any](w io.Writer, items iter.Seq2[T, error], next *string) error {
	before, after := "{\n  \"items\": [", "{\n  \"items\": []"
	for item, err := range items {
		if err != nil && before == "," {
			_, broken := io.WriteString(w, after+"\n}\n")
			return errors.Join(err, broken)
		}
		if err != nil {
			return err
		}
		raw, err := json.MarshalIndent(item, "    ", "  ")
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n    %s", before, raw); err != nil {
			return err
		}
		before, after = ",", "\n  ]"
	}
	if next != nil && *next != "" {
		raw, err := json.Marshal(*next)
		if err != nil {
			return err
		}
		after += ",\n  \"next\": " + string(raw)
	}
	_, err := io.WriteString(w, after+"\n}\n")
	return err
}

// Array prints items as one JSON array.
func Array[T any](w io.Writer, items iter.Seq2[T, error]) error {
	list := []T{}
	for item, err := range items {
		if err != nil {
			return err
		}
		list = append(list, item)
	}
	return JSON(w, list)
}
