package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/cairn-agents/cairn"
)

// Count returns the number of tokens of a request, as determined by ask. Compatible servers may lack that part of
// the provider's API: once a server has refused to count, it is not asked again and the error is
// errors.ErrUnsupported.
func (e *Endpoint) Count(ctx context.Context, ask func(context.Context) (int64, error)) (int64, error) {
	switch {
	case e.Problem != nil:
		return 0, e.Problem
	case ctx.Err() != nil:
		return 0, e.Ended(ctx)
	case e.uncounted.Load():
		return 0, fmt.Errorf("%s: %w", e.ID, errors.ErrUnsupported)
	}
	n, err := ask(ctx)
	switch {
	case ctx.Err() != nil:
		return 0, e.Ended(ctx)
	case err == nil && n <= 0:
		err = e.Errorf(cairn.ErrModelRequest, "response has no token count")
	}
	if errors.Is(err, &cairn.Error{Code: cairn.ErrModelRequest}) || errors.Is(err, &cairn.Error{Code: cairn.ErrModelNotFound}) {
		e.uncounted.Store(true)
	}
	return n, err
}

// Counted decodes the number of tokens in a response, in the form of Anthropic and OpenAI. res may be nil if err is
// set.
func (f Failures) Counted(res *http.Response, err error) (int64, error) {
	if err != nil {
		return 0, f.Refused(res, err)
	}
	defer res.Body.Close()
	var counted struct {
		InputTokens int64 `json:"input_tokens"`
	}
	if err := json.NewDecoder(res.Body).Decode(&counted); err != nil {
		return 0, f.Errorf(cairn.ErrModelRequest, "decode token count: %w", err)
	}
	return counted.InputTokens, nil
}

// Only returns a request reduced to some fields, for APIs that accept no others.
func (f Failures) Only(body []byte, names ...string) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, f.Errorf(cairn.ErrModelRequest, "decode request: %w", err)
	}
	some := map[string]any{}
	for _, name := range names {
		if value, ok := all[name]; ok {
			some[name] = value
		}
	}
	return f.Body(some, &cairn.Settings{})
}
