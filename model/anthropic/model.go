package anthropic

import (
	"context"
	"iter"
	"net/http"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// MessagesModel is a model behind the Messages API. It is safe for concurrent use.
type MessagesModel struct{ endpoint *endpoint }

var _ cairn.Model = (*MessagesModel)(nil)

// Model returns the model with a name. It reads the environment once. Mistakes in the name or the options are
// reported by [MessagesModel.Validate] and by each call.
func Model(name string, o *Options) *MessagesModel { return &MessagesModel{newEndpoint(name, o)} }

// Info names the model. The provider is "anthropic", for compatible servers too.
func (m *MessagesModel) Info() cairn.ModelInfo { return m.endpoint.Info() }

// Validate returns an error for an invalid name or option of the model, such as a missing key. The error is not
// retryable and names the field. Validate makes no request.
func (m *MessagesModel) Validate() error { return m.endpoint.Validate() }

// maxPauses bounds how often a reply is continued after the provider paused it.
const maxPauses = 16

// Stream asks for one reply. It makes one request and never retries. A reply that the provider pauses in its own
// tools is continued by further requests. Errors are of CategoryModel, unless ctx has ended: then the error wraps
// ctx.Err().
//
// A refusal is an error of ErrFiltered with the provider's explanation. An unknown stop reason becomes the finish
// reason unchanged. Of files that are neither images, PDF nor text the model is given a description, since it
// cannot read them. The API does not combine thinking with a forced call: a request with both asks for the call in
// words.
func (m *MessagesModel) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return m.endpoint.Stream(ctx, func(emit provider.Emit) error {
		return m.endpoint.Ask(req, emit, format, func(req *cairn.Request, emit provider.Emit) error { return m.ask(ctx, req, emit) })
	})
}

// ask makes a request and emits the reply.
func (m *MessagesModel) ask(ctx context.Context, req *cairn.Request, emit provider.Emit) error {
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
}

// read makes a request and feeds its response to r.
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
	reader := provider.Reader{Failures: e.Failures, Watch: watch, Event: r.received,
		Complete: func() bool { return r.stopReason != "" }, Ended: func() bool { return r.done }}
	return reader.Read(res)
}
