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
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

// maxPlainReply bounds a reply that a server sends whole although it was asked for a stream.
const maxPlainReply = 32 << 20

// ChatModel is a model that speaks Chat Completions. It is safe for concurrent use.
type ChatModel struct {
	name     string
	endpoint *endpoint
	service  sdk.ChatCompletionService
	failures failures
	origin   json.RawMessage // marks reasoning as this server's
}

var _ cairn.Model = (*ChatModel)(nil)

// Model returns the model of a name, asked over Chat Completions. The environment is read here, once. A mistake in
// name or options is reported by each call, as an error that is not retryable and names the field.
func Model(name string, o *Options) *ChatModel {
	e := newEndpoint(o)
	if name == "" && e.problem == nil {
		e.refuse(cairn.CodeModelRequest, "name", "is empty")
	}
	origin, _ := json.Marshal(provenance{Field: reasoningContent, Host: e.host}) // strings always encode
	return &ChatModel{
		name:     name,
		endpoint: e,
		service:  sdk.NewChatCompletionService(e.options...),
		failures: failures{model: name, key: e.key},
		origin:   origin,
	}
}

// Info names the model; the provider is "openai" for compatible servers too.
func (m *ChatModel) Info() cairn.ModelInfo { return cairn.ModelInfo{Provider: "openai", Name: m.name} }

// Stream asks for one reply. It makes one request and never retries by itself. Errors are of CategoryModel, but for
// a ctx that has ended: then the error wraps ctx.Err().
//
// Two limits of the protocol show: a stop sequence that was met reads as StopEnd, and a file that is no image can be
// sent by its bytes only.
func (m *ChatModel) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return func(yield func(cairn.Chunk, error) bool) {
		emit := func(c cairn.Chunk) bool { return yield(c, nil) }
		if err := m.stream(ctx, req, emit); err != nil && !errors.Is(err, errStopped) {
			yield(cairn.Chunk{}, err)
		}
	}
}

// errStopped says that the reader wants no more chunks.
var errStopped = errors.New("stopped")

func (m *ChatModel) stream(ctx context.Context, req *cairn.Request, emit func(cairn.Chunk) bool) error {
	if ctx.Err() != nil {
		return m.failures.ended(ctx)
	}
	if m.endpoint.problem != nil {
		return m.endpoint.problem
	}
	params, err := m.params(req)
	if err != nil {
		return err
	}
	call, watch, stop := watchIdle(ctx, m.endpoint.idle)
	defer stop()
	res, err := m.send(call, params)
	if err != nil {
		return m.interrupted(ctx, call, err)
	}
	res.Body = watch.body(res.Body)
	defer res.Body.Close()
	r := &reply{failures: m.failures, origin: m.origin, emit: emit, turn: len(req.Messages)}
	if err := m.read(res, r); err != nil {
		return m.interrupted(ctx, call, err)
	}
	if ctx.Err() != nil {
		return m.failures.ended(ctx)
	}
	return r.finish()
}

// interrupted finds out whether err is but the consequence of a call that was cancelled from this side.
func (m *ChatModel) interrupted(ctx, call context.Context, err error) error {
	switch {
	case errors.Is(err, errStopped):
		return err
	case ctx.Err() != nil:
		return m.failures.ended(ctx)
	case errors.Is(context.Cause(call), errIdle):
		return m.failures.errorf(cairn.CodeOverloaded, "no byte was received for %v", m.endpoint.idle)
	}
	return err
}

// send makes the request and returns an answer of status 200.
func (m *ChatModel) send(ctx context.Context, params sdk.ChatCompletionNewParams) (*http.Response, error) {
	var res *http.Response
	_, err := m.service.New(ctx, params, option.WithResponseBodyInto(&res), option.WithMiddleware(m.check))
	var known *cairn.Error
	switch {
	case errors.As(err, &known):
		return nil, known
	case err != nil:
		return nil, m.failures.errorf(cairn.CodeModelRequest, "%w", err)
	}
	return res, nil
}

// check turns failures into errors before the SDK reads them: it expects one form of error answer, and servers have
// many.
func (m *ChatModel) check(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	if err != nil {
		return nil, m.failures.transport(err)
	}
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && media != "text/html" {
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		return nil, m.failures.errorf(cairn.CodeModelRequest, "the server answered with a web page: is the base URL right?")
	}
	return nil, m.failures.answer(res)
}

// read feeds the answer to r until it says that it is complete.
func (m *ChatModel) read(res *http.Response, r *reply) error {
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media == "application/json" {
		body, err := io.ReadAll(io.LimitReader(res.Body, maxPlainReply))
		if err != nil {
			return m.failures.errorf(cairn.CodeModel, "the reply broke off: %w", err)
		}
		return r.event("", body)
	}
	events := ssestream.NewDecoder(res)
	for !r.done && events.Next() {
		if err := r.event(events.Event().Type, events.Event().Data); err != nil {
			return err
		}
	}
	// A reply that has its end may lack what follows it: usage, [DONE], an orderly close.
	if err := events.Err(); err != nil && !r.complete() {
		return m.failures.errorf(cairn.CodeModel, "the stream broke off: %w", err)
	}
	return nil
}
