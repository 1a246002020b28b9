package sessions

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/named"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

// flags are the flags that all commands share.
type flags struct {
	At   stores.Tenanted `embed:""`
	JSON bool            `name:"json" help:"Print JSON: one document, but for events --follow, which prints one event per line."`
}

// one is the argument of commands about one session.
type one struct {
	Session string `arg:"" help:"The session's id or its beginning."`
}

// inspect calls do with an engine on the store, once id is the whole id of a session that it names or begins.
func (all *flags) inspect(a *cli.App, id *string, do func(context.Context, *engine.Engine) error) error {
	return all.inspectStore(a, id, func(ctx context.Context, _ store.Importer, eng *engine.Engine) error { return do(ctx, eng) })
}

// inspectStore is inspect with the store itself.
func (all *flags) inspectStore(a *cli.App, id *string, do func(context.Context, store.Importer, *engine.Engine) error) error {
	return all.At.InspectStore(a, func(ctx context.Context, st store.Importer, eng *engine.Engine) (err error) {
		if *id, err = all.At.ID("session", *id); err != nil {
			return err
		}
		if *id, err = named.Session(ctx, eng, *id); err != nil {
			return err
		}
		return do(ctx, st, eng)
	})
}

// printed returns a copy of a session for output, without the fields that only serve to publish its events.
func printed(s *cairn.Session) *cairn.Session {
	own := *s
	own.Outbox = nil
	return &own
}

// report prints a session after a change: as JSON, or in words.
func (all *flags) report(a *cli.App, s *cairn.Session, format string, args ...any) error {
	if all.JSON {
		return output.JSON(a.Stdout, printed(s))
	}
	_, err := fmt.Fprintf(a.Stdout, format+"\n", args...)
	return err
}
