package fallback_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/fallback"
	"github.com/cairn-agents/cairn/model/limit"
	"github.com/cairn-agents/cairn/model/record"
	"github.com/cairn-agents/cairn/model/scripted"
)

// counter counts the messages of a request.
type counter struct{ cairn.Model }

func (counter) CountTokens(_ context.Context, req *cairn.Request) (int64, error) {
	return int64(len(req.Messages)), nil
}

// A model that wraps another one counts tokens as the other does.
func TestWrappersCountTokens(t *testing.T) {
	t.Parallel()
	wrapped := func(m cairn.Model) cairn.Model {
		return fallback.New(nil, limit.New(record.New(m, io.Discard), limit.Options{RequestsPerMinute: 1}), scripted.New())
	}
	req := &cairn.Request{Messages: []cairn.Message{cairn.User(cairn.TextPart("Hello"))}}
	for range 3 { // counting does not use up the rate
		if n, err := cairn.CountTokens(t.Context(), wrapped(counter{scripted.New()}), req); n != 1 || err != nil {
			t.Errorf("%d tokens, %v", n, err)
		}
	}
	for _, m := range []cairn.Model{wrapped(scripted.New()), fallback.New(nil), scripted.New()} {
		if _, err := cairn.CountTokens(t.Context(), m, req); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%T: %v", m, err)
		}
	}
}

// compactor is a model whose provider compacts.
type compactor struct{ cairn.Model }

func (compactor) Compact(_ context.Context, req *cairn.Request) (cairn.Compacted, error) {
	return cairn.Compacted{Provider: []byte(`["` + req.SessionID + `"]`)}, nil
}

// A model that wraps another one compacts as the other does, unless it records.
func TestWrappersCompact(t *testing.T) {
	t.Parallel()
	req := &cairn.Request{SessionID: "s", Messages: []cairn.Message{cairn.User(cairn.TextPart("Hello"))}}
	wrapped := func(m cairn.Model) cairn.Model {
		return fallback.New(nil, limit.New(m, limit.Options{RequestsPerMinute: 100}), scripted.New())
	}
	if c, err := cairn.Compact(t.Context(), wrapped(compactor{scripted.New()}), req); string(c.Provider) != `["s"]` || err != nil {
		t.Errorf("%s, %v", c.Provider, err)
	}
	for _, m := range []cairn.Model{wrapped(scripted.New()), wrapped(record.New(compactor{scripted.New()}, io.Discard)), fallback.New(nil), scripted.New()} {
		if _, err := cairn.Compact(t.Context(), m, req); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%T: %v", m, err)
		}
	}
}
