package openaichat

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"mime"
	"net/http"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// ChatModel is a model behind Chat Completions. It is safe for concurrent use.
type ChatModel struct {
	endpoint *endpoint
	origin   json.RawMessage // marks reasoning as this server's
	listed   json.RawMessage // the same for reasoning in a list
}

var (
	_ cairn.Model     = (*ChatModel)(nil)
	_ cairn.Validator = (*ChatModel)(nil)
)

// Model returns the model with a name, called over Chat Completions. It reads the environment once. Mistakes in the
// name or the options, such as a missing key, are reported by [ChatModel.Validate], which engine.New calls, and by
// each call. The error is not retryable and names the field.
func Model(name string, o *Options) *ChatModel {
	e := newEndpoint(name, o)
	return &ChatModel{e, kept{Field: reasoningContent, Host: e.host}.raw(), kept{Field: thinkingList, Host: e.host}.raw()}
}

// Info names the model. The provider is "openai-chat", for compatible servers too.
func (m *ChatModel) Info() cairn.ModelInfo { return m.endpoint.Info() }

// Validate implements cairn.Validator. It reports a mistake in the model's name or options. A missing key is a
// mistake for OpenAI's own API only.
func (m *ChatModel) Validate() error { return m.endpoint.Validate() }

// Stream asks for one reply. It makes one request and never retries. Errors are of CategoryModel, unless ctx has
// ended: then the error wraps ctx.Err(). A refusal is an error of ErrFiltered with the model's words.
//
// Two limits of the protocol are visible. A stop sequence that was met is reported as FinishReasonEnd. A file that
// is not an image can only be sent by its bytes.
func (m *ChatModel) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return m.endpoint.Stream(ctx, func(emit provider.Emit) error {
		return m.endpoint.Ask(req, emit, format, func(req *cairn.Request, emit provider.Emit) error { return m.ask(ctx, req, emit) })
	})
}

// ask makes a request and emits the reply.
func (m *ChatModel) ask(ctx context.Context, req *cairn.Request, emit provider.Emit) error {
	body, err := m.body(req)
	if err != nil {
		return err
	}
	r := &reply{failures: m.endpoint.Failures, host: m.endpoint.host, origin: m.origin, listed: m.listed, model: m.endpoint.ID, say: emit, turn: len(req.Messages)}
	err = m.endpoint.Call(ctx, r.complete, func(ctx context.Context, watch *provider.Idle) error {
		res, err := m.send(ctx, body)
		if err != nil {
			return err
		}
		res.Body = watch.Body(res.Body)
		defer res.Body.Close()
		return m.read(res, watch, r)
	})
	if err != nil {
		return err
	}
	return r.finish()
}

// send makes the request and returns a response of status 200.
func (m *ChatModel) send(ctx context.Context, body []byte) (*http.Response, error) {
	req, err := m.endpoint.post(ctx, "chat/completions", body)
	if err != nil {
		return nil, m.endpoint.Errorf(cairn.ErrModelRequest, "%w", err)
	}
	res, err := m.endpoint.Client.Do(req)
	if err != nil {
		return nil, m.endpoint.Transport(err)
	}
	page := mediaType(res) == "text/html"
	if res.StatusCode == http.StatusOK && !page {
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		return nil, m.endpoint.Errorf(cairn.ErrModelRequest, "the server responded with a web page; check the base URL")
	}
	return nil, m.endpoint.Answer(res)
}

// mediaType returns a response's content type without its parameters.
func mediaType(res *http.Response) string {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")) // a malformed one counts as none
	return media
}

// read feeds the response to r until the reply is complete.
func (m *ChatModel) read(res *http.Response, watch *provider.Idle, r *reply) error {
	if mediaType(res) == "application/json" {
		body, err := io.ReadAll(io.LimitReader(res.Body, provider.MaxEvent))
		if err != nil {
			return m.endpoint.Errorf(cairn.ErrModel, "the reply ended unexpectedly: %w", err)
		}
		return r.event("", body)
	}
	reader := provider.Reader{Failures: m.endpoint.Failures, Watch: watch, Event: r.event,
		Complete: r.complete, Ended: func() bool { return r.done }, Settled: r.settled}
	return reader.Read(res)
}
