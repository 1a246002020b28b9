package openai

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"mime"
	"net/http"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// ChatModel is a model that speaks Chat Completions. It is safe for concurrent use.
type ChatModel struct {
	name     string
	endpoint *endpoint
	failures failures
	origin   json.RawMessage // marks reasoning as this server's
	id       string          // marks it as this model's
}

var (
	_ cairn.Model     = (*ChatModel)(nil)
	_ cairn.Validator = (*ChatModel)(nil)
)

// Model returns the model of a name, asked over Chat Completions. The environment is read here, once. A mistake in
// name or options, such as a missing key, is reported by [ChatModel.Validate], which engine.New calls, and by each call, as
// an error that is not retryable and names the field.
func Model(name string, o *Options) *ChatModel {
	e := newEndpoint(o)
	if name == "" && e.problem == nil {
		e.refuse(cairn.CodeModelRequest, "name", "is empty")
	}
	origin, _ := json.Marshal(provenance{Field: reasoningContent, Host: e.host}) // strings always encode
	return &ChatModel{
		name:     name,
		endpoint: e,
		failures: failures{provider.Failures{Adapter: providerName, Model: name, Key: e.key}},
		origin:   origin,
		id:       cairn.ModelInfo{Provider: providerName, Name: name}.ID(),
	}
}

const providerName = "openai"

// Info names the model; the provider is "openai" for compatible servers too.
func (m *ChatModel) Info() cairn.ModelInfo {
	return cairn.ModelInfo{Provider: providerName, Name: m.name}
}

// Validate implements cairn.Validator: it reports a mistake in the model's name or options. A missing key is one only for
// OpenAI's own API.
func (m *ChatModel) Validate() error {
	if m.endpoint.problem != nil {
		return m.endpoint.problem
	}
	return nil
}

// Stream asks for one reply. It makes one request and never retries by itself. Errors are of CategoryModel, but for
// a ctx that has ended: then the error wraps ctx.Err().
//
// Two limits of the protocol are visible: a stop sequence that was met is reported as FinishReasonEnd, and a file that
// is no image can be sent by its bytes only.
func (m *ChatModel) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return func(yield func(cairn.Chunk, error) bool) {
		emit := func(c cairn.Chunk) bool { return yield(c, nil) }
		if err := m.stream(ctx, req, emit); err != nil && !errors.Is(err, errStopped) {
			yield(cairn.Chunk{}, err)
		}
	}
}

// errStopped reports that the reader wants no more chunks.
var errStopped = errors.New("stopped")

func (m *ChatModel) stream(ctx context.Context, req *cairn.Request, emit func(cairn.Chunk) bool) error {
	if ctx.Err() != nil {
		return m.failures.Ended(ctx)
	}
	if m.endpoint.problem != nil {
		return m.endpoint.problem
	}
	body, err := m.body(req)
	if err != nil {
		return err
	}
	call, watch, stop := provider.WatchIdle(ctx, m.endpoint.idle)
	defer stop()
	res, err := m.send(call, body)
	if err != nil {
		return m.interrupted(ctx, call, err)
	}
	res.Body = watch.Body(res.Body)
	defer res.Body.Close()
	r := &reply{failures: m.failures, origin: m.origin, model: m.id, emit: emit, turn: len(req.Messages)}
	if err := m.read(res, r); err != nil {
		return m.interrupted(ctx, call, err)
	}
	if ctx.Err() != nil {
		return m.failures.Ended(ctx)
	}
	return r.finish()
}

// interrupted reports whether err only follows from a call that was cancelled on this side.
func (m *ChatModel) interrupted(ctx, call context.Context, err error) error {
	switch {
	case errors.Is(err, errStopped):
		return err
	case ctx.Err() != nil:
		return m.failures.Ended(ctx)
	case errors.Is(context.Cause(call), provider.ErrIdle):
		return m.failures.Silent(m.endpoint.idle)
	}
	return err
}

// send makes the request and returns an answer of status 200.
func (m *ChatModel) send(ctx context.Context, body []byte) (*http.Response, error) {
	req, err := m.endpoint.post(ctx, "chat/completions", body)
	if err != nil {
		return nil, m.failures.Errorf(cairn.CodeModelRequest, "%w", err)
	}
	res, err := m.endpoint.client.Do(req)
	if err != nil {
		return nil, m.failures.Transport(err)
	}
	page := mediaType(res) == "text/html"
	if res.StatusCode == http.StatusOK && !page {
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		return nil, m.failures.Errorf(cairn.CodeModelRequest, "the server answered with a web page: is the base URL right?")
	}
	return nil, m.failures.answer(res)
}

// mediaType returns an answer's content type without its parameters.
func mediaType(res *http.Response) string {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")) // a malformed one counts as none
	return media
}

// read feeds the answer to r until it says that it is complete.
func (m *ChatModel) read(res *http.Response, r *reply) error {
	if mediaType(res) == "application/json" {
		body, err := io.ReadAll(io.LimitReader(res.Body, maxEvent))
		if err != nil {
			return m.failures.Errorf(cairn.CodeModel, "the reply broke off: %w", err)
		}
		return r.event("", body)
	}
	events := newEvents(res.Body)
	for !r.done {
		kind, data, err := events.next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil && r.complete():
			return nil // what follows a reply's end may be missing: usage, [DONE], an orderly close
		case err != nil:
			return m.failures.Errorf(cairn.CodeModel, "the stream broke off: %w", err)
		}
		if err := r.event(kind, data); err != nil {
			return err
		}
	}
	return nil
}
