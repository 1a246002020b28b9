package output

import (
	"encoding/json"
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

// Array prints items as one JSON array without holding them all in memory.
func Array[T any](w io.Writer, items iter.Seq2[T, error]) error {
	before, after := "[", "[]\n"
	for item, err := range items {
		if err != nil {
			return err
		}
		raw, err := json.MarshalIndent(item, "  ", "  ")
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n  %s", before, raw); err != nil {
			return err
		}
		before, after = ",", "\n]\n"
	}
	_, err := io.WriteString(w, after)
	return err
}
