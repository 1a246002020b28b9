package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
)

func requestOf(tools int) (*Live, *cairn.Request) {
	l := &Live{known: known{Row: &cairn.Session{}}}
	req := &cairn.Request{System: strings.Repeat("Be brief. ", 400)}
	for i := range tools {
		req.Tools = append(req.Tools, cairn.ToolSpec{Name: fmt.Sprint("tool", i), Description: strings.Repeat("Looks. ", 40), Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)})
	}
	for range 100 {
		l.Messages = append(l.Messages, cairn.Message{Role: cairn.RoleUser})
	}
	return l, req
}

// A block is kept by the first fingerprint that has it, and a content that is too large by none.
func TestFingerprintBlocks(t *testing.T) {
	t.Parallel()
	l, req := requestOf(3)
	first := l.Fingerprint(req, false)
	if len(first.Blocks) != 5 || first.Instructions == "" || first.Tools == "" {
		t.Fatalf("the first fingerprint is %+v", first)
	}
	l.index.Add(&cairn.Message{Role: cairn.RoleAssistant, Fingerprint: first})
	again := *req
	again.Tools = slices.Clone(req.Tools)
	again.Tools[1].Schema = json.RawMessage(string(req.Tools[1].Schema)) // equal, elsewhere in memory
	if f := l.Fingerprint(&again, false); f != nil {
		t.Errorf("an equal request has the fingerprint %+v", f)
	}
	if f := l.Fingerprint(&again, true); f == nil || !f.Changed || f.Instructions+f.Tools != "" || f.Blocks != nil {
		t.Errorf("an equal request that hooks were given has the fingerprint %+v", f)
	}
	again.Tools[1].Description, again.System = "Waits.", strings.Repeat("x", maxBlock)
	if f := l.Fingerprint(&again, false); len(f.Blocks) != 2 || f.Tools == first.Tools || f.Instructions == first.Instructions {
		t.Errorf("a changed request has the fingerprint %+v", f)
	}
	l.index.Add(&cairn.Message{Hidden: true, Summary: &cairn.Summary{From: 1, Blocks: []string{first.Instructions}}})
	if f := l.Fingerprint(req, false); f.Instructions != first.Instructions || len(f.Blocks) != 4 {
		t.Errorf("after a summary a request has the fingerprint %+v", f)
	}
}

func BenchmarkFingerprint(b *testing.B) {
	l, req := requestOf(50)
	l.index.Add(&cairn.Message{Role: cairn.RoleAssistant, Fingerprint: l.Fingerprint(req, false)})
	b.ReportAllocs()
	for b.Loop() {
		l.Fingerprint(req, false)
	}
}
