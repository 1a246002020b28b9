package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store"
)

// await asks until done says yes: the server removes what expired by its own clock.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(30 * time.Second); !done(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited for %s", what)
		}
	}
}

// A session that has expired goes with all that it owns, and from every list.
func TestRetention(t *testing.T) {
	t.Parallel()
	s := openAt(t, testenv.Redis(t), &Options{Prefix: newPrefix(), Retention: 50 * time.Millisecond})
	ctx := t.Context()
	_, err := s.Commit(ctx, "session", &store.Commit{Create: &cairn.Session{Agent: "support", UserID: "user", ExpiresAt: time.Now().Add(100 * time.Millisecond)},
		Messages: []cairn.Message{cairn.User(cairn.TextPart("hello"))}, StartRun: &cairn.Run{ID: "run"}, Status: cairn.SessionPaused,
		Checkpoint: &cairn.Checkpoint{ID: "cp", StepID: "step"}, Enqueue: &store.QueuedTurn{ID: "turn"}, Cache: []store.CacheEntry{{Key: "k"}},
		Suspend: &store.Suspend{StepID: "step"},
		Calls:   []store.CallWrite{{Call: cairn.PendingCall{CallRef: cairn.CallRef{ID: "call", Kind: cairn.CallApproval}, StepID: "step", Status: cairn.CallOpen}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Create(ctx, s, &cairn.Session{ID: "stays", Agent: "support"}, nil); err != nil {
		t.Fatal(err)
	}
	await(t, "the session to go", func() bool {
		_, err := s.Load(ctx, "session")
		return errors.Is(err, cairn.ErrNotFound)
	})
	page, err := s.List(ctx, store.SessionQuery{})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != "stays" {
		t.Errorf("sessions that are listed: %+v, %v", page.Items, err)
	}
	if due, err := s.Due(ctx, 10); err != nil || len(due) != 0 {
		t.Errorf("sessions that are due: %+v, %v", due, err)
	}
	if calls, err := s.Calls(ctx, store.CallQuery{}); err != nil || len(calls.Items) != 0 {
		t.Errorf("pending calls: %+v, %v", calls.Items, err)
	}
	for _, letter := range "smfcnrogkqh" {
		if n := s.client.Exists(ctx, s.buckets[0]+string(letter)+":session").Val(); n != 0 {
			t.Errorf("the key %c of the session is still there", letter)
		}
	}
}

// Events that have expired are reported as trimmed, and sequences go on.
func TestEventRetention(t *testing.T) {
	t.Parallel()
	s := openAt(t, testenv.Redis(t), &Options{Prefix: newPrefix(), EventRetention: 20 * time.Millisecond})
	ev := cairn.Event{Type: cairn.EventCustom}
	if _, err := s.log.Append(t.Context(), "log", 0, ev, ev, ev); err != nil {
		t.Fatal(err)
	}
	await(t, "the events to go", func() bool {
		_, err := s.log.Read(t.Context(), "log", 1, 0)
		return errors.Is(err, cairn.ErrTrimmed)
	})
	if last, err := s.log.Append(t.Context(), "log", 3, ev); err != nil || last != 4 {
		t.Errorf("the next event has sequence %d, %v", last, err)
	}
}
