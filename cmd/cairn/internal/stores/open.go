package stores

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// Open opens the store. It creates the store or migrates its schema if necessary.
func (at *Address) Open(ctx context.Context, now func() time.Time) (st store.Importer, err error) {
	if at.kind != inFile {
		st, err = at.openServer(ctx)
	} else {
		st, err = sqlitestore.Open(at.place, &sqlitestore.Options{Now: now})
	}
	return st, at.Explain(err)
}

// OpenExisting opens a store that must exist. It migrates a file, which has no other owner, but leaves the schema
// of a server to cairn migrate. A file that cannot be written is opened for reading: commands that write then fail.
func (at *Address) OpenExisting(ctx context.Context, a *cli.App) (store.Importer, error) {
	list, err := at.Migrations(ctx)
	if err != nil {
		return nil, err
	}
	applied := Applied(list)
	switch {
	case applied == 0 && at.kind == inFile:
		return nil, cairn.Errorf(cairn.ErrNotFound, "database %s not found", at)
	case applied < len(list) && at.kind != inFile:
		missing := fmt.Sprintf("%s has schema version %d of %d", at, applied, len(list))
		if applied == 0 {
			missing = fmt.Sprintf("%s has no Cairn tables yet", at)
		}
		return nil, at.Explain(cairn.Errorf(cairn.ErrSchema, "%s: run %s migrate up%s", missing, a.Program, at.Option()))
	}
	st, err := at.Open(ctx, a.Engine.Now)
	var readOnly *sqlitestore.ReadOnlyError
	if errors.As(err, &readOnly) {
		return sqlitestore.Open(at.place, &sqlitestore.Options{Now: a.Engine.Now, ReadOnly: true})
	}
	return st, err
}

// Migrations returns the store's migrations, applied and pending.
func (at *Address) Migrations(ctx context.Context) (list []store.Migration, err error) {
	if at.kind != inFile {
		list, err = at.serverMigrations(ctx)
	} else {
		list, err = sqlitestore.Migrations(at.place, nil)
	}
	return list, at.Explain(err)
}

// Applied returns how many of the migrations are applied.
func Applied(list []store.Migration) (n int) {
	for i := range list {
		if list[i].Applied {
			n++
		}
	}
	return n
}

// Explain adds to an error which store it is about. Errors about a file name it already.
func (at *Address) Explain(err error) error {
	if err == nil || at.kind == inFile {
		return err
	}
	return fmt.Errorf("%s: %w", at.given, err)
}
