package anthropic

import (
	"context"
	"errors"
	"iter"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// MessagesModel is a model that speaks the Messages API. It is safe for concurrent use.
type MessagesModel struct{ endpoint *endpoint }

var _ cairn.Model = (*MessagesModel)(nil)

const providerName = "anthropic"

// Model returns the model of a name. The environment is read here, once. A mistake in name or options is reported by
// [MessagesModel.Validate], and by each call.
func Model(name string, o *Options) *MessagesModel { return &MessagesModel{newEndpoint(name, o)} }

// Info names the model; the provider is "anthropic" for servers of one's own too.
func (m *MessagesModel) Info() cairn.ModelInfo { return m.endpoint.Info() }

// Validate reports what is wrong with the model's name or options, a missing key among it: an error that is not
// retryable and names the field. It makes no request.
func (m *MessagesModel) Validate() error { return m.endpoint.Validate() }

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
	return m.endpoint.Stream(ctx, func(emit provider.Emit) error {
		r := &reply{failures: m.endpoint.Failures, model: m.endpoint.ID, say: emit}
		for pauses := 0; ; pauses++ {
			body, err := m.body(req, r)
			if err != nil {
				return err
			}
			complete := func() bool { return r.stopReason != "" }
			err = m.endpoint.Call(ctx, complete, func(ctx context.Context, watch *provider.Idle) error { return m.read(ctx, watch, body, r) })
			if err != nil {
				return err
			}
			if !r.paused() || pauses == maxPauses {
				return r.finish()
			}
			if err := r.resume(); err != nil {
				return err
			}
		}
	})
}

// read makes a request and feeds its answer to r.
func (m *MessagesModel) read(ctx context.Context, watch *provider.Idle, body []byte, r *reply) error {
	e := m.endpoint
	var res *http.Response
	if err := e.client.Post(ctx, "v1/messages", body, &res); err != nil {
		return e.Refused(res, err)
	}
	res.Body = watch.Body(res.Body)
	defer res.Body.Close()
	if err := e.NoStream(res, res.Body); err != nil {
		return err
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
		return e.broken(err)
	}
	return e.Errorf(cairn.CodeModel, "the stream broke off before the reply was complete")
}

// broken is the error that one of the SDK stands for, in a stream.
func (e *endpoint) broken(err error) error {
	if said, ok := errors.AsType[*anthropic.Error](err); ok {
		return e.Fault(provider.ParseFault([]byte(said.RawJSON())))
	}
	return e.Broken(err)
}
