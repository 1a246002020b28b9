//go:build !demo

package stores

import (
	"context"

	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/dostore"
	"github.com/cairn-agents/cairn/store/pgstore"
	"github.com/cairn-agents/cairn/store/redisstore"
)

// openServer opens a store on a server. It creates the store or migrates its schema if necessary.
func (at *Address) openServer(ctx context.Context) (store.Importer, error) {
	switch at.kind {
	case inPostgres:
		return pgstore.Open(ctx, at.place, &pgstore.Options{Schema: at.name})
	case inObjects:
		return dostore.Open(ctx, at.place, nil)
	}
	return redisstore.Open(ctx, at.place, &redisstore.Options{Prefix: at.name})
}

// serverMigrations returns the migrations of a store on a server.
func (at *Address) serverMigrations(ctx context.Context) ([]store.Migration, error) {
	switch at.kind {
	case inPostgres:
		return pgstore.Migrations(ctx, at.place, &pgstore.Options{Schema: at.name})
	case inObjects:
		return dostore.Migrations(ctx, at.place, nil)
	}
	return redisstore.Migrations(ctx, at.place, &redisstore.Options{Prefix: at.name})
}
