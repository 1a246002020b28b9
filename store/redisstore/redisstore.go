// Package redisstore keeps sessions and events in Redis 7 or newer, a single server or a Redis Cluster. Any number of
// processes may share it.
//
// # Atomicity
//
// The process plans a commit from the session's row, which it has cached or reads. One script checks the conditions of
// the commit and writes it. If a condition does not hold, the script returns the current row, and the process plans the
// commit again. With a cached row, or for a new session, a commit takes one round trip. All keys of a session tree have
// one hash tag, its root's bucket, and so have the indexes that List, Calls and Due read. A single server has one
// bucket, so every list is exact at every moment. A Redis Cluster has 64 buckets, spread over its nodes: each bucket is
// exact, and a list combines the contents of the buckets at different moments. An entry in the bucket of a child's id
// names the bucket of the child's tree; a process that has seen the child does not need this entry. On a cluster only
// the first commit of a child, and a process's first read of it, take a second round trip.
//
// A removal hides a whole tree with its log in one script, which renames their keys. It takes two round trips: the
// second one succeeds only if the tree has not changed since the first. A purge deletes a few hundred keys at a time.
//
// A commit whose answer is lost is sent again and recognized, so it is not applied twice. The same holds for removals
// and for appends to the event log: the store numbers the batches of a writer that does not number its own.
//
// # Durability
//
// Durability depends on the server. An acknowledged write always survives the death of the client's process. It
// survives the death of the server
//
//   - with "appendonly yes" and "appendfsync always": always; each write waits for the disk
//   - with "appendfsync everysec": if only the server's process dies; the last two seconds may be lost with the
//     machine
//   - with snapshots alone, or none: if it is in the last snapshot
//
// A server that dies while it appends a script's effects to its file leaves a part of them in the file. With the
// default "aof-load-truncated yes", Redis 7.0 ignores that part at its next start, but leaves it in the file and
// executes it at the start after that. A session can then have a message of a commit that did not happen. Set
// "aof-load-truncated no", and run redis-check-aof --fix before the server starts again, which removes the part.
//
// A replica that is promoted to primary may lack the last writes, with any settings. If you cannot accept this, disable
// automatic failover. The server must not evict keys. Open refuses a server whose maxmemory-policy allows it to evict
// keys that do not expire, and an open store logs an error about once a minute if an operator sets such a policy.
//
// # Rights and memory
//
// Open checks the user's rights; docs/STORES.md has the line for ACL SETUSER. A call whose user has lost a right fails
// and writes nothing: a script checks the rights to its commands before its first write. If a message cannot be
// published, the call still succeeds: followers and watchers then poll.
//
// A server that is full and does not evict refuses a whole script. It still runs scripts that read, remove, renew or
// end. Connections use database 0 on a cluster.
package redisstore

import (
	"context"
	"sync"

	"github.com/cairn-agents/cairn/store/driver"
)

const _ = driver.Version1 // the contract that this store was written for

// Store is a driver.Store in Redis, with an event log of its own. It is safe for concurrent use, and any number of
// Stores and processes may share its keys.
type Store struct {
	database
	url      string
	log      *Log
	listener listener

	unwatch  context.CancelFunc // ends the goroutine that inspects the server
	watching sync.WaitGroup     // that goroutine

	closing  sync.Once
	closeErr error
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.Sweeper     = (*Store)(nil)
	_ driver.LogProvider = (*Store)(nil)
	_ driver.StopWatcher = (*Store)(nil)
	_ driver.Importer    = (*Store)(nil)
	_ driver.Log         = (*Log)(nil)
	_ driver.Fencer      = (*Log)(nil)
)

// EventLog returns the store's event log.
func (s *Store) EventLog() driver.Log { return s.log }

// Self implements driver.Store.
func (s *Store) Self() driver.Store { return s }

// Close ends followers with ErrClosed and closes the connections. Later calls fail with ErrClosed.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.closed)
		s.unwatch()
		s.watching.Wait()
		s.listener.close()
		s.listener.hub.WakeAll()
		s.closeErr = fault("close", s.client.Close())
	})
	return s.closeErr
}
