package memory

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/cairn-agents/cairn"
)

// Add adds entries, all or none, and returns them as they are stored, in order. An entry whose id exists already is left
// unchanged and returned, so Add can be repeated. At most 100 entries are added at a time. Errors are ErrInvalid and
// ErrTooLarge, which name the field, and ErrNotFound for an entry that About or Supersedes names and that does not exist.
func (m *Memory) Add(ctx context.Context, scope Scope, entries ...Entry) ([]Entry, error) {
	return m.add(ctx, scope, func(*tx) error { return nil }, entries)
}

// add is Add. It begins its transaction with a check, whose error ends it.
func (m *Memory) add(ctx context.Context, scope Scope, check func(*tx) error, entries []Entry) ([]Entry, error) {
	if len(entries) > maxBatch {
		return nil, cairn.Invalid("entries", "has %d entries (max %d)", len(entries), maxBatch)
	}
	drafts := slices.Clone(entries)
	for i := range drafts { // ids stay the same if the write is tried again
		if err := validate(&drafts[i], fmt.Sprintf("entries[%d]", i), &m.opts, drafts[i].StoredAt); err != nil {
			return nil, err
		}
		drafts[i].Keys, drafts[i].Supersedes = slices.Clone(drafts[i].Keys), slices.Clone(drafts[i].Supersedes)
		if entries[i].ValidFrom.IsZero() {
			drafts[i].ValidFrom = entries[i].ValidFrom // the store's time is not known yet
		}
		drafts[i].ExpiresAt = stamp(entries[i].ExpiresAt)
	}
	var out []Entry
	full := false
	err := m.update(ctx, scope, func(t *tx) error {
		out = nil
		if err := check(t); err != nil {
			return err
		}
		if err := t.prefetch(drafts); err != nil {
			return err
		}
		for i := range drafts {
			d, err := t.add(fmt.Sprintf("entries[%d]", i), drafts[i])
			if err != nil {
				return err
			}
			e, err := t.shown(d)
			if err != nil {
				return err
			}
			out = append(out, e)
		}
		full = m.opts.MaxEntries > 0 && t.head.Count > m.opts.MaxEntries+m.opts.MaxEntries/20
		return nil
	})
	if err == nil && full {
		_, err = m.Trim(ctx, scope)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// prefetch reads in two reads most of what an Add of entries needs.
func (t *tx) prefetch(entries []Entry) error {
	var keys []string
	for i := range entries {
		e := &entries[i]
		for _, id := range append([]string{e.ID, e.About}, e.Supersedes...) {
			if id != "" {
				keys = append(keys, idKey(id))
			}
		}
		for _, text := range [2]string{e.Entity, e.Speaker} {
			if folded := fold(text); folded != "" {
				keys = append(keys, nameKey(folded))
			}
		}
		if e.Kind == Said && e.Source.Session != "" {
			keys = append(keys, threadKey(e.Source.Session))
		}
	}
	keys = append(keys, recordKey(t.head.Next/perChunk))
	if err := t.fetchSorted(keys); err != nil {
		return err
	}
	keys = nil
	for i := range entries {
		n := t.head.Next + uint32(i)
		index := 0
		if entries[i].State == Quarantined {
			index = 1
		}
		terms := map[string]int{}
		t.m.own(terms, &entries[i])
		for term := range terms {
			keys = append(keys, postKey(indexes[index], term, n/perPost))
		}
		keys = append(keys, recordKey(n/perChunk), docKey(n))
	}
	return t.fetchSorted(keys)
}

// fetchSorted is fetch for keys in any order, some of them several times.
func (t *tx) fetchSorted(keys []string) error {
	return t.fetch(slices.Compact(slices.Sorted(slices.Values(keys)))...)
}

// add adds an entry, unless its id exists.
func (t *tx) add(field string, e Entry) (*doc, error) {
	n, err := t.number(e.ID)
	if err != nil {
		return nil, err
	}
	if n > 0 {
		return t.doc(n)
	}
	if t.head.Next == math.MaxUint32 {
		return nil, cairn.Errorf(cairn.ErrTooLarge, "memory: the scope has no numbers left")
	}
	if err := validate(&e, field, &t.m.opts, t.now); err != nil {
		return nil, err
	}
	d := &doc{Entry: e, Number: t.head.Next}
	d.Version = 1
	t.head.Next++
	t.head.Count++
	r, err := t.edit(d.Number)
	if err != nil {
		return nil, err
	}
	*r = record{source: uint8(slices.Index(sourceKinds, e.Source.Kind)), importance: uint8(math.Round(e.Importance * 255)),
		thread: hash32(e.Source.Session), position: uint32(e.Source.Position), speaker: hash32(fold(e.Speaker)),
		entity: hash32(fold(e.Entity)), valid: micros(e.ValidFrom), expires: micros(e.ExpiresAt), stored: micros(e.StoredAt)}
	if r.expires > 0 && (t.head.Due == 0 || r.expires < t.head.Due) {
		t.head.Due = r.expires
	}
	t.put(idKey(e.ID), encodeNumbers([]uint32{d.Number}))
	if err := t.names(&d.Entry, 1); err != nil {
		return nil, err
	}
	if err := t.link(d, r); err != nil {
		return nil, err
	}
	if err := t.supersede(field, d); err != nil {
		return nil, err
	}
	if err := t.index(d); err != nil {
		return nil, err
	}
	return d, t.attach(field, d, r)
}

// supersede makes an entry a version of those that it names.
func (t *tx) supersede(field string, d *doc) error {
	var list []*doc
	for i, id := range d.Supersedes {
		other, err := t.find(fmt.Sprintf("%s.supersedes[%d]", field, i), id)
		if err != nil {
			return err
		}
		list = append(list, other)
	}
	return t.chain(d, list)
}

// attach makes a fact one of the entry that it is about.
func (t *tx) attach(field string, d *doc, r *record) error {
	if d.About == "" {
		return nil
	}
	said, err := t.find(field+".about", d.About)
	if err != nil {
		return err
	}
	if said.Kind != Said {
		return cairn.Invalid(field+".about", "%q is not of kind said", d.About)
	}
	r.about = said.Number
	said.Facts = append(said.Facts, d.Number)
	return t.index(said)
}

// Correct adds a newer version of an entry and returns it. The newer version has the entity, the attribute, the speaker
// and the keys of the old one where it leaves them empty. If it has no id it gets one that depends on the old version and
// the text, so Correct can be repeated. If it has no ValidFrom it is valid from now on. The error is ErrNotFound if the
// entry does not exist.
func (m *Memory) Correct(ctx context.Context, scope Scope, id string, newer Entry) (*Entry, error) {
	old, err := m.Get(ctx, scope, id)
	if err != nil {
		return nil, err
	}
	if newer.ID == "" {
		newer.ID = Derive(scope, id+"\n"+newer.Text, old.Version, 0)
	}
	newer.Kind = defaulted(newer.Kind, old.Kind)
	newer.Entity = defaulted(newer.Entity, old.Entity)
	newer.Attribute = defaulted(newer.Attribute, old.Attribute)
	newer.Speaker = defaulted(newer.Speaker, old.Speaker)
	if newer.Keys == nil {
		newer.Keys = old.Keys
	}
	if newer.Importance == 0 {
		newer.Importance = old.Importance
	}
	newer.Source.Kind = defaulted(newer.Source.Kind, Application)
	if !slices.Contains(newer.Supersedes, id) {
		newer.Supersedes = append(slices.Clone(newer.Supersedes), id)
	}
	list, err := m.Add(ctx, scope, newer)
	if err != nil {
		return nil, err
	}
	return &list[0], nil
}

// Forget deletes entries with all of their versions, and with the facts that were taken from them. It returns the number
// of entries that are gone; ids that do not exist are ignored. The text that a fact was taken from stays: forget its
// About as well.
func (m *Memory) Forget(ctx context.Context, scope Scope, ids ...string) (removed int, err error) {
	err = m.update(ctx, scope, func(t *tx) error {
		var queue []uint32
		for _, id := range ids {
			n, err := t.number(id)
			if err != nil {
				return err
			}
			if n > 0 {
				queue = append(queue, n)
			}
		}
		gone := map[uint32]bool{}
		for len(queue) > 0 {
			n := queue[0]
			queue = queue[1:]
			if gone[n] {
				continue
			}
			gone[n] = true
			versions, err := t.versions(n)
			if err != nil {
				return err
			}
			d, err := t.doc(n)
			if err != nil {
				return err
			}
			queue = append(queue, versions...)
			if d != nil {
				queue = append(queue, d.Facts...)
			}
		}
		removed = len(gone)
		for _, n := range sortedKeys(gone) {
			if err := t.remove(n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// Redact removes the text, the keys and the terms of one version of an entry and keeps its place in the history. It
// returns the redacted version. The error is ErrNotFound if the entry does not exist.
func (m *Memory) Redact(ctx context.Context, scope Scope, id string) (*Entry, error) {
	return m.change(ctx, scope, id, func(t *tx, d *doc) error {
		d.State, d.Text, d.Keys = Redacted, "", nil
		return t.forgetVectors(d.Number)
	})
}

// Promote makes a quarantined entry active, and returns it. It changes nothing if the entry is active. The error is
// ErrNotFound if it does not exist, and ErrInvalid if it is redacted.
func (m *Memory) Promote(ctx context.Context, scope Scope, id string) (*Entry, error) {
	return m.change(ctx, scope, id, func(_ *tx, d *doc) error {
		if d.State == Redacted {
			return cairn.Invalid("id", "memory %q is redacted", id)
		}
		d.State = Active
		return nil
	})
}

// change changes an entry in place, and the index with it.
func (m *Memory) change(ctx context.Context, scope Scope, id string, fn func(*tx, *doc) error) (*Entry, error) {
	var out Entry
	err := m.update(ctx, scope, func(t *tx) error {
		d, err := t.find("id", id)
		if err != nil {
			return err
		}
		state := d.State
		if err := fn(t, d); err != nil {
			return err
		}
		if d.State != state {
			if err := t.index(d); err != nil {
				return err
			}
			if r, err := t.record(d.Number); err != nil {
				return err
			} else if r.about > 0 {
				said, err := t.doc(r.about)
				if err != nil {
					return err
				}
				if err := t.index(said); err != nil {
					return err
				}
			}
		}
		out, err = t.shown(d)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}
