package engine

import (
	"context"
	"encoding/json"

	"github.com/cairn-agents/cairn/host"
)

// ForHost returns the engine as a host calls it. Applications do not need it.
func (e *Engine) ForHost() host.Engine { return forHost{e} }

type forHost struct{ e *Engine }

func (h forHost) Effect(ctx context.Context, name string, in json.RawMessage) (json.RawMessage, error) {
	return h.e.effect(ctx, name, in)
}

func (h forHost) ReleaseRun(ctx context.Context, at host.Position) error {
	return h.e.releaseRun(ctx, at)
}

func (h forHost) Hold(ctx context.Context, at host.Position, do func(context.Context) error) error {
	return h.e.hold(ctx, at, do)
}
