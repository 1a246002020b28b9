package main

import (
	"context"
	"net/url"

	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/pgstore"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresDatabase is the database of one system.
type postgresDatabase struct {
	url  string
	dir  string // directory of the server's socket
	name string
	pool *pgxpool.Pool // pool of the harness and of the floor
}

// newDatabase creates a database on a server. Its pool, like that of each system, has a connection for each writer.
func newDatabase(ctx context.Context, s *testenv.PostgresServer, name string, writers int) (*postgresDatabase, error) {
	admin, err := pgxpool.New(ctx, s.URL())
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	if _, err := admin.Exec(ctx, `CREATE DATABASE "`+name+`"`); err != nil {
		return nil, err
	}
	at, err := url.Parse(s.URL())
	if err != nil {
		return nil, err
	}
	at.Path = "/" + name
	config, err := pgxpool.ParseConfig(at.String())
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(writers)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	return &postgresDatabase{url: at.String(), dir: s.Dir, name: name, pool: pool}, err
}

// stored returns the size of the tables in bytes, with their indexes and without dead rows.
func (d *postgresDatabase) stored(ctx context.Context) (sum int64, err error) {
	rows, err := d.pool.Query(ctx, `SELECT format('%I.%I', schemaname, relname) FROM pg_stat_user_tables`)
	if err != nil {
		return 0, err
	}
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return 0, err
		}
		tables = append(tables, name)
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	for _, name := range tables {
		if _, err := d.pool.Exec(ctx, "VACUUM FULL "+name); err != nil {
			return 0, err
		}
	}
	err = d.pool.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::bigint FROM pg_stat_user_tables`).Scan(&sum)
	return sum, err
}

func newCairnOnPostgres(ctx context.Context, c *conversation, db *postgresDatabase) (*cairnSystem, error) {
	st, err := pgstore.New(ctx, db.pool, nil)
	if err != nil {
		return nil, err
	}
	return &cairnSystem{conversation: c, store: st, bytes: db.stored}, nil
}
