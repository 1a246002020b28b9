package backend

import (
	"maps"
	"slices"
	"sync"

	"github.com/cairn-agents/cairn"
)

// Known caches data of the sessions that a store wrote to last, so that a commit can be planned without a read. An
// entry may be out of date, which the conditions of the delta detect. The zero value is ready to use. Known is safe for
// concurrent use.
type Known[T any] struct {
	mu   sync.Mutex
	list map[string]known[T]
}

type known[T any] struct {
	row   *cairn.Session
	value T
}

// mostKnown is the maximum number of cached sessions.
const mostKnown = 4096

// Get returns the row of a session, which must not be changed, and its value; nil if it is not cached.
func (k *Known[T]) Get(id string) (*cairn.Session, T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.list[id]
	return s.row, s.value
}

// Put caches a row and a value, unless a newer row is cached. The caller must not use the row afterwards.
func (k *Known[T]) Put(row *cairn.Session, value T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.list[row.ID].row
	switch {
	case k.list == nil:
		k.list = map[string]known[T]{}
	case old != nil && old.Version > row.Version && !row.UpdatedAt.After(old.UpdatedAt):
		return
	case old == nil && len(k.list) >= mostKnown:
		for id := range k.list { // any one
			delete(k.list, id)
			break
		}
	}
	k.list[row.ID] = known[T]{row, value}
}

// Drop removes a session from the cache.
func (k *Known[T]) Drop(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.list, id)
}

// CopyRow returns a copy of a row that shares no memory with it.
func CopyRow(row *cairn.Session) *cairn.Session {
	s := *row
	s.Tags, s.Metadata, s.TrustAt = slices.Clone(s.Tags), s.Metadata.Clone(), slices.Clone(s.TrustAt)
	s.Usage.Custom, s.RunUsage.Custom = maps.Clone(s.Usage.Custom), maps.Clone(s.RunUsage.Custom)
	if s.Outbox != nil { // its events are never changed
		box := *s.Outbox
		s.Outbox = &box
	}
	if s.Ending != nil {
		stop := *s.Ending
		s.Ending = &stop
	}
	return &s
}
