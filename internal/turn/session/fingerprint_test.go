package session

import (
	"encoding/json"
	"fmt"
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
	first := l.Fingerprint(req, nil, false)
	if len(first.Blocks) != 5 || first.Messages != 100 || first.Summary != 0 {
		t.Fatalf("the first fingerprint is %+v", first)
	}
	l.index.Add(&cairn.Message{Role: cairn.RoleAssistant, Fingerprint: first})
	again := *req
	again.Tools = append([]cairn.ToolSpec(nil), req.Tools...)
	again.Tools[1].Schema = json.RawMessage(string(req.Tools[1].Schema)) // equal, elsewhere in memory
	if f := l.Fingerprint(&again, nil, false); f.Blocks != nil || f.Tools != first.Tools || f.Instructions != first.Instructions {
		t.Errorf("an equal request has the fingerprint %+v", f)
	}
	again.Tools[1].Description, again.System = "Waits.", strings.Repeat("x", maxBlock)
	if f := l.Fingerprint(&again, []cairn.Message{{Summary: &cairn.Summary{From: 99}}}, true); len(f.Blocks) != 2 || f.Tools == first.Tools || f.Summary != 100 || f.Messages != 101 || !f.Changed {
		t.Errorf("a changed request has the fingerprint %+v", f)
	}
	if f := l.Fingerprint(&cairn.Request{}, nil, false); f.Instructions != "" || f.Tools != "" || f.Blocks != nil {
		t.Errorf("a request of messages alone has the fingerprint %+v", f)
	}
}

func BenchmarkFingerprint(b *testing.B) {
	l, req := requestOf(50)
	l.index.Add(&cairn.Message{Role: cairn.RoleAssistant, Fingerprint: l.Fingerprint(req, nil, false)})
	b.ReportAllocs()
	for b.Loop() {
		l.Fingerprint(req, nil, false)
	}
}
