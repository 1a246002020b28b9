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
	"sync"

	"github.com/cairn-agents/cairn/store"
)

// Store is a store.Store in Redis, with an event log of its own. It is safe for concurrent use, and so are the keys by
// several Stores in any number of processes.
type Store struct {
	database
	url  string
	log  *Log
	news news

	closing  sync.Once
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
		s.news.hub.WakeAll()
		s.closeErr = fault("close", s.client.Close())
	})
	return s.closeErr
}
