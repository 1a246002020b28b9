package server

import (
	"context"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// A session is deleted in one request while a turn runs and others are queued, and its queue takes no more than it may.
func TestBusySessionIsDeletedWithItsQueue(t *testing.T) {
	begun := make(chan struct{}, 10)
	model := scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		begun <- struct{}{}
		return scripted.Reply(scripted.Text("so "), scripted.Pause(time.Hour))
	})
	w := newWorld(t, nil)
	eng, err := engine.New(w.st, []*cairn.Agent{{Name: "bot", Model: model}}, &engine.Options{MaxQueue: 2})
	if err != nil {
		t.Fatal(err)
	}
	w = w.servedBy(eng)
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Input: client.UserMessage{Text: "one"}}})
	<-begun
	more := startIn{Turn: client.Turn{SessionID: "s", Input: client.UserMessage{Text: "more"}, Unready: client.Unready{OnBusy: "enqueue"}}}
	for range 2 {
		want[client.Started](w, 202, "a", "POST", "/start", more)
	}
	if p := want[problemBody](w, 409, "a", "POST", "/start", more); p.Code != "queue_full" || !p.Retryable {
		t.Errorf("one too many: %+v", p)
	}
	post := map[string]any{"id": "s", "messages": []any{map[string]any{"role": "user", "parts": []any{map[string]any{"type": "text", "text": "hi"}}}}}
	if p := want[problemBody](w, 409, "a", "POST", "/chat", post); p.Code != "queue_full" {
		t.Errorf("a chat's message: %+v", p)
	}
	want[none](w, 204, "a", "DELETE", "/sessions/s", nil)
	want[problemBody](w, 404, "a", "GET", "/sessions/s", nil)
	if len(begun) > 0 {
		t.Error("a queued turn has begun")
	}
}
