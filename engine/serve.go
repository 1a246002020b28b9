package engine

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
)

// Serve works as [Engine.Work] does until ctx is done, and then drains the engine, see [Engine.Drain]: it is the whole life
// of a process that serves sessions, so that no order of calls at its end has to be remembered. Give it a context that ends
// with the signals that end the process (os/signal.NotifyContext). Runs under way, those that this process's Execute began
// included, have Options.CloseGrace to finish their step. Another worker, or this program when it is started again, takes
// them over at once, behind that step. Steps that need longer are cut: what was committed before them stays.
//
// A process that also serves HTTP calls the server's Shutdown once Serve has returned: requests that waited for a run
// have its outcome by then or ErrClosed, streams of events have ended, and requests that come late get ErrClosed. The store
// is closed last.
//
// The error is nil if every step came to its end, and has CodeTimeout if some were cut; then nothing is lost. Any
// other error is Work's, which ends the engine in the same way. An engine that is closed meanwhile is no error.
func (e *Engine) Serve(ctx context.Context) error {
	err := e.Work(ctx)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(e.opts.CloseGrace, 0))
	defer cancel()
	if e.Drain(closing) != nil {
		err = errors.Join(err, cairn.Errorf(cairn.CodeTimeout,
			"runs whose step did not end within %s were released: another worker takes them over", max(e.opts.CloseGrace, 0)))
	}
	return err
}
