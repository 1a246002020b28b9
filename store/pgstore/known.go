package pgstore

import (
	"maps"
	"slices"
	"sync"

	"github.com/cairn-agents/cairn"
)

// mostKnown bounds the sessions that a store remembers.
const mostKnown = 4096

// known are the sessions that were read or committed to last. A commit to one of them is worked out from the row that is
// known, and needs no read if that is still the row.
type known struct {
	mu   sync.Mutex
	list map[string]*knownSession
}

// knownSession is a session as a commit left it or a read found it. It is not changed.
type knownSession struct {
	key         int64
	row         *cairn.Session
	checkpoints int64 // how many were ever written
}

func (k *known) get(id string) *knownSession {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list[id]
}

// put remembers a session, unless a newer version of it is known. The row belongs to the list from then on.
func (k *known) put(s *knownSession) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.list[s.row.ID]
	switch {
	case k.list == nil:
		k.list = map[string]*knownSession{}
	case old != nil && (old.key > s.key || old.key == s.key && old.row.Version > s.row.Version):
		return
	case old == nil && len(k.list) >= mostKnown:
		for id := range k.list { // any one
			delete(k.list, id)
			break
		}
	}
	k.list[s.row.ID] = s
}

func (k *known) drop(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.list, id)
}

// copyOf returns a copy of a row that shares nothing with it.
func copyOf(row *cairn.Session) *cairn.Session {
	s := *row
	s.Tags, s.Metadata = slices.Clone(s.Tags), maps.Clone(s.Metadata)
	s.Usage.Custom, s.RunUsage.Custom = maps.Clone(s.Usage.Custom), maps.Clone(s.RunUsage.Custom)
	return &s
}
