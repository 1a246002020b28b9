package released

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	// gone is the session that is removed.
	gone = "gone"
	// namespace is that of the records.
	namespace = "released"
	// reviewer answers every call.
	reviewer = "ann"
)

// stage is an engine on a store.
type stage struct {
	*testing.T
	st  driver.Store
	eng *engine.Engine
}

func newStage(t *testing.T, st driver.Store, work func(context.Context, string) error) *stage {
	t.Helper()
	eng, err := engine.New(st, cast{work}.agents(), &engine.Options{TTL: -1})
	if err != nil {
		t.Fatal(err)
	}
	return &stage{t, st, eng}
}

// close closes the engine, and leaves what still runs to another process.
func (s *stage) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.eng.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		s.Error(err)
	}
}

// turn executes a turn to its end.
func (s *stage) turn(session, agent, script string, opts ...engine.RunOption) *cairn.Result {
	s.Helper()
	run, err := s.eng.Execute(s.Context(), session, agent, cairn.Text(script), opts...)
	if err != nil {
		s.Fatal(err)
	}
	return s.wait(run)
}

// wait returns the outcome of a run, whatever it is.
func (s *stage) wait(run *engine.Run) *cairn.Result {
	s.Helper()
	res, err := run.Wait(s.Context())
	if res == nil {
		s.Fatalf("session %s, run %s: %v", run.SessionID(), run.ID(), err)
	}
	return res
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// play writes every kind of row: sessions that are at rest, that wait, and one whose process died in a step.
func play(t *testing.T, st driver.Store) {
	reached := make(chan struct{})
	s := newStage(t, st, func(ctx context.Context, text string) error {
		if text != "cut" {
			return nil
		}
		close(reached)
		<-ctx.Done()
		return ctx.Err()
	})
	defer s.close()
	s.playConversation()
	s.playWaits()
	s.turn("failed", "desk", "note a; fail the model is away")
	s.turn("lasting", "keeper", "note a", engine.WithExpiry(time.Now().Add(long)))
	s.turn(gone, "desk", "note a; pay 6; note b")
	s.turn("archived", "desk", "note a")
	yes := true
	_, err := s.eng.SetContext(t.Context(), "archived", driver.ContextChange{Archived: &yes})
	s.must(err)
	records := s.eng.Records()
	for _, w := range []driver.RecordWrite{{Key: "kept"}, {Key: "indexed", Index: "index"}, {Key: "lasting", TTL: long}} {
		w.Namespace, w.Value, w.Seen = namespace, json.RawMessage(`{"a":["é"]}`), driver.AnyVersion
		_, err := records.Put(t.Context(), w)
		s.must(err)
	}
	if kept, ok := st.(driver.MemoryProvider); ok {
		for _, scope := range []driver.MemoryScope{driver.UserMemories("ann"), {Kind: driver.MemoryOfGroup, Name: "released"}} {
			_, err := kept.Memories().Write(t.Context(), driver.MemoryWrite{Scope: scope, DueAt: time.Now().Add(long),
				Puts: []driver.MemoryEntry{{Key: "a/é", Value: []byte{0, 1, 0xff}}, {Key: "b", Value: []byte(`{}`)}}})
			s.must(err)
		}
	}
	if files, ok := st.(driver.BlobProvider); ok {
		row, err := s.eng.Session(t.Context(), "lasting")
		s.must(err)
		_, err = files.Blobs().Put(t.Context(), driver.OwnerOfBlobs(row), []byte("a file"), []byte{0, 1, 0xff})
		s.must(err)
	}
	if metered, ok := st.(driver.UsageProvider); ok { // some rows, so that others are not folded
		_, err := metered.Usages().Fold(t.Context(), 3)
		s.must(err)
	}
	_, err = s.eng.Execute(t.Context(), "crashed", "clerk", cairn.Text("note a; work kept & work cut; note b"))
	s.must(err)
	<-reached
}

// playConversation plays a session with several turns, from which others are branched.
func (s *stage) playConversation() {
	const id = "conversation"
	ctx, title := s.Context(), "A lamp that arrived broken"
	file := cairn.FilePart(cairn.File{Name: "lamp.png", MediaType: "image/png", Data: []byte("\x89PNG\x00\xff")})
	run, err := s.eng.Execute(ctx, id, "desk", cairn.Messages(cairn.User(cairn.TextPart("note a; note b & weather Rome; consult note c"), file)),
		engine.WithUser("ada"), engine.WithTags("tag"), engine.WithMetadata(map[string]any{"plan": "pro", "lines": 2}),
		engine.WithState(map[string]any{"text": strings.Repeat("text ", 20)}), engine.WithThread("thread"))
	s.must(err)
	s.wait(run)
	_, err = s.eng.SetContext(ctx, id, driver.ContextChange{Title: &title})
	s.must(err)
	s.must(s.eng.AddContext(ctx, id, "The user has called."))
	s.must(s.eng.SwitchTools(ctx, id, map[string]bool{"scan": false}))
	s.turn(id, "desk", "pay 1")
	s.answer(id, false)
	s.resume(id)
	// Each note is a change of the state; those of this turn outgrow a keyframe.
	s.turn(id, "desk", strings.TrimSuffix(strings.Repeat("note "+strings.Repeat("long ", 300)+"; ", 4), "; "))
	s.turn(id, "desk", "note x")
	_, err = s.eng.Branch(ctx, id, "branch", engine.AtMessage(4))
	s.must(err)
	s.turn("branch", "desk", "note d")
	checkpoint, err := s.eng.Checkpoint(ctx, id)
	s.must(err)
	s.turn(id, "desk", "note rewound")
	_, err = s.eng.Rewind(ctx, id, checkpoint.ID)
	s.must(err)
	s.turn(id, "desk", "note e")
	_, err = s.eng.Compact(ctx, id)
	s.must(err)
	s.turn(id, "desk", "note f")
	_, err = s.eng.Execute(ctx, id, "desk", cairn.Text("note g"), engine.FromMessage(0), engine.KeepReplaced())
	s.must(err)
	run, err = s.eng.Attach(ctx, id)
	s.must(err)
	s.wait(run)
}

// playWaits plays sessions that wait for every kind of call.
func (s *stage) playWaits() {
	ctx := s.Context()
	s.turn("approval", "desk", "note a & pay 2; note b")
	for _, script := range []string{"note later", "note last"} {
		_, err := s.eng.Execute(ctx, "approval", "desk", cairn.Text(script), engine.WithOnWaiting(engine.WaitingEnqueue))
		s.must(err)
	}
	for _, call := range s.open("approval") {
		_, err := s.eng.Claim(ctx, "approval", call.ID, reviewer, 0)
		s.must(err)
	}
	s.turn("family", "desk", "helper note a; note b")
	s.turn("family", "desk", "helper pay 3 & pay 4")
	s.turn("question", "desk", "survey started")
	s.turn("client", "desk", "scan page")
	s.turn("stopped", "desk", "pay 5")
	s.must(s.eng.Abort(ctx, "stopped", "no longer needed"))
}

// open returns the open calls of a tree.
func (s *stage) open(root string) []cairn.PendingCall {
	s.Helper()
	page, err := s.eng.Inbox(s.Context(), driver.CallQuery{RootID: root, Statuses: []cairn.CallStatus{cairn.CallOpen}, Limit: 100})
	s.must(err)
	return page.Items
}

// answer answers the open calls of a tree: approvals are given or denied.
func (s *stage) answer(root string, approved bool) {
	s.Helper()
	for _, call := range s.open(root) {
		submission := cairn.Answer(call.CallRef, "yes")
		if call.Kind == cairn.CallApproval {
			submission = cairn.Approve(call.CallRef)
			if !approved {
				submission = cairn.Deny(call.CallRef, "not today")
			}
		}
		_, err := s.eng.Submit(s.Context(), root, submission.By(reviewer))
		s.must(err)
	}
}

// resume drives a session that waits, or whose process died, to the end of its turn.
func (s *stage) resume(root string) *cairn.Result {
	s.Helper()
	run, err := s.eng.Resume(s.Context(), root)
	if err != nil {
		s.Fatalf("session %s: %v", root, err)
	}
	return s.wait(run)
}

// remove deletes the session [gone].
func remove(t *testing.T, st driver.Store) {
	t.Helper()
	if _, err := st.(driver.Sweeper).Remove(t.Context(), gone, driver.Deleted); err != nil {
		t.Fatal(err)
	}
}
