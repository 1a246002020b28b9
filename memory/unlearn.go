package memory

import (
	"context"
	"slices"
)

// removeSaid removes texts with the facts taken from them, and the facts merged from those. Other versions of the facts
// stay: what a removed fact superseded is current again.
func (m *Memory) removeSaid(ctx context.Context, scope Scope, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return m.update(ctx, scope, func(t *tx) error {
		gone := map[uint32]bool{}
		for _, id := range ids {
			n, err := t.number(id)
			if err != nil {
				return err
			}
			d, err := t.doc(n)
			if err != nil {
				return err
			}
			if d == nil {
				continue
			}
			gone[n] = true
			for _, fact := range d.Facts {
				if err := t.withMerged(fact, gone); err != nil {
					return err
				}
			}
		}
		for _, n := range sortedKeys(gone) {
			if err := t.unmerge(n); err != nil {
				return err
			}
		}
		for _, n := range sortedKeys(gone) {
			if err := t.remove(n); err != nil {
				return err
			}
		}
		return nil
	})
}

// withMerged adds a fact to a set, and the facts that were merged from it.
func (t *tx) withMerged(n uint32, set map[uint32]bool) error {
	d, err := t.doc(n)
	if err != nil || d == nil || set[n] {
		return err
	}
	set[n] = true
	versions, err := t.versions(n)
	if err != nil {
		return err
	}
	for _, v := range versions {
		other, err := t.doc(v)
		if err != nil {
			return err
		}
		if other != nil && other.Merged && slices.Contains(other.Supersedes, d.ID) {
			if err := t.withMerged(v, set); err != nil {
				return err
			}
		}
	}
	return nil
}

// unmerge takes a merged fact out of its versions, which become those that they were before it joined them.
func (t *tx) unmerge(n uint32) error {
	d, err := t.doc(n)
	if err != nil || d == nil || !d.Merged {
		return err
	}
	versions, err := t.versions(n)
	if err != nil || len(versions) < 2 {
		return err
	}
	label := make(map[uint32]uint32, len(versions)) // the lowest number that a version is linked with
	for _, v := range versions {
		label[v] = v
	}
	join := func(a, b uint32) {
		from, to := max(label[a], label[b]), min(label[a], label[b])
		for v, l := range label {
			if l == from {
				label[v] = to
			}
		}
	}
	for _, v := range versions {
		other, err := t.doc(v)
		if err != nil {
			return err
		}
		if v == n || other == nil {
			continue
		}
		for _, id := range other.Supersedes {
			w, err := t.number(id)
			if err != nil {
				return err
			}
			if _, in := label[w]; in && w != n {
				join(v, w)
			}
		}
	}
	r, err := t.record(n)
	if err != nil {
		return err
	}
	t.put(chainKey(r.chain), nil)
	lists := map[uint32][]uint32{} // in the order of versions
	for _, v := range versions {
		lists[label[v]] = append(lists[label[v]], v)
	}
	for _, l := range sortedKeys(lists) {
		for _, v := range lists[l] {
			edited, err := t.edit(v)
			if err != nil {
				return err
			}
			if edited.chain = l; len(lists[l]) == 1 {
				edited.chain = 0
			}
		}
		if len(lists[l]) > 1 {
			t.putNumbers(chainKey(l), lists[l])
		}
	}
	return nil
}
