package engine

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
)

// Serve works as [Engine.Work] does until ctx is done, and then drains the engine, see [Engine.Drain]. It is the whole
// life of a process that serves sessions, so that no shutdown order has to be remembered. Pass it a context that ends
// with the signals that end the process (os/signal.NotifyContext). Runs under way, including those that this process's
// Execute began, have Options.CloseGrace to finish their step. Another worker, or this program after a restart, takes
// them over at once behind that step. Steps that need longer are cut off; earlier commits stay.
//
// A process that also serves HTTP calls the server's Shutdown once Serve has returned. By then, requests that waited
// for a run have its outcome or ErrClosed, streams of events have ended, and late requests get ErrClosed. The store is
// closed last.
//
// The error is nil if every step ended, and has ErrTimeout if some were cut off; nothing is lost then. Any other error
// is Work's, which ends the engine in the same way. It is not an error if the engine is closed while Serve runs.
func (e *Engine) Serve(ctx context.Context) error {
	err := e.Work(ctx)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(e.opts.CloseGrace, 0))
	defer cancel()
	if e.Drain(closing) != nil {
		err = errors.Join(err, cairn.Errorf(cairn.ErrTimeout,
			"runs whose step did not end within %s were released: another worker takes them over", max(e.opts.CloseGrace, 0)))
	}
	return err
}
