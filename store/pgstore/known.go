package pgstore

import (
	"maps"
	"slices"
	"sync"

	"github.com/cairn-agents/cairn"
)

// mostKnown bounds the sessions that a store remembers.
const mostKnown = 4096

// owner is what of a session's row changes with the user context only. A commit to a session whose owner is known need not
// look it up: the head says whether it is still the one.
type owner struct {
	key     int64
	context int64
}

// known are the sessions that were committed to last.
type known struct {
	mu   sync.Mutex
	list map[string]*knownSession
}

// knownSession is a session as a commit left it. It is not changed.
type knownSession struct {
	owner
	row *cairn.Session
}

func (k *known) get(id string) *knownSession {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list[id]
}

// put remembers a copy of a row, unless a newer one is known.
func (k *known) put(o owner, row *cairn.Session) { k.keep(o, copyOf(row)) }

// keep remembers a row that is nobody else's, unless a newer one is known.
func (k *known) keep(o owner, row *cairn.Session) {
	s := &knownSession{owner: o, row: row}
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.list[row.ID]
	switch {
	case k.list == nil:
		k.list = map[string]*knownSession{}
	case old != nil && (old.key > o.key || old.key == o.key && old.row.Version > row.Version):
		return
	case old == nil && len(k.list) >= mostKnown:
		for id := range k.list { // any one
			delete(k.list, id)
			break
		}
	}
	k.list[row.ID] = s
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
