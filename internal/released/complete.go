package released

import (
	"context"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/store/driver"
)

// complete answers all that waits in a store, drives every session to the end of its turns, and executes another one.
func complete(t *testing.T, st driver.Store) {
	t.Helper()
	s := newStage(t, st, func(_ context.Context, text string) error {
		if text != "cut" {
			t.Errorf("the call for %q, whose result is staged, is executed again", text)
		}
		return nil
	})
	defer s.close()
	waiting, crashed, queued := 0, 0, 0
	for _, id := range roots(t, st) {
		row, err := driver.Load(t.Context(), st, id)
		s.must(err)
		queue, err := s.eng.Queue(t.Context(), id)
		s.must(err)
		if row.Status == cairn.SessionActive {
			crashed++
		}
		if row.Status == cairn.SessionPaused {
			waiting++
			s.answer(id, true)
		}
		if row.Status == cairn.SessionPaused || row.Status == cairn.SessionActive {
			s.wantAnswer(id, s.resume(id))
		}
		for _, q := range queue {
			queued++
			s.wantAnswer(id, s.turn(id, row.Agent, "as queued", engine.WithRunID(q.ID)))
		}
		s.wantAnswer(id, s.turn(id, row.Agent, "note again"))
		s.wantSound(id)
	}
	if waiting == 0 || crashed == 0 || queued == 0 {
		t.Errorf("%d sessions waited, %d had crashed, %d turns were queued: want some of each", waiting, crashed, queued)
	}
}

func (s *stage) wantAnswer(id string, res *cairn.Result) {
	s.Helper()
	if res.Status != cairn.RunCompleted || res.Text != answer {
		s.Errorf("session %s: the turn is %s (%s) with %q, want %q", id, res.Status, res.Reason, res.Text, answer)
	}
}

func (s *stage) wantSound(id string) {
	s.Helper()
	problems, err := hosttest.Unsound(s.Context(), s.st, s.st.(driver.LogProvider).EventLog(), id)
	s.must(err)
	if len(problems) > 0 {
		s.Errorf("session %s:\n%s", id, strings.Join(problems, "\n"))
	}
}
