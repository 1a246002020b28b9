package delegate_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/delegate"
	"github.com/cairn-agents/cairn/internal/turn/session"
)

// server is an agent elsewhere, reached over an unreliable connection. It has at most one run, begun under an id that
// the caller chooses, and reports the run's status.
type server struct {
	run      *cairn.Run
	until    time.Time // the run works until then
	stopped  bool
	replies  []error // the fates of the next answers
	begins   int
	requests int
}

// answer drops the answer to a request that the server has executed, if replies says so.
func (s *server) answer() error {
	s.requests++
	if len(s.replies) == 0 {
		return nil
	}
	err := s.replies[0]
	s.replies = s.replies[1:]
	return err
}

// remote drives the agent on a server. Each attempt at the call has its own, with the same server.
type remote struct {
	server  *server
	stop    bool // the call's own run is to stop
	driven  string
	settled error
}

func (r *remote) Begin(context.Context) (turn.Begun, error) {
	if r.server.run != nil {
		return turn.Begun{}, cairn.ErrExists
	}
	r.server.begins++
	r.server.run = &cairn.Run{ID: "run", Status: cairn.RunRunning}
	return turn.Begun{Position: turn.Position{SessionID: "child", RunID: "run"}}, r.server.answer()
}

func (r *remote) Resume(context.Context) (turn.Begun, *cairn.Run, error) {
	s := r.server
	if err := s.answer(); err != nil {
		return turn.Begun{}, nil, err
	}
	switch {
	case s.run == nil:
		return turn.Begun{}, nil, cairn.ErrNotFound // the server has lost the run
	case s.run.Status != cairn.RunRunning:
		return turn.Begun{}, s.run, nil
	case s.stopped:
		s.run.Status, s.run.Reason = cairn.RunInterrupted, cairn.ReasonInterrupted
		return turn.Begun{}, s.run, nil
	case time.Now().Before(s.until): // another reader is attached to its events
		return turn.Begun{}, nil, cairn.ErrAlreadyRunning
	}
	return turn.Begun{Position: turn.Position{SessionID: "child", RunID: s.run.ID}}, nil, nil
}

func (r *remote) Drive(_ context.Context, b turn.Begun) error { r.driven = b.RunID; return nil }

func (r *remote) Stop(context.Context) {
	if r.stop && r.server.answer() == nil {
		r.server.stopped = true
	}
}

func (r *remote) End(_ context.Context, cause error) error { r.settled = cause; return nil }

// An agent on another server fits the mechanism. If an answer is lost, the next attempt detects that, and begins
// nothing twice.
func TestRemoteChildIsBegunOnce(t *testing.T) {
	s := &server{replies: []error{cairn.ErrUnavailable}}
	first := &remote{server: s}
	if out, err := delegate.Advance(t.Context(), first, true); !errors.Is(err, cairn.ErrUnavailable) || out != (delegate.Outcome{}) || first.settled != nil {
		t.Fatalf("with the answer lost: %+v, %v, settled with %v", out, err, first.settled)
	}
	second := &remote{server: s}
	out, err := delegate.Advance(t.Context(), second, true)
	if err != nil || out.Drive == nil || second.driven != "run" || s.begins != 1 {
		t.Fatalf("another attempt: %+v, %v; driven %q, begun %d times", out, err, second.driven, s.begins)
	}
	s.run.Status = cairn.RunCompleted
	out, err = delegate.Advance(t.Context(), &remote{server: s}, false)
	if err != nil || out.Run != s.run {
		t.Errorf("after it was driven: %+v, %v", out, err)
	}
}

// If an agent elsewhere is suspended, the call waits, as for a session here.
func TestRemoteChildIsSuspended(t *testing.T) {
	s := &server{run: &cairn.Run{ID: "run", Status: cairn.RunSuspended, Reason: cairn.ReasonCalls, Suspended: &cairn.Suspension{StepID: "step"}}}
	out, err := delegate.Advance(t.Context(), &remote{server: s}, false)
	if err != nil || out.Run == nil || out.Run.Suspended == nil {
		t.Errorf("%+v, %v", out, err)
	}
}

// While another process reads the agent's events, the call waits, and repeats a stop until the agent has received it.
func TestRemoteChildIsStoppedAtLeastOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{run: &cairn.Run{ID: "run", Status: cairn.RunRunning}, until: time.Now().Add(time.Hour)}
		s.replies = []error{nil, cairn.ErrUnavailable} // the first stop is lost
		out, err := delegate.Advance(t.Context(), &remote{server: s, stop: true}, false)
		if err != nil || out.Run == nil || out.Run.Status != cairn.RunInterrupted {
			t.Errorf("%+v, %v", out, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &server{run: &cairn.Run{ID: "run", Status: cairn.RunRunning}, until: time.Now().Add(time.Minute)}
		out, err := delegate.Advance(t.Context(), &remote{server: s}, false)
		if err != nil || out.Drive == nil || s.requests > 80 {
			t.Errorf("without a stop: %+v, %v, after %d requests", out, err, s.requests)
		}
	})
}

// A lost agent is settled with the cause, which becomes the call's result. A lost connection does not mean that the
// agent is lost.
func TestLostChildIsSettled(t *testing.T) {
	lost := &remote{server: &server{}}
	out, err := delegate.Advance(t.Context(), lost, false)
	if err != nil || !errors.Is(out.Failed, cairn.ErrNotFound) || !errors.Is(lost.settled, cairn.ErrNotFound) {
		t.Errorf("%+v, %v, settled with %v", out, err, lost.settled)
	}
	away := &remote{server: &server{replies: []error{cairn.ErrUnavailable}}}
	if out, err := delegate.Advance(t.Context(), away, false); !errors.Is(err, cairn.ErrUnavailable) || away.settled != nil {
		t.Errorf("%+v, %v, settled with %v", out, err, away.settled)
	}
}

// refused is a driver whose call ends early because the call's own run is to stop.
type refused struct{ remote }

func (*refused) Begin(context.Context) (turn.Begun, error) {
	return turn.Begun{}, &session.Stopped{Stop: cairn.Stop{Kind: cairn.StopInterrupt}}
}

func TestStoppedCallLeavesItsChild(t *testing.T) {
	d := &refused{}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cairn.ErrClosed)
	if out, err := delegate.Advance(ctx, d, true); err != nil || out != (delegate.Outcome{}) || d.settled != nil {
		t.Errorf("%+v, %v, settled with %v", out, err, d.settled)
	}
}

// restless is a child that has changed whenever it is to be resumed.
type restless struct {
	remote
	asked int
}

func (r *restless) Resume(context.Context) (turn.Begun, *cairn.Run, error) {
	r.asked++
	return turn.Begun{}, nil, cairn.ErrNotResumable
}

// A child that keeps changing is polled with growing pauses until the call's context ends.
func TestChildThatKeepsChanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d := &restless{}
		if out, err := delegate.Advance(ctx, d, false); !errors.Is(err, context.DeadlineExceeded) || out != (delegate.Outcome{}) || d.settled != nil {
			t.Errorf("%+v, %v, settled with %v", out, err, d.settled)
		}
		if d.asked < 60 || d.asked > 80 {
			t.Errorf("it was asked %d times in a minute", d.asked)
		}
	})
}
