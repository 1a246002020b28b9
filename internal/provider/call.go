package provider

import (
	"context"
	"errors"
	"io"
	"iter"
	"mime"
	"net/http"

	"github.com/cairn-agents/cairn"
)

// ErrStopped reports that the reader wants no more chunks.
var ErrStopped = errors.New("stopped")

// Emit passes on a chunk. Its error is ErrStopped.
type Emit func(cairn.Chunk) error

// Stream returns the chunks that ask emits, and its error. ask is not called if ctx is done or the endpoint is not
// ready.
func (e *Endpoint) Stream(ctx context.Context, ask func(emit Emit) error) iter.Seq2[cairn.Chunk, error] {
	return func(yield func(cairn.Chunk, error) bool) {
		emit := func(c cairn.Chunk) error {
			if !yield(c, nil) {
				return ErrStopped
			}
			return nil
		}
		var err error
		switch {
		case ctx.Err() != nil:
			err = e.Ended(ctx)
		case e.Problem != nil:
			err = e.Problem
		default:
			err = ask(emit)
		}
		if err != nil && !errors.Is(err, ErrStopped) {
			yield(cairn.Chunk{}, err)
		}
	}
}

// Call makes one request under the idle timeout. If the request was cancelled, it returns the error that describes
// the cause. Silence after a complete reply is not an error.
func (e *Endpoint) Call(ctx context.Context, complete func() bool, read func(context.Context, *Idle) error) error {
	call, watch, stop := WatchIdle(ctx, e.Idle)
	defer stop()
	err := read(call, watch)
	switch {
	case errors.Is(err, ErrStopped):
		return err
	case ctx.Err() != nil:
		return e.Ended(ctx)
	case err == nil:
		return nil
	case errors.Is(context.Cause(call), ErrIdle) && complete():
		return nil
	case errors.Is(context.Cause(call), ErrIdle):
		return e.Silent(e.Idle)
	}
	return err
}

// NoStream returns the error for a response that is not a stream of events, or nil for one that may be. It reads
// the body of a response that is not a stream.
func (f Failures) NoStream(res *http.Response, body io.Reader) error {
	if res.StatusCode != http.StatusOK {
		return f.Answer(res)
	}
	switch media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media { // a malformed one counts as none
	case "text/html":
		return f.Errorf(cairn.ErrModelRequest, "the server responded with a web page; check the base URL")
	case "application/json":
		answer, _ := io.ReadAll(io.LimitReader(body, maxErrorBody)) // a partial body is enough
		if said, ok := reported(answer); ok {
			return f.Fault(said)
		}
		return f.Errorf(cairn.ErrModelRequest, "the server responded with a whole message instead of a stream")
	}
	return nil
}
