package openai

import (
	"context"
	"iter"
	"net/http"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// ResponsesModel is a model behind the Responses API. It is safe for concurrent use.
type ResponsesModel struct{ endpoint *endpoint }

var (
	_ cairn.Model     = (*ResponsesModel)(nil)
	_ cairn.Validator = (*ResponsesModel)(nil)
)

// Model returns the model with a name. It reads the environment once. Mistakes in the name or the options are
// reported by [ResponsesModel.Validate] and by each call.
func Model(name string, o *Options) *ResponsesModel { return &ResponsesModel{newEndpoint(name, o)} }

// Info names the model. The provider is "openai".
func (m *ResponsesModel) Info() cairn.ModelInfo { return m.endpoint.Info() }

// Validate returns an error for an invalid name or option of the model, such as a missing key. The error is not
// retryable and names the field. Validate makes no request.
func (m *ResponsesModel) Validate() error { return m.endpoint.Validate() }

// Stream asks for one reply. It makes one request and never retries. Errors are of CategoryModel, unless ctx has
// ended: then the error wraps ctx.Err().
//
// A refusal is an error of ErrFiltered with the model's words. An unknown reason for an incomplete reply becomes
// the finish reason unchanged. Stop sequences are rejected, because the API has none. Of images that are neither
// PNG, JPEG, GIF nor WebP the model is given a description, since it cannot read them.
func (m *ResponsesModel) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return m.endpoint.Stream(ctx, func(emit provider.Emit) error {
		return m.endpoint.Ask(req, emit, format, func(req *cairn.Request, emit provider.Emit) error { return m.ask(ctx, req, emit) })
	})
}

// ask makes a request and emits the reply.
func (m *ResponsesModel) ask(ctx context.Context, req *cairn.Request, emit provider.Emit) error {
	body, err := m.body(req)
	if err != nil {
		return err
	}
	r := &reply{failures: m.endpoint.Failures, model: m.endpoint.ID, say: emit, clients: clients(req.Tools)}
	err = m.endpoint.Call(ctx, r.complete, func(ctx context.Context, watch *provider.Idle) error { return m.read(ctx, watch, body, r) })
	if err != nil {
		return err
	}
	return r.finish()
}

// read makes the request and feeds its response to r.
func (m *ResponsesModel) read(ctx context.Context, watch *provider.Idle, body []byte, r *reply) error {
	e := m.endpoint
	var res *http.Response
	if err := e.client.Post(ctx, "responses", body, &res); err != nil {
		return e.Refused(res, err)
	}
	res.Body = watch.Body(res.Body)
	defer res.Body.Close()
	if err := e.NoStream(res, res.Body); err != nil {
		return err
	}
	reader := provider.Reader{Failures: e.Failures, Watch: watch, Event: r.received, Complete: r.complete, Ended: r.complete}
	return reader.Read(res)
}
