// Package pgstore keeps sessions and events in a PostgreSQL schema. Any number of processes may share it. It needs
// PostgreSQL 13 or later and works behind a proxy that pools connections by transaction, see Options.SimpleProtocol.
//
// A commit is one statement, alone or with steps of other sessions that wait at the same moment, and durable when it is
// acknowledged, as far as the server's synchronous_commit says. So are events, unless Options.LazyEvents is set. Times
// come from the database's clock.
package pgstore

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"

	"github.com/cairn-agents/cairn/store"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Store is a store.Store in a PostgreSQL schema, with an event log of its own. It is safe for concurrent use, and so is
// the schema by several Stores in any number of processes.
type Store struct {
	database
	joiner   joiner
	log      *Log
	listener listener
	closing  sync.Once
}

var (
	_ store.Store       = (*Store)(nil)
	_ store.Sweeper     = (*Store)(nil)
	_ store.LogProvider = (*Store)(nil)
	_ store.StopWatcher = (*Store)(nil)
	_ store.Importer    = (*Store)(nil)
	_ store.Execer      = (*Store)(nil)
	_ store.Log         = (*Log)(nil)
	_ store.Fencer      = (*Log)(nil)
)

// Open connects to the database at url, which has the form that libpq knows, and brings the schema up to date, making
// it if there is none. pool_max_conns in the URL bounds the connections, which otherwise are at most 16. An account or
// database that the server refuses is ErrInvalid, a server that cannot be reached, is read-only or has no connection
// left ErrUnavailable, and a schema that is not ours, is missing although NoMigrate is set, or is from a newer version
// ErrSchema; nothing is changed then.
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

// connect makes a store with a pool of its own, and leaves the schema to the caller.
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

// New does what Open does on a pool of the caller's, which stays the caller's: Close leaves it open.
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
		_, err := s.Remove(ctx, root, store.Expired)
		return err
	}
	s.log = &Log{db: &s.database, listener: &s.listener}
	s.joiner.db = &s.database
	s.listener.db, s.listener.log = &s.database, s.log
	if o.canListen() {
		s.listener.listen = pool.Config().ConnConfig
	}
	if o.ListenURL != "" {
		config, err := parseURL("listen_url", o.ListenURL)
		if err != nil {
			return nil, err
		}
		s.listener.listen = config.ConnConfig
	}
	return s, nil
}

// EventLog returns the store's event log.
func (s *Store) EventLog() store.Log { return s.log }

// Close ends followers with ErrClosed and, if Open made the pool, waits for the calls under way and closes it. Later
// calls fail with ErrClosed.
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
	})
	return nil
}

// Dialect implements store.Execer.
func (s *Store) Dialect() string { return dialect }
