package sqlitestore

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// sum answers a query of one number.
func (s *Store) sum(t *testing.T, text string, args ...any) (n int64) {
	t.Helper()
	err := s.readers.read(t.Context(), func(c *conn) error {
		_, err := c.row(text, func(cols *columns) { n = cols.int64() }, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A thousand steps that each add 100 bytes to a state of 100 KB: what checkpoints and state take grows with the changes,
// not with the state.
func TestStorageFollowsTheChanges(t *testing.T) {
	t.Parallel()
	const steps, added, size = 1000, 100, 100 << 10
	st := openAt(t, filepath.Join(t.TempDir(), "cairn.db"), &Options{Synchronous: Normal})
	state := json.RawMessage(`{"text":"` + strings.Repeat("x", size) + `"}`)
	row, err := store.Create(t.Context(), st, &cairn.Session{ID: "session", Agent: "agent"}, state)
	if err != nil {
		t.Fatal(err)
	}
	item, changes := json.RawMessage(`"`+strings.Repeat("y", added-2)+`"`), int64(0)
	for n := range steps {
		op := cairn.Op{Kind: cairn.OpAppend, Path: "/list", Items: []json.RawMessage{item}}
		change := &store.StateChange{Ops: []cairn.Op{op}}
		text := must(json.Marshal(change.Ops))
		changes += int64(len(text))
		if store.KeyframeDue(row.State, len(text)) {
			change.Keyframe = must(store.FoldState(must(st.State(t.Context(), "session", "")), [][]cairn.Op{change.Ops}))
		}
		row, err = st.Commit(t.Context(), "session", &store.Commit{
			Guard: store.Guard{Version: row.Version}, State: change, Step: n + 1,
			Checkpoint: &cairn.Checkpoint{ID: fmt.Sprint("cp", n), RunID: "run", StepID: fmt.Sprint("run/", n), Step: n + 1},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	keyframes := st.sum(t, `SELECT sum(length(data)) FROM state WHERE keyframe = 1`)
	total := st.sum(t, `SELECT sum(length(data)) FROM state`) +
		st.sum(t, `SELECT sum(length(id) + length(step_id) + length(run_id) + length(parent_id) + 8 * 8) FROM checkpoints`)
	if limit := 3 * (changes + keyframes); total > limit {
		t.Errorf("%d bytes for %d bytes of changes and %d of keyframes, at most %d are allowed", total, changes, keyframes, limit)
	}
	if whole := int64(steps * size); total > whole/50 {
		t.Errorf("%d bytes: whole states would have taken %d", total, whole)
	}
	if n := st.sum(t, `SELECT count(*) FROM state WHERE keyframe = 1`); n < 2 || n > 4 {
		t.Errorf("%d keyframes, want the first one and one or two more", n)
	}
	last := must(st.State(t.Context(), "session", fmt.Sprint("cp", steps-1)))
	if n := strings.Count(string(last), string(item)); n != steps {
		t.Errorf("the last checkpoint's state has %d items, want %d", n, steps)
	}
	if first := must(st.State(t.Context(), "session", "cp0")); strings.Count(string(first), string(item)) != 1 {
		t.Errorf("the first checkpoint's state is %d bytes", len(first))
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
