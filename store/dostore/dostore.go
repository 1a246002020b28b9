// Package dostore keeps sessions in Durable Objects of Cloudflare: the rows of each session tree in the SQLite of one
// object, and the lists across trees in one more, the directory. Package cloudflare has the worker that it
// speaks to; docs/CLOUDFLARE.md describes its deployment, the protocol and the limits.
package dostore

import (
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

const _ = driver.Version1 // the contract that this store was written for

// Store is a driver.Store in Durable Objects, with an event log of its own. It is safe for concurrent use.
type Store struct {
	database
	log   *Log
	stops backend.Signal // of new stop requests
}

// EventLog returns the store's event log.
func (s *Store) EventLog() driver.Log { return s.log }

// Self implements driver.Store.
func (s *Store) Self() driver.Store { return s }

// Close ends all connections. Every later call fails with ErrClosed.
func (s *Store) Close() error {
	s.close()
	s.log.close()
	s.stops.Raise()
	s.reading.Wait()
	return nil
}
