package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/cairn-agents/cairn"
)

// Import adds the entries that [Memory.Export] has written, of any scope, and returns how many it has read. Entries whose
// ids exist in the scope are left unchanged, so that an import that was interrupted can be repeated. Redacted entries have
// nothing to add and are left out. For an invalid entry it returns the error of Add, with its lines; earlier ones are
// kept.
func (m *Memory) Import(ctx context.Context, scope Scope, r io.Reader) (read int, err error) {
	decoder := json.NewDecoder(r)
	for more := true; more; {
		var batch []Entry
		first := read + 1
		for len(batch) < maxBatch {
			var e Entry
			if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
				more = false
				break
			} else if err != nil {
				return read, cairn.Invalid("entries", "line %d is not an entry in JSON: %v", read+1, err)
			}
			read++
			if e.State != Redacted {
				batch = append(batch, e)
			}
		}
		if _, err := m.Add(ctx, scope, batch...); err != nil {
			return first - 1, fmt.Errorf("lines %d to %d: %w", first, read, err)
		}
	}
	return read, nil
}
