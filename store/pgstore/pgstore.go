// Package pgstore keeps sessions and events in a PostgreSQL schema. Any number of processes may share it. It needs
// PostgreSQL 13 or later and works behind a proxy that pools connections by transaction, see Options.SimpleProtocol.
//
// A commit takes one statement. Steps of other sessions that are pending at the same moment may share the statement.
// When a commit is acknowledged, it is durable with its events, as far as the server's synchronous_commit setting
// ensures it. So is an append to the event log, unless Options.LazyEvents is set. Times come from the database's clock.
package pgstore

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"

	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const _ = driver.Version1 // the contract that this store was written for

// Store is a driver.Store in a PostgreSQL schema, with an event log of its own. It is safe for concurrent use, and any
// number of Stores in any number of processes may use the same schema.
type Store struct {
	database
	joiner   joiner
	log      *Log
	listener listener
	notifier notifier
	closing  sync.Once
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.Sweeper     = (*Store)(nil)
	_ driver.LogProvider = (*Store)(nil)
	_ driver.StopWatcher = (*Store)(nil)
	_ driver.Importer    = (*Store)(nil)
	_ driver.Execer      = (*Store)(nil)
	_ driver.Log         = (*Log)(nil)
	_ driver.Fencer      = (*Log)(nil)
)

// Open connects to the database at url, a libpq connection string, and brings the schema up to date, creating it if it
// does not exist. pool_max_conns in the URL limits the number of connections; the default is 16. Two more are outside
// of the pool: one notifies other processes of events and stop requests, and one listens while there are followers or
// watches. The error is ErrInvalid for an account or database that the server refuses. It is ErrUnavailable for a
// server that cannot be reached, is read-only or has no connection left. It is ErrSchema, and nothing is changed, for a
// schema that belongs to another application, was made by an unreleased build, or is missing although NoMigrate is set.
// It is also ErrSchema for a newer version that does not allow this build, see [driver.Migration].
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	s, err := connect(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	if err := s.prepareSchema(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// connect makes a store with its own pool. The caller prepares the schema.
func connect(ctx context.Context, url string, opts *Options) (*Store, error) {
	config, err := parseURL("url", url)
	if err != nil {
		return nil, err
	}
	if opts != nil && opts.SimpleProtocol {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	}
	if !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = defaultConnections
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fault("open", err)
	}
	s, err := newStore(pool, opts)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.ownsPool = true
	return s, nil
}

// New is like Open, on an existing pool. The caller keeps the pool: Close leaves it open.
func New(ctx context.Context, pool *pgxpool.Pool, opts *Options) (*Store, error) {
	s, err := newStore(pool, opts)
	if err != nil {
		return nil, err
	}
	if err := s.prepareSchema(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func newStore(pool *pgxpool.Pool, opts *Options) (*Store, error) {
	simple := pool.Config().ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol
	o, err := opts.withDefaults(simple)
	if err != nil {
		return nil, err
	}
	s := &Store{database: database{opts: o, pool: pool, origin: rand.Text()}}
	s.texts.schema = pgx.Identifier{o.Schema}.Sanitize()
	s.expire = func(ctx context.Context, root string) error {
		_, err := s.Remove(ctx, root, driver.Expired)
		return err
	}
	s.log = &Log{db: &s.database, listener: &s.listener, notifier: &s.notifier}
	s.joiner.db = &s.database
	s.listener.db, s.listener.log = &s.database, s.log
	s.notifier.db, s.notifier.hurry = &s.database, make(chan struct{}, 1)
	if o.canListen() {
		s.listener.dial = s.dial
	}
	if o.ListenURL != "" {
		config, err := parseURL("listen_url", o.ListenURL)
		if err != nil {
			return nil, err
		}
		s.listener.dial = func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.ConnConfig.Copy()) }
	}
	return s, nil
}

// EventLog returns the store's event log.
func (s *Store) EventLog() driver.Log { return s.log }

// Self implements driver.Store.
func (s *Store) Self() driver.Store { return s }

// Close ends followers with ErrClosed. If Open made the pool, Close waits for the calls in progress and closes the
// pool. It gives pending notifications to other processes a second. Later calls fail with ErrClosed.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.closed.Store(true)
		s.listener.close()
		s.listener.hub.WakeAll()
		s.listener.stops.Raise()
		s.joiner.wait()
		if s.ownsPool {
			s.pool.Close()
		}
		s.notifier.close()
	})
	return nil
}

// Dialect implements driver.Execer.
func (s *Store) Dialect() string { return dialect }
