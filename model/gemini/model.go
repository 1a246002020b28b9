package gemini

import (
	"bytes"
	"context"
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// ContentModel is a model behind the Gemini API. It is safe for concurrent use.
type ContentModel struct{ endpoint *endpoint }

var (
	_ cairn.Model     = (*ContentModel)(nil)
	_ cairn.Validator = (*ContentModel)(nil)
)

// Model returns the model with a name. It reads the environment once. Mistakes in the name or the options are
// reported by [ContentModel.Validate] and by each call.
func Model(name string, o *Options) *ContentModel { return &ContentModel{newEndpoint(name, o)} }

// Info names the model. The provider is "gemini".
func (m *ContentModel) Info() cairn.ModelInfo { return m.endpoint.Info() }

// Validate returns an error for an invalid name or option of the model, such as a missing key. The error is not
// retryable and names the field. Validate makes no request.
func (m *ContentModel) Validate() error { return m.endpoint.Validate() }

// Stream asks for one reply. It makes one request and never retries. Errors are of CategoryModel, unless ctx has
// ended: then the error wraps ctx.Err().
//
// A prompt or a reply that the provider blocks is an error of ErrFiltered. An unknown finish reason is passed on
// unchanged. A stop sequence that was met is reported as FinishReasonEnd.
func (m *ContentModel) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return m.endpoint.Stream(ctx, func(emit provider.Emit) error {
		return m.endpoint.Ask(req, emit, format, func(req *cairn.Request, emit provider.Emit) error { return m.ask(ctx, req, emit) })
	})
}

// ask makes a request and emits the reply.
func (m *ContentModel) ask(ctx context.Context, req *cairn.Request, emit provider.Emit) error {
	fields, err := m.body(req)
	if err != nil {
		return err
	}
	body, err := m.endpoint.Body(fields, &cairn.Settings{})
	if err != nil {
		return err
	}
	r := &reply{failures: m.endpoint.Failures, model: m.endpoint.ID, say: emit, turn: len(req.Messages)}
	err = m.endpoint.Call(ctx, r.complete, func(ctx context.Context, watch *provider.Idle) error {
		return m.read(ctx, watch, body, r)
	})
	if err != nil {
		return err
	}
	return r.finish()
}

// read makes the request and feeds its response to r.
func (m *ContentModel) read(ctx context.Context, watch *provider.Idle, body []byte, r *reply) error {
	e := m.endpoint
	res, err := e.post(ctx, watch, "streamGenerateContent", "alt=sse", body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := e.NoStream(res, res.Body); err != nil {
		return err
	}
	reader := provider.Reader{Failures: e.Failures, Watch: watch, Event: r.received,
		Complete: r.complete, Ended: func() bool { return false }} // the end of a stream has no marker
	return reader.Read(res)
}

// post makes a request of a method of the model, and returns a response of status 200.
func (e *endpoint) post(ctx context.Context, watch *provider.Idle, method, query string, body []byte) (*http.Response, error) {
	address := e.Base.JoinPath("v1beta", e.resource()+":"+method)
	address.RawQuery = query
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(body))
	if err != nil {
		return nil, e.Errorf(cairn.ErrModelRequest, "%w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if e.Key != "" {
		req.Header.Set("X-Goog-Api-Key", e.Key)
	}
	res, err := e.Client.Do(req)
	if err != nil {
		return nil, e.Transport(err)
	}
	res.Body = watch.Body(res.Body)
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(res.Body) // the endpoint's client returns only its beginning
	res.Body = io.NopCloser(bytes.NewReader(said))
	return nil, classified(e.Answer(res))
}

// resource returns the model's name in addresses and requests.
func (e *endpoint) resource() string {
	if strings.HasPrefix(e.Model, "models/") || strings.HasPrefix(e.Model, "tunedModels/") {
		return e.Model
	}
	return "models/" + e.Model
}

// classified adds to an error what only this provider reports as a mistake of the request: an invalid key.
func classified(e *cairn.Error) *cairn.Error {
	if e.Code == cairn.ErrModelRequest && strings.Contains(e.Message, "API key") {
		e.Code = cairn.ErrAuth
	}
	return e
}
