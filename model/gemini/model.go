package gemini

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"

	"google.golang.org/genai"

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

// Validate reports what is wrong with the model's name or options, such as a missing key. The error is not
// retryable and names the field. Validate makes no request.
func (m *ContentModel) Validate() error { return m.endpoint.Validate() }

// Stream asks for one reply. It makes one request and never retries. Errors are of CategoryModel, unless ctx has
// ended: then the error wraps ctx.Err().
//
// A prompt or a reply that the provider blocks is an error of CodeFiltered. An unknown finish reason is passed on
// unchanged. A stop sequence that was met is reported as FinishReasonEnd.
func (m *ContentModel) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return m.endpoint.Stream(ctx, func(emit provider.Emit) error {
		body, err := m.body(req)
		if err != nil {
			return err
		}
		r := &reply{failures: m.endpoint.Failures, model: m.endpoint.ID, say: emit, turn: len(req.Messages)}
		err = m.endpoint.Call(ctx, r.complete, func(ctx context.Context, watch *provider.Idle) error {
			return m.read(ctx, &tap{watch: watch}, body, r)
		})
		if err != nil {
			return err
		}
		return r.finish()
	})
}

// read makes the request and feeds its response to r.
func (m *ContentModel) read(ctx context.Context, t *tap, body map[string]any, r *reply) error {
	e := m.endpoint
	config := &genai.GenerateContentConfig{HTTPOptions: &genai.HTTPOptions{
		ExtrasRequestProvider: func(map[string]any) map[string]any { return body }, // replaces what the SDK would write
	}}
	for seen, err := range e.client.Models.GenerateContentStream(withTap(ctx, t), e.Model, genai.Text("-"), config) {
		if t.res != nil && t.res.StatusCode == http.StatusOK {
			if err := e.NoStream(t.res, bytes.NewReader(t.rest)); err != nil {
				return err
			}
		}
		if err != nil {
			return e.failed(t, err, r)
		}
		data := t.next()
		if plain(seen) {
			err = r.plain(seen.Candidates[0].Content.Parts)
		} else {
			err = r.event(data)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case r.complete():
		return nil
	case t.err != nil:
		return e.Broken(t.err)
	}
	return e.Errorf(cairn.CodeModel, "the stream broke off before the reply was complete")
}

// failed returns the error for an error of the SDK.
func (e *endpoint) failed(t *tap, err error, r *reply) error {
	var said genai.APIError
	switch {
	case t.res == nil:
		return e.Transport(err)
	case t.res.StatusCode != http.StatusOK:
		t.res.Body = io.NopCloser(bytes.NewReader(t.rest))
		return classified(e.Answer(t.res))
	case t.err != nil && r.complete():
		return nil
	case t.err != nil:
		return e.Broken(t.err)
	case errors.As(err, &said):
		return classified(e.Fault(provider.ParseFault(t.next())))
	}
	return e.Errorf(cairn.CodeModel, "unintelligible event in the stream: %s", provider.Clip(string(t.next())))
}

// classified adds to an error what only this provider reports as a mistake of the request: an invalid key.
func classified(e *cairn.Error) *cairn.Error {
	if e.Code == cairn.CodeModelRequest && strings.Contains(e.Message, "API key") {
		e.Code = cairn.CodeAuth
	}
	return e
}
