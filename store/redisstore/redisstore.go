// Package redisstore keeps sessions and events in Redis 7 or newer, a single server or a Redis Cluster. Any number of
// processes may share it.
//
// # What is atomic
//
// A commit is planned here, from the row that this process knows or reads, and written by one script, which compares
// what the commit depends on and answers the row that is there instead if that does not hold; then the commit is
// planned again. With a row that is known, or for a new session, it is one round trip. Everything of a session tree is
// under one hash tag, that of its root's bucket, and so are the indexes that List, Calls and Due read. On a server by
// itself there is one bucket, so every list is exact at every moment. On a Redis Cluster there are 64, spread over its
// nodes: each bucket is exact, and a list puts together what the buckets held one after the other. A child is found by
// its id through a note in the id's own bucket, and by a process that has seen it without that: only the first commit
// of a child, and the first look a process takes at one, cost a second round trip on a cluster.
//
// A removal hides a whole tree with its log in one script, which gives their keys other names. It takes two round
// trips: what the first one saw must still be so. A purge removes some hundred keys at a time.
//
// A commit whose answer is lost is sent again and recognised, so it is not applied twice. That holds for removals and
// for appends to the event log, too: those of a writer that does not number its batches are numbered here.
//
// # What survives
//
// That depends on the server. What has been acknowledged survives the death of this process in any case. It survives
// that of the server
//
//   - with "appendonly yes" and "appendfsync always": always; each write waits for the disk
//   - with "appendfsync everysec": if only the process of the server dies; the last two seconds may be lost with the
//     machine
//   - with snapshots alone, or none: what the last snapshot has
//
// A replica that takes the place of a primary may lack the last writes, whatever the settings. Where that is not
// acceptable, disable automatic failover. The server must not evict keys: Open refuses one whose maxmemory-policy lets
// it evict keys that do not expire.
//
// The store needs the commands of its data types, EVALSHA, EVAL, PUBLISH, SUBSCRIBE, TIME and INFO, for keys and
// channels that begin with its prefix and a colon. Connections use database 0 on a cluster.
package redisstore

import (
	"context"
	"hash/crc32"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/tail"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/redis/go-redis/v9"
)

// Options tune a Store. The zero value and nil mean the defaults.
type Options struct {
	// Prefix begins the names of all keys, before a colon; empty means "cairn". Stores of different prefixes share
	// nothing.
	Prefix string
	// MaxEvent is the maximum size of an encoded event in bytes; 0 means store.DefaultMaxEvent.
	MaxEvent int
	// Retention is how long the server keeps what is left of a session tree that was removed, because it was deleted or
	// had expired; then the server purges it by itself, with or without a sweeper. 0 means that it stays until it is
	// purged by a sweep, which is when engine.Options.Retention is over; what goes earlier is in no sweep's report.
	// Sessions that have expired, but that no sweep has removed, stay.
	Retention time.Duration
	// EventRetention is how long the server keeps a log's events after the last one was appended; readers get
	// ErrTrimmed then. 0 means that events stay until they are trimmed or dropped.
	EventRetention time.Duration
	// Connections bounds the connections to each server, but for one more that listens; 0 means 10 for each processor.
	Connections int
	// Logger receives what the Redis client logs, such as lost connections; nil means that nothing is logged. The
	// client knows one logger for the whole process: that of the Store that was opened last with one.
	Logger *slog.Logger
}

// withDefaults returns a copy of o with its zero fields filled in, or what is wrong with it.
func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	switch {
	case strings.ContainsAny(out.Prefix, "{}*?[]\\ \n\r"):
		return out, cairn.Invalid("prefix", "%q has white space or one of {}*?[]\\", out.Prefix)
	case out.MaxEvent < 0:
		return out, cairn.Invalid("max_event", "%d is negative", out.MaxEvent)
	case out.Retention < 0:
		return out, cairn.Invalid("retention", "%s is negative", out.Retention)
	case out.EventRetention < 0:
		return out, cairn.Invalid("event_retention", "%s is negative", out.EventRetention)
	case out.Connections < 0:
		return out, cairn.Invalid("connections", "%d is negative", out.Connections)
	}
	if out.Prefix == "" {
		out.Prefix = "cairn"
	}
	if out.MaxEvent == 0 {
		out.MaxEvent = store.DefaultMaxEvent
	}
	return out, nil
}

// Store is a store.Store in Redis, with an event log of its own. It is safe for concurrent use, and so are the keys by
// several Stores in any number of processes.
type Store struct {
	url     string
	opts    Options
	client  redis.UniversalClient
	buckets []string // what the names of each bucket's keys begin with
	keys    []any    // the same, as arguments
	routes  routes
	known   backend.Known[record] // as commits of this process left the rows
	log     *Log
	hub     tail.Hub
	news    news

	// intercept, if tests set it, is asked before each call of a script.
	intercept func(name string) error

	closing  sync.Once
	closed   chan struct{}
	closeErr error
}

var (
	_ store.Store       = (*Store)(nil)
	_ store.Sweeper     = (*Store)(nil)
	_ store.LogProvider = (*Store)(nil)
	_ store.StopWatcher = (*Store)(nil)
	_ store.Importer    = (*Store)(nil)
	_ store.Log         = (*Log)(nil)
	_ store.Fencer      = (*Log)(nil)
)

// EventLog returns the store's event log.
func (s *Store) EventLog() store.Log { return s.log }

// Close ends followers with ErrClosed and closes the connections. Later calls fail with ErrClosed.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.closed)
		s.news.close()
		s.hub.WakeAll()
		s.closeErr = fault("close", s.client.Close())
	})
	return s.closeErr
}

// bucketOf returns the bucket of what is named after a root or a log.
func (s *Store) bucketOf(name string) int {
	if len(s.buckets) == 1 {
		return 0
	}
	return int(crc32.ChecksumIEEE([]byte(name)) % uint32(len(s.buckets)))
}

// bucketOfLog returns the bucket of a log, which is that of its root.
func (s *Store) bucketOfLog(log string) int {
	if i := strings.LastIndexByte(log, '@'); i > 0 {
		log = log[:i]
	}
	return s.bucketOf(log)
}

// routes remembers the buckets of children, which do not follow from their ids.
type routes struct {
	mu    sync.Mutex
	known map[string]int
}

// mostRoutes bounds the memory of routes; an evicted route is looked up again.
const mostRoutes = 100_000

func (r *routes) get(id string) (bucket int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bucket, ok = r.known[id]
	return bucket, ok
}

func (r *routes) put(id string, bucket int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= mostRoutes {
		r.known = map[string]int{}
	}
	r.known[id] = bucket
}

func (r *routes) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, id)
}

// route returns the bucket where a session is looked for first, and whether it was seen there.
func (s *Store) route(id string) (bucket int, remembered bool) {
	if len(s.buckets) > 1 {
		if bucket, remembered = s.routes.get(id); remembered {
			return bucket, true
		}
	}
	return s.bucketOf(id), false
}

// ask runs a script on the bucket of a session, whose id is the script's first argument. The error is ErrNotFound if
// there is no such session.
func (s *Store) ask(ctx context.Context, sc *script, id string, args ...any) (reply, error) {
	command := append(append(make([]any, 0, 5+len(args)), "evalsha", sc.hash, 1, nil, id), args...)
	return s.askCommand(ctx, sc, id, command)
}

// askCommand is ask for a command that lacks only its key.
func (s *Store) askCommand(ctx context.Context, sc *script, id string, command []any) (reply, error) {
	own := s.bucketOf(id)
	bucket, remembered := s.route(id)
	for range 3 {
		command[keyOfCommand] = s.keys[bucket]
		r, err := s.reply(ctx, sc, command)
		if err != nil {
			return nil, err
		}
		switch r.word() {
		case "none":
			if !remembered {
				return nil, store.NotFound(id)
			}
			s.routes.forget(id) // it was deleted, and may be somewhere else now
			bucket, remembered = own, false
		case "removed":
			return nil, gone(id, r)
		case "over":
			if err := s.look(ctx, r.text(1)); err != nil {
				return nil, err
			}
			return s.askCommand(ctx, sc, id, command)
		case "moved":
			moved, err := strconv.Atoi(r.text(1))
			if err != nil || moved < 0 || moved >= len(s.buckets) {
				return nil, cairn.Errorf(cairn.CodeCorrupt, "session %q: stored bucket %q does not exist", id, r.text(1))
			}
			s.routes.put(id, moved)
			bucket, remembered = moved, true
		default:
			return r, nil
		}
	}
	return nil, store.NotFound(id)
}
