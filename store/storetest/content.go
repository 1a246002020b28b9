package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// content is everything that a store has of a session.
type content struct {
	Session     *cairn.Session
	State       json.RawMessage
	Messages    []cairn.Message
	Runs        []cairn.Run
	Checkpoints []cairn.Checkpoint
	// At holds the state at each checkpoint.
	At     []json.RawMessage
	Staged []driver.Staged
	Calls  []cairn.PendingCall
	Queue  []driver.QueuedTurn
	Cache  []driver.CacheEntry
}

// content reads a session with every reading method. It returns nil if there is no such session.
func (h *harness) content(id string) *content {
	h.Helper()
	s, err := driver.Load(h.Context(), h.st, id)
	if errors.Is(err, cairn.ErrNotFound) {
		return nil
	}
	h.must(err)
	all := &content{Session: s, State: h.state(id, ""), Messages: h.messages(id), Runs: h.runs(id), Checkpoints: h.checkpoints(id)}
	for _, cp := range all.Checkpoints {
		all.At = append(all.At, h.state(id, cp.ID))
	}
	all.Staged, err = driver.StagedOf(h.Context(), h.st, id, "")
	h.must(err)
	all.Calls, all.Queue, all.Cache = h.calls(driver.CallQuery{SessionID: id}), h.queue(id), h.cache(id)
	return all
}

// unchanged checks that do changes nothing of a session.
func (h *harness) unchanged(id, what string, do func()) {
	h.Helper()
	before := plain(h.T, h.content(id)) // as text, since a store might return its own memory
	do()
	if after := plain(h.T, h.content(id)); after != before {
		h.Fatalf("%s must not change the session:\n%s", what, firstDifference(after, before))
	}
}

func (h *harness) state(id, checkpointID string) json.RawMessage {
	h.Helper()
	raw, err := driver.State(h.Context(), h.st, id, checkpointID)
	if err != nil {
		h.Fatalf("state of %q at %q: %v", id, checkpointID, err)
	}
	return raw
}

func (h *harness) wantState(id, checkpointID, want string) {
	h.Helper()
	same(h.T, fmt.Sprintf("state of %q at %q", id, checkpointID), h.state(id, checkpointID), json.RawMessage(want))
}

func (h *harness) messages(id string) []cairn.Message {
	h.Helper()
	list, err := driver.AllMessages(h.Context(), h.st, id)
	if err != nil {
		h.Fatalf("messages of %q: %v", id, err)
	}
	return list
}

// texts returns a session's transcript, one text per message.
func (h *harness) texts(id string) []string {
	h.Helper()
	return textsOf(h.messages(id))
}

func textsOf(list []cairn.Message) []string {
	texts := make([]string, 0, len(list))
	for i := range list {
		texts = append(texts, list[i].Text())
	}
	return texts
}

func says(texts ...string) []cairn.Message {
	var list []cairn.Message
	for _, text := range texts {
		list = append(list, cairn.User(cairn.TextPart(text)))
	}
	return list
}

func (h *harness) runs(id string) []cairn.Run {
	h.Helper()
	return pages(h.T, "runs of "+id, func(cursor string) (driver.Page[cairn.Run], error) {
		return h.st.Runs(h.Context(), id, driver.PageQuery{Cursor: cursor})
	})
}

func (h *harness) checkpoints(id string) []cairn.Checkpoint {
	h.Helper()
	return pages(h.T, "checkpoints of "+id, func(cursor string) (driver.Page[cairn.Checkpoint], error) {
		return h.st.Checkpoints(h.Context(), id, driver.PageQuery{Cursor: cursor})
	})
}

func (h *harness) checkpointIDs(id string) []string {
	h.Helper()
	list := []string{}
	for _, cp := range h.checkpoints(id) {
		list = append(list, cp.ID)
	}
	return list
}

// maxPages bounds the pages of a list, so that cursors that form a circle cause a failure, not a hang.
const maxPages = 10_000

// pages reads a list to its end.
func pages[T any](t *testing.T, what string, read func(cursor string) (driver.Page[T], error)) []T {
	t.Helper()
	var all []T
	cursor := ""
	for range maxPages {
		page, err := read(cursor)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			return all
		}
		cursor = page.Next
	}
	t.Fatalf("%s: still not at the end after %d pages", what, maxPages)
	return nil
}

// same compares two values by their JSON form, in which instants of different time zones, empty and missing lists,
// and orders of members are alike.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	g, w := plain(t, got), plain(t, want)
	if g != w {
		t.Fatalf("%s:\n%s", what, firstDifference(g, w))
	}
}

func plain(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%T does not encode: %v", v, err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	raw, err = json.MarshalIndent(normal(tree), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			v[k] = normal(inner)
		}
	case []any:
		if len(v) == 0 {
			return nil
		}
		for i, inner := range v {
			v[i] = normal(inner)
		}
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return at.UTC().Format(time.RFC3339Nano)
		}
	}
	return v
}

// firstDifference shows where two texts first differ.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	at := 0
	for at < len(g) && at < len(w) && g[at] == w[at] {
		at++
	}
	return fmt.Sprintf("got\n%s\nwant\n%s", excerpt(g, at), excerpt(w, at))
}

func excerpt(lines []string, at int) string {
	const around, width = 4, 200
	var b strings.Builder
	for i := max(0, at-around); i < min(len(lines), at+around); i++ {
		line := lines[i]
		if len(line) > width {
			line = line[:width] + "…"
		}
		mark := "  "
		if i == at {
			mark = "> "
		}
		b.WriteString("    " + mark + line + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}
