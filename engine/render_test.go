package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

// wantGolden compares text with a file of testdata.
func wantGolden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, []byte(text)) {
		t.Errorf("%s differs; if that is meant, run the test with -update\ngot:\n%s", file, text)
	}
}

// render tells everything that a session left behind.
func render(t *testing.T, st durable, id string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "# transcript\n")
	for _, m := range messages(t, st, id) {
		renderMessage(&b, &m)
	}
	fmt.Fprintf(&b, "\n# state\n%s\n\n# runs\n", state(t, st, id))
	for _, r := range runsOf(t, st, id) {
		renderRun(&b, &r)
	}
	page, err := st.Checkpoints(context.Background(), id, store.PageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "\n# checkpoints\n")
	for _, cp := range page.Items {
		fmt.Fprintf(&b, "%d %s after %s: %d messages\n", cp.Number, cp.ID, cp.StepID, cp.MessageCount)
	}
	fmt.Fprintf(&b, "\n# events\n")
	for _, ev := range inOrder(history(t, st, id)) {
		renderEvent(&b, &ev)
	}
	return b.String()
}

func renderMessage(b *strings.Builder, m *cairn.Message) {
	who := string(m.Role)
	if m.Hidden {
		who = "context"
	}
	fmt.Fprintf(b, "%s", who)
	for _, p := range m.Parts {
		switch p.Type {
		case cairn.PartText:
			fmt.Fprintf(b, " %q", p.Text)
		case cairn.PartReasoning:
			fmt.Fprintf(b, " thinking %q", p.Text)
		case cairn.PartToolUse:
			fmt.Fprintf(b, " %s(%s)#%s", p.ToolUse.Tool, p.ToolUse.Input, p.ToolUse.CallID)
		case cairn.PartToolResult:
			fmt.Fprintf(b, " #%s=%s", p.Result.CallID, brief(p.Result.Output))
			if p.Result.IsError {
				fmt.Fprintf(b, " (%s)", p.Result.Code)
			}
		case cairn.PartFile:
			fmt.Fprintf(b, " file %s", p.File.Name)
		}
	}
	fmt.Fprintln(b)
}

func renderRun(b *strings.Builder, r *cairn.Run) {
	fmt.Fprintf(b, "%d %s %s: %s, %s, %d steps, %d model calls, %d tool calls", r.Turn, r.ID, r.Kind, r.Status, r.Reason, r.Steps, r.Usage.ModelCalls, r.Usage.ToolCalls)
	if r.Usage.ToolErrors > 0 {
		fmt.Fprintf(b, " of which %d failed", r.Usage.ToolErrors)
	}
	if r.Text != "" {
		fmt.Fprintf(b, ", text %q", r.Text)
	}
	if r.Output != nil {
		fmt.Fprintf(b, ", output %s", r.Output)
	}
	if r.PreviousRunID != "" {
		fmt.Fprintf(b, ", after %s", r.PreviousRunID)
	}
	if r.Error != nil {
		fmt.Fprintf(b, ", error %s: %s", r.Error.Code, r.Error.Message)
	}
	fmt.Fprintln(b)
}

func renderEvent(b *strings.Builder, ev *cairn.Event) {
	fmt.Fprintf(b, "%s", ev.Type)
	if ev.Step > 0 {
		fmt.Fprintf(b, " %d", ev.Step)
	}
	for _, s := range []string{ev.CallID, ev.Tool, ev.Name, string(ev.Status), string(ev.Reason)} {
		if s != "" {
			fmt.Fprintf(b, " %s", s)
		}
	}
	if ev.Text != "" {
		fmt.Fprintf(b, " %q", ev.Text)
	}
	if ev.Data != nil {
		fmt.Fprintf(b, " %s", brief(ev.Data))
	}
	if ev.Patch != nil {
		raw, _ := json.Marshal(ev.Patch)
		fmt.Fprintf(b, " %s", raw)
	}
	if ev.IsError {
		fmt.Fprintf(b, " (error)")
	}
	if ev.Error != nil {
		fmt.Fprintf(b, " %s", ev.Error.Code)
	}
	fmt.Fprintln(b)
}

// brief leaves out what the schema library says: its words are not the engine's.
func brief(data json.RawMessage) string {
	const said = "violate the schema: "
	if i := bytes.Index(data, []byte(said)); i >= 0 {
		return string(data[:i+len(said)]) + "…\""
	}
	return string(data)
}

// inOrder puts what parallel calls said at the same time into the order of their ids.
func inOrder(events []cairn.Event) []cairn.Event {
	parallel := func(ev *cairn.Event) bool {
		return ev.Type == cairn.EventToolStart || ev.Type == cairn.EventToolEnd
	}
	sorted := slices.Clone(events)
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && parallel(&sorted[j]) {
			j++
		}
		slices.SortStableFunc(sorted[i:j], func(a, b cairn.Event) int { return strings.Compare(a.CallID, b.CallID) })
		i = j + 1
	}
	return sorted
}
