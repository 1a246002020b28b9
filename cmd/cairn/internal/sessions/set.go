package sessions

import (
	"context"
	"encoding/json"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

type setCmd struct {
	one
	User     *string           `help:"The user who owns the session and those of its sub-agents and companions; empty for none."`
	Title    *string           `help:"The session's title; empty removes it."`
	Tag      []string          `xor:"tags" help:"The session's tags, instead of its current ones."`
	NoTags   bool              `xor:"tags" help:"Remove all tags."`
	Metadata map[string]string `placeholder:"KEY=VALUE" help:"Set an entry of the metadata to a text; an empty one removes it."`
	JSON     string            `name:"metadata-json" placeholder:"OBJECT" help:"Set entries of the metadata to JSON values, such as '{\"seats\":3}'; null removes one."`
	Expires  *time.Time        `xor:"expiry" placeholder:"TIME" help:"When the session expires regardless of use, such as 2030-01-31T12:00:00Z."`
	NoExpiry bool              `xor:"expiry" help:"Remove the expiry."`
}

// Run changes a session's user, title, tags, metadata or expiry.
func (cmd *setCmd) Run(a *cli.App, all *flags) error {
	change := store.ContextChange{UserID: cmd.User, Title: cmd.Title, ExpiresAt: cmd.Expires}
	var err error
	if change.Metadata, err = metadata(cmd.Metadata, cmd.JSON); err != nil {
		return err
	}
	if len(cmd.Tag) > 0 || cmd.NoTags {
		change.Tags = &cmd.Tag
	}
	if cmd.NoExpiry {
		change.ExpiresAt = &time.Time{}
	}
	if change.UserID == nil && change.Title == nil && change.Tags == nil && len(change.Metadata) == 0 && change.ExpiresAt == nil {
		return cli.Misuse("set: one of --user, --title, --tag, --metadata, --metadata-json or --expires is required")
	}
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.SetContext(ctx, cmd.Session, change)
		if err != nil {
			return err
		}
		return all.report(a, s, "Changed session %s.", s.ID)
	})
}

type archiveCmd struct{ one }

// Run archives a session.
func (cmd *archiveCmd) Run(a *cli.App, all *flags) error {
	return cmd.archive(a, all, true, "Archived session %s.")
}

type unarchiveCmd struct{ one }

// Run makes an archived session current.
func (cmd *unarchiveCmd) Run(a *cli.App, all *flags) error {
	return cmd.archive(a, all, false, "Session %s is current.")
}

func (cmd *one) archive(a *cli.App, all *flags, archived bool, report string) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.SetContext(ctx, cmd.Session, store.ContextChange{Archived: &archived})
		if err != nil {
			return err
		}
		return all.report(a, s, report, s.ID)
	})
}

// metadata returns the entries given as texts and as one JSON object.
func metadata(texts map[string]string, object string) (m cairn.Metadata, err error) {
	if object != "" {
		if err := json.Unmarshal([]byte(object), &m); err != nil {
			return nil, cli.Misuse("--metadata-json: %v", err)
		}
	}
	for key, text := range texts {
		if _, ok := m[key]; ok {
			return nil, cli.Misuse("--metadata: duplicate entry %q, also set by --metadata-json", key)
		}
		if m == nil {
			m = cairn.Metadata{}
		}
		m[key] = text
	}
	return m, nil
}
