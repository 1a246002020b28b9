package anthropic

import (
	"context"
	"errors"
	"iter"
	"mime"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// MessagesModel is a model that speaks the Messages API. It is safe for concurrent use.
type MessagesModel struct {
	name     string
	id       string // of what goes back to this model only
	endpoint *endpoint
	failures failures
}

var _ cairn.Model = (*MessagesModel)(nil)

const providerName = "anthropic"

// Model returns the model of a name. The environment is read here, once. A mistake in name or options is reported by
// [MessagesModel.Validate], and by each call.
func Model(name string, o *Options) *MessagesModel {
	e := newEndpoint(o)
	if name == "" {
		e.refuse(cairn.CodeModelRequest, "name", "is empty")
	}
	return &MessagesModel{
		name:     name,
		id:       cairn.ModelInfo{Provider: providerName, Name: name}.ID(),
		endpoint: e,
		failures: failures{provider.Failures{Adapter: providerName, Model: name, Key: e.key}},
	}
}

// Info names the model; the provider is "anthropic" for servers of one's own too.
func (m *MessagesModel) Info() cairn.ModelInfo {
	return cairn.ModelInfo{Provider: providerName, Name: m.name}
}

// Validate reports what is wrong with the model's name or options, a missing key among it: an error that is not
// retryable and names the field. It makes no request.
func (m *MessagesModel) Validate() error {
	if m.endpoint.problem != nil {
		return m.endpoint.problem
	}
	return nil
}

// maxPauses bounds how often a reply is continued that the provider paused.
const maxPauses = 16

// Stream asks for one reply. It makes one request, and never tries again by itself, but a reply that the provider
// pauses in its own tools is continued by further requests. Errors are of CategoryModel, but for a ctx that has ended:
// then the error wraps ctx.Err().
//
// A refusal is an error of CodeFiltered with the provider's explanation. A stop reason that is not known here is the
// finish reason as it is. Files that are neither images, PDF nor text are named to the model, which cannot read them.
// A call that a request forces is made without thinking, which the API does not combine.
func (m *MessagesModel) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return func(yield func(cairn.Chunk, error) bool) {
		emit := func(c cairn.Chunk) bool { return yield(c, nil) }
		if err := m.stream(ctx, req, emit); err != nil && !errors.Is(err, errStopped) {
			yield(cairn.Chunk{}, err)
		}
	}
}

// errStopped reports that the reader wants no more chunks.
var errStopped = errors.New("stopped")

func (m *MessagesModel) stream(ctx context.Context, req *cairn.Request, emit func(cairn.Chunk) bool) error {
	if ctx.Err() != nil {
		return m.failures.Ended(ctx)
	}
	if err := m.Validate(); err != nil {
		return err
	}
	r := &reply{failures: m.failures, model: m.id, emit: emit}
	for pauses := 0; ; pauses++ {
		body, err := m.body(req, r)
		if err != nil {
			return err
		}
		if err := m.call(ctx, body, r); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return m.failures.Ended(ctx)
		}
		if !r.paused() || pauses == maxPauses {
			return r.finish()
		}
		if err := r.resume(); err != nil {
			return err
		}
	}
}

// call makes one request and feeds its answer to r.
func (m *MessagesModel) call(ctx context.Context, body []byte, r *reply) error {
	call, watch, stop := provider.WatchIdle(ctx, m.endpoint.idle)
	defer stop()
	err := m.read(call, watch, body, r)
	switch {
	case err == nil || errors.Is(err, errStopped):
		return err
	case ctx.Err() != nil:
		return m.failures.Ended(ctx)
	case errors.Is(context.Cause(call), provider.ErrIdle) && r.stopReason == "":
		return m.failures.Silent(m.endpoint.idle)
	case errors.Is(context.Cause(call), provider.ErrIdle):
		return nil // the reply was complete
	}
	return err
}

func (m *MessagesModel) read(ctx context.Context, watch *provider.Idle, body []byte, r *reply) error {
	watched := func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		res, err := next(req)
		if res != nil && res.Body != nil {
			res.Body = watch.Body(res.Body)
		}
		return res, err
	}
	var res *http.Response
	if err := m.endpoint.client.Post(ctx, "v1/messages", body, &res, option.WithMiddleware(watched)); err != nil {
		return m.failures.of(err)
	}
	defer res.Body.Close()
	switch media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media { // a malformed one counts as none
	case "text/html":
		return m.failures.Errorf(cairn.CodeModelRequest, "the server answered with a web page: is the base URL right?")
	case "application/json":
		return m.failures.Errorf(cairn.CodeModelRequest, "the server answered with a whole message in place of a stream")
	}
	events := ssestream.NewStream[event](ssestream.NewDecoder(res), nil)
	for !r.done && events.Next() {
		if err := r.event(events.Current()); err != nil {
			return err
		}
	}
	switch err := events.Err(); {
	case r.stopReason != "":
		return nil // what follows a reply's end may be missing
	case err != nil:
		return m.failures.broken(err)
	}
	return m.failures.Errorf(cairn.CodeModel, "the stream broke off before the reply was complete")
}
