package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/internal/torture"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/pgstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func init() { torture.Victim(openTortured) }

// serverVariable names the server that the killed processes share.
const serverVariable = "CAIRN_PGSTORE_TORTURE_SERVER"

// withBooks is a store whose tools add rows to a table in its database.
type withBooks struct {
	*pgstore.Store
	own *pgxpool.Pool
}

// openTortured opens the store as soon as there is a server. One that was killed has to replay its log before it
// serves, which may take long on a busy machine.
func openTortured(dir string) (driver.Store, error) {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv(serverVariable))
	if err != nil {
		return nil, err
	}
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var s *pgstore.Store
	_ = testclock.Poll(limit, func() bool {
		s, err = pgstore.New(ctx, pool, &pgstore.Options{Schema: torture.Name(dir), RetryFor: time.Minute})
		return !errors.Is(err, cairn.ErrUnavailable)
	})
	if err != nil {
		return nil, err
	}
	books := withBooks{s, pool}
	return books, books.again(func() error { return books.make(ctx) })
}

// again calls a function until it succeeds, since the server may be away for a while.
func (s withBooks) again(do func() error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = testclock.Poll(ctx, func() bool { err = do(); return err == nil })
	return err
}

// make makes the table. Processes that start at the same moment make it one after the other.
func (s withBooks) make(ctx context.Context) error {
	_, err := s.own.Exec(ctx, `SELECT pg_advisory_xact_lock(1); CREATE TABLE IF NOT EXISTS books (
		number bigserial PRIMARY KEY, session text, call text, n int)`)
	return err
}

func (s withBooks) Close() error {
	err := s.Store.Close()
	s.own.Close()
	return err
}

// Enter implements torture.Books.
func (s withBooks) Enter(call *cairn.Call, n int) error {
	return pgstore.Exec(call, "INSERT INTO books (session, call, n) VALUES ($1, $2, $3)", call.SessionID, call.ID, n)
}

// Entered implements torture.Books.
func (s withBooks) Entered(ctx context.Context, session string) (calls []string, numbers []int, err error) {
	const text = `SELECT coalesce(array_agg(call ORDER BY number), '{}'), coalesce(array_agg(n ORDER BY number), '{}') FROM books WHERE session = $1`
	err = s.again(func() error { return s.own.QueryRow(ctx, text, session).Scan(&calls, &numbers) })
	return calls, numbers, err
}

func TestTorture(t *testing.T) {
	t.Setenv(serverVariable, testenv.FastPostgres(t))
	torture.Run(t, openTortured)
}

func TestTortureOfALogElsewhere(t *testing.T) {
	torture.NeedsSoak(t)
	t.Setenv(serverVariable, testenv.FastPostgres(t))
	torture.RunElsewhere(t, openTortured)
}

func TestTortureWithDefaults(t *testing.T) {
	torture.NeedsSoak(t)
	t.Setenv(serverVariable, testenv.FastPostgres(t))
	torture.RunDefaults(t, openTortured)
}

// loser is a database whose schema is taken back, in one transaction, to a copy of it.
type loser struct{ *pgxpool.Pool }

// Keep implements torture.Loser.
func (l loser) Keep(ctx context.Context) error {
	return l.each(ctx, "DROP SCHEMA IF EXISTS kept CASCADE; CREATE SCHEMA kept",
		"CREATE TABLE kept.%[1]s AS TABLE tortured.%[1]s")
}

// Lose implements torture.Loser. Other transactions see either all of it or nothing.
func (l loser) Lose(ctx context.Context) error {
	return l.each(ctx, "SET LOCAL session_replication_role = replica",
		"DELETE FROM tortured.%[1]s; INSERT INTO tortured.%[1]s OVERRIDING SYSTEM VALUE TABLE kept.%[1]s")
}

// each executes a statement, and another for each of the schema's tables, while nobody writes. It does so again if the
// transaction fails over another one.
func (l loser) each(ctx context.Context, first, each string) error {
	for deadline := time.Now().Add(time.Minute); ; {
		err := pgx.BeginFunc(ctx, l.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, first); err != nil {
				return err
			}
			rows, err := tx.Query(ctx, "SELECT tablename FROM pg_tables WHERE schemaname = 'tortured' ORDER BY tablename <> 'sessions', tablename")
			if err != nil {
				return err
			}
			tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			// Writers lock a session first.
			for _, text := range []string{"LOCK TABLE tortured.%[1]s IN EXCLUSIVE MODE", each} {
				for _, name := range tables {
					if _, err := tx.Exec(ctx, fmt.Sprintf(text, name)); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// The store loses its last writes under live processes, like a replica that is promoted.
func TestTortureOfLosses(t *testing.T) {
	url := testenv.FastPostgres(t)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	torture.RunLosses(t, loser{pool}, func(string) (driver.Store, error) {
		return pgstore.Open(t.Context(), url, &pgstore.Options{Schema: "tortured"})
	})
}

// The server is killed, too, and started again at once.
func TestTortureOfTheServer(t *testing.T) {
	server := testenv.NewPostgres(t)
	t.Setenv(serverVariable, server.URL())
	torture.RunOn(t, server, openTortured)
}
