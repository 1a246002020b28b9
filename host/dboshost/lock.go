package dboshost

import (
	"context"
	"database/sql"
	"hash/fnv"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// lock waits until no other process migrates the database, and keeps others from it until unlock is called or this
// process dies. DBOS's migrations are not safe to run concurrently: most fail, and the version recorded last may not be
// the latest.
func lock(ctx context.Context, database, schema string) (unlock func(), err error) {
	if scheme, rest, ok := strings.Cut(database, ":"); ok && (strings.EqualFold(scheme, "sqlite") || strings.EqualFold(scheme, "sqlite3")) {
		return lockFile(ctx, rest)
	}
	return lockPostgres(ctx, database, schema)
}

// relock is the delay between attempts to get the lock.
const relock = 20 * time.Millisecond

// lockFile locks an empty SQLite database next to the one at path, since SQLite can lock on every system.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	path, _, _ = strings.Cut(strings.TrimPrefix(path, "//"), "?")
	path = strings.TrimPrefix(path, "file:")
	if path == "" || strings.HasPrefix(path, ":memory:") {
		return func() {}, nil
	}
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path + "-opening"}).EscapedPath()+"?_txlock=exclusive")
	if err != nil {
		return nil, err
	}
	for {
		tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
		if err == nil {
			return func() {
				_ = tx.Rollback()
				_ = db.Close()
			}, nil
		}
		if !strings.Contains(err.Error(), "database is locked") {
			_ = db.Close()
			return nil, err
		}
		if err := retry.Sleep(ctx, relock); err != nil {
			_ = db.Close()
			return nil, err
		}
	}
}

// lockPostgres takes an advisory lock in the server's database "postgres", which DBOS itself connects to in order to
// check that its own exists. It polls, since a statement that waits would block indexes created at that time.
func lockPostgres(ctx context.Context, database, schema string) (unlock func(), err error) {
	pool, err := pgxpool.ParseConfig(database)
	if err != nil { // DBOS will report what is wrong
		return func() {}, nil
	}
	config := pool.ConnConfig
	name := fnv.New64a()
	_, _ = name.Write([]byte("cairn dbos\x00" + config.Database + "\x00" + schema))
	config.Database, config.DefaultQueryExecMode = "postgres", pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	leave := func() { _ = conn.Close(context.WithoutCancel(ctx)) }
	for {
		// A transaction's lock holds behind a pooler, too.
		tx, err := conn.Begin(ctx)
		locked := false
		if err == nil {
			err = tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1)", int64(name.Sum64())).Scan(&locked)
		}
		if err != nil {
			leave()
			return nil, err
		}
		if locked {
			return leave, nil
		}
		if err = tx.Rollback(ctx); err == nil {
			err = retry.Sleep(ctx, relock)
		}
		if err != nil {
			leave()
			return nil, err
		}
	}
}
