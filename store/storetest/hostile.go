package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var hostileTests = []storeTest{
	{name: "Identifiers", run: oddIdentifiers},
	{name: "TextRoundTrips", run: oddMessages},
	{name: "LargeMessages", run: largeMessages},
	{name: "EmptyValues", run: emptyValues},
	{name: "ManyTags", run: manyTags},
}

// oddTexts are all valid as identifiers, and all different.
var oddTexts = []string{
	"a", "A", "é", "e\u0301", "中文", "🜁🜂", "a b", "a/b", "a.b", "..a", "a:b", "a%b", "a_b", "%", "_", "*", "?",
	"'", `"`, "`", `\`, `\'`, "'; DROP TABLE sessions; --", "' OR '1'='1", `{"$ne":1}`, "{a}", "[a]", "a,b", "a|b", "a=b", "a&b", "#a", "$1", "?1", ":a", "@a",
	"null", "NULL", "0", "00", "0x0", "1e1", "true", "-", "--", "a\u200bb", "\u202ea", "ﬀ", "ff", "ß", "ss", "İ", "i",
	strings.Repeat("x", 200), strings.Repeat("x", 199) + "y", strings.Repeat("🜁", 50),
}

// oddIdentifiers uses each text for everything that has a name. Each session must hold only its own content.
func oddIdentifiers(h *harness) {
	for i, odd := range oddTexts {
		h.createWith(odd, fmt.Sprintf(`{"n":%d}`, i))
		s := h.commit(odd, beginCommit(odd, odd, 1<<40))
		h.stage(s, piece(odd, odd, fmt.Sprint(i)))
		h.commit(odd, &driver.Commit{
			Guard:      driver.Guard{Token: s.Lease.Token},
			Messages:   []cairn.Message{{ID: odd, Role: cairn.RoleUser, RunID: odd, Parts: []cairn.Part{cairn.TextPart(odd)}}},
			State:      &driver.StateChange{Ops: []cairn.Op{{Kind: cairn.OpReplace, Path: pointer(odd), Value: fmt.Appendf(nil, "%q", odd)}}},
			Checkpoint: &cairn.Checkpoint{ID: odd, RunID: odd, StepID: odd, Step: 1},
		})
	}
	for i, odd := range oddTexts {
		all := h.content(odd)
		if all.Session.ID != odd || all.Session.RunID != odd || all.Session.Lease.Owner != odd || all.Session.CheckpointID != odd {
			h.Fatalf("session %q is %+v", odd, all.Session)
		}
		same(h.T, "messages", textsOf(all.Messages), []string{"question of " + odd, odd})
		same(h.T, "state", all.State, map[string]any{"n": i, odd: odd})
		same(h.T, "staged", all.Staged, []driver.Staged{piece(odd, odd, fmt.Sprint(i))})
		if len(all.Runs) != 1 || all.Runs[0].ID != odd || len(all.Checkpoints) != 1 || all.Checkpoints[0].StepID != odd {
			h.Fatalf("session %q has runs %+v, checkpoints %+v", odd, all.Runs, all.Checkpoints)
		}
	}
	if list := h.list(driver.SessionQuery{Limit: 7}); len(list) != len(oddTexts) {
		h.Fatalf("%d sessions are listed, want %d", len(list), len(oddTexts))
	}
}

func pointer(name string) string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func oddMessages(h *harness) {
	h.create("session")
	texts := append([]string{"", " ", "\n\t\r", "<script>&amp;</script>", "\u2028\u2029", "\ufeffbom", "\x01\x1f\x7f", "\u0600\u202e", "a\U0010ffff",
		"2024-01-02T03:04:05Z", "%s %d", strings.Repeat("\\\"", 100)}, oddTexts...)
	given := says(texts...)
	for i := range given {
		given[i].Parts = append(given[i].Parts, cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: texts[i], Tool: texts[i], Input: encode(texts[i])}})
	}
	h.commit("session", &driver.Commit{Messages: given})
	same(h.T, "messages", h.texts("session"), texts)
	for i, m := range h.messages("session") {
		same(h.T, fmt.Sprint("parts of message ", i), m.Parts, given[i].Parts)
	}
}

// encode returns a text as JSON.
func encode(text string) json.RawMessage {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err) // texts always encode
	}
	return raw
}

func largeMessages(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	big := strings.Repeat("0123456789abcde\n", 1<<16)
	c := h.stepCommit(s, big)
	c.Messages = append(c.Messages, cairn.User(cairn.FilePart(cairn.File{MediaType: "application/octet-stream", Data: []byte(big)})))
	c.State = &driver.StateChange{Ops: []cairn.Op{{Kind: cairn.OpReplace, Path: "/big", Value: encode(big)}}}
	c.EndRun = &cairn.Run{ID: "run", Agent: agentName, Status: cairn.RunCompleted, Text: big, Output: encode(big)}
	s = h.commit("session", c)
	list := h.messages("session")
	if list[1].Text() != big || string(list[2].Parts[0].File.Data) != big {
		h.Fatal("a message of 1 MiB did not come back as it was")
	}
	same(h.T, "state", h.state("session", ""), map[string]string{"big": big})
	run, err := driver.FindRun(h.Context(), h.st, "session", "run")
	h.must(err)
	if run.Text != big || s.MessageCount != 3 {
		h.Fatalf("the run's text has %d bytes of %d", len(run.Text), len(big))
	}
}

func emptyValues(h *harness) {
	row, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: "session", Agent: agentName, Tags: []string{}, Metadata: cairn.Metadata{}}, []byte{})
	h.must(err)
	none, nobody := []string{}, ""
	s := h.commit("session", &driver.Commit{Messages: []cairn.Message{}, Usage: cairn.Usage{Custom: map[string]float64{}},
		Context: &driver.ContextChange{UserID: &nobody, Tags: &none, Metadata: cairn.Metadata{"": ""}}})
	if s.MessageCount != 0 || len(s.Tags) > 0 || len(s.Metadata) > 0 || s.Version <= row.Version {
		h.Fatalf("row is %+v", s)
	}
	given := []cairn.Message{{Role: cairn.RoleUser}, {Role: cairn.RoleUser, Parts: []cairn.Part{}}, {Role: cairn.RoleUser, Parts: []cairn.Part{cairn.TextPart("")}}}
	h.commit("session", &driver.Commit{Messages: given})
	for i, m := range h.messages("session") {
		same(h.T, fmt.Sprint("parts of message ", i), m.Parts, given[i].Parts)
	}
	h.commit("session", &driver.Commit{StartRun: &cairn.Run{ID: "run", Status: cairn.RunRunning, Output: json.RawMessage{}}})
	if _, err := driver.FindRun(h.Context(), h.st, "session", "run"); err != nil {
		h.Fatal(err)
	}
	for _, id := range []string{"", " "} {
		if _, err := driver.Load(h.Context(), h.st, id); !errors.Is(err, cairn.ErrNotFound) && !errors.Is(err, cairn.ErrInvalid) {
			h.Fatalf("load of %q: %v", id, err)
		}
	}
}

func manyTags(h *harness) {
	given := &cairn.Session{ID: "session", Agent: agentName, Metadata: cairn.Metadata{}}
	for i := range 500 {
		given.Tags = append(given.Tags, fmt.Sprint("tag ", i))
		given.Metadata[fmt.Sprint("key ", i)] = fmt.Sprint("value ", i)
	}
	row, err := driver.Create(h.Context(), h.st, given, nil)
	h.must(err)
	same(h.T, "tags", h.load("session").Tags, given.Tags)
	same(h.T, "metadata", h.load("session").Metadata, given.Metadata)
	some := cairn.Metadata{}
	for i := range 20 {
		key := fmt.Sprint("key ", 25*i)
		some[key] = given.Metadata[key]
	}
	same(h.T, "sessions by some of them", h.list(driver.SessionQuery{Tags: given.Tags[100:120], Metadata: some}), []*cairn.Session{row})
}
