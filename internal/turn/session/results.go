package session

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/driver"
)

// Results is a session's tool-result cache in memory: what the store holds, with the changes of the steps since the
// last commit. Only the driver of the session changes it, between the tools of two steps. So it needs no lock, and is
// correct on top of concurrent changes of others to the session.
type Results struct {
	entries map[string]driver.CacheEntry // by key
	// changed holds the keys whose entries differ from the store's. The value reports whether the store has an entry at
	// all.
	changed map[string]bool
	latest  time.Time // latest use of any entry
}

func newResults(list []driver.CacheEntry) (r Results) {
	for _, e := range list {
		r.set(e)
	}
	return r
}

func (r *Results) set(e driver.CacheEntry) {
	if r.entries == nil {
		r.entries = map[string]driver.CacheEntry{}
	}
	r.entries[e.Key] = e
	if e.UsedAt.After(r.latest) {
		r.latest = e.UsedAt
	}
}

// Get returns the entry of a key if it has not expired.
func (r *Results) Get(key string, now time.Time) (driver.CacheEntry, bool) {
	e, ok := r.entries[key]
	return e, ok && now.Before(e.ExpiresAt)
}

// put adds an entry and drops what it displaces: all expired entries, and the least recently used ones beyond max.
func (r *Results) put(e driver.CacheEntry, max int, now time.Time) {
	r.touched(e.Key)
	e.UsedAt = r.tick(now)
	r.set(e)
	for key, other := range r.entries {
		if !now.Before(other.ExpiresAt) {
			r.drop(key)
		}
	}
	if len(r.entries) <= max {
		return
	}
	oldest := slices.SortedFunc(maps.Values(r.entries), func(a, b driver.CacheEntry) int {
		return cmp.Or(a.UsedAt.Compare(b.UsedAt), cmp.Compare(a.Key, b.Key))
	})
	for _, other := range oldest[:len(oldest)-max] {
		r.drop(other.Key)
	}
}

// use makes an entry the most recently used one. If it is so already, nothing has to be written: only the order of the
// times matters.
func (r *Results) use(key string, now time.Time) {
	e, ok := r.entries[key]
	if !ok {
		return
	}
	for _, other := range r.entries {
		if other.UsedAt.After(e.UsedAt) {
			r.touched(key)
			e.UsedAt = r.tick(now)
			r.set(e)
			return
		}
	}
}

// tick returns a time later than every previous use. It is truncated to microseconds, the precision that stores may
// keep.
func (r *Results) tick(now time.Time) time.Time {
	now = now.UTC().Truncate(time.Microsecond)
	if !now.After(r.latest) {
		now = r.latest.Add(time.Microsecond)
	}
	return now
}

func (r *Results) drop(key string) {
	r.touched(key)
	delete(r.entries, key)
	if !r.changed[key] {
		delete(r.changed, key)
	}
}

// touched records that an entry is about to change.
func (r *Results) touched(key string) {
	if _, ok := r.changed[key]; ok {
		return
	}
	if r.changed == nil {
		r.changed = map[string]bool{}
	}
	_, r.changed[key] = r.entries[key]
}

// Writes returns the entries that the store has to put, and the keys that it has to drop.
func (r *Results) Writes() (puts []driver.CacheEntry, drops []string) {
	if len(r.changed) == 0 {
		return nil, nil
	}
	for _, key := range slices.Sorted(maps.Keys(r.changed)) {
		if e, ok := r.entries[key]; ok {
			puts = append(puts, e)
		} else {
			drops = append(drops, key)
		}
	}
	return puts, drops
}

// Written records that the store has what Writes returned.
func (r *Results) Written() { r.changed = nil }

// Take applies changes that another process made.
func (r *Results) Take(puts []driver.CacheEntry, drops []string) {
	for _, e := range puts {
		r.touched(e.Key)
		r.set(e)
	}
	for _, key := range drops {
		r.drop(key)
	}
}

// Lost drops the entries that another process has removed from the store. kept lists those that the store has.
func (r *Results) Lost(kept []driver.CacheEntry) {
	stays := func(key string) bool {
		return slices.ContainsFunc(kept, func(e driver.CacheEntry) bool { return e.Key == key })
	}
	for key := range r.entries {
		if stays(key) {
			continue
		}
		if had, changed := r.changed[key]; had || !changed { // otherwise this run made the entry
			delete(r.entries, key)
			delete(r.changed, key)
		}
	}
}

// clone returns an independent copy of the entries, without pending changes.
func (r *Results) clone() Results {
	return Results{entries: maps.Clone(r.entries), latest: r.latest}
}

// ResultKey returns the cache key of a call's result. ok is false if the arguments have no canonical form.
func ResultKey(c *step.Call) (key string, ok bool) {
	args, err := ops.Canonical(c.Input())
	return ids.Derive("result", c.Use.Tool, string(args)), err == nil
}
