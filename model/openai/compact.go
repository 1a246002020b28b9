package openai

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"

	"github.com/openai/openai-go/v3/option"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

var _ cairn.Compactor = (*ResponsesModel)(nil)

// maxCompacted is the maximum size in bytes of a compacted conversation that is read.
const maxCompacted = 64 << 20

// Compact implements [cairn.Compactor] by the API's endpoint for compaction. It returns the user's messages and an
// encrypted item that represents the rest.
func (m *ResponsesModel) Compact(ctx context.Context, req *cairn.Request) (cairn.Compacted, error) {
	e := m.endpoint
	var c cairn.Compacted
	switch {
	case e.Problem != nil:
		return c, e.Problem
	case ctx.Err() != nil:
		return c, e.Ended(ctx)
	}
	body, err := m.body(req)
	if err == nil {
		body, err = e.Only(body, "model", "input", "instructions", "prompt_cache_key")
	}
	if err != nil {
		return c, err
	}
	err = e.Call(ctx, func() bool { return false }, func(ctx context.Context, watch *provider.Idle) error {
		var res *http.Response
		err := e.client.Post(ctx, "responses/compact", body, &res, option.WithHeader("Accept", "application/json"))
		if err != nil {
			return e.Refused(res, err)
		}
		res.Body = watch.Body(res.Body)
		defer res.Body.Close()
		answer, err := io.ReadAll(io.LimitReader(res.Body, maxCompacted))
		if err != nil {
			return e.Broken(err)
		}
		c, err = e.compaction(answer)
		return err
	})
	return c, err
}

// compaction decodes the response of the endpoint.
func (e *endpoint) compaction(answer []byte) (c cairn.Compacted, err error) {
	var said struct {
		Output json.RawMessage `json:"output"`
		Usage  usage           `json:"usage"`
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		return c, e.Errorf(cairn.ErrModel, "decode compacted conversation: %w", err)
	}
	c.Usage = said.Usage.total()
	if c.Provider = provider.Keepable(said.Output); itemsOf(c.Provider) == nil {
		return cairn.Compacted{Usage: c.Usage}, e.Errorf(cairn.ErrModel, "the compacted conversation has no compaction item")
	}
	return c, nil
}

// itemsOf returns the items of a compacted conversation, nil for anything else.
func itemsOf(raw json.RawMessage) []any {
	var items []json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &items) != nil {
		return nil
	}
	list := make([]any, len(items))
	for i := range items {
		list[i] = items[i]
	}
	if !slices.ContainsFunc(items, func(raw json.RawMessage) bool {
		var it item
		return json.Unmarshal(raw, &it) == nil && it.Type == "compaction"
	}) {
		return nil
	}
	return list
}

// compacted returns the items that represent a summary; nil if this model's provider did not make it.
func (m *ResponsesModel) compacted(msg *cairn.Message, p *cairn.Part) []any {
	if msg.Summary == nil || p.Model != m.endpoint.ID {
		return nil
	}
	return itemsOf(p.Provider)
}
