package memory

import (
	"context"
	"fmt"
)

// IndexedBy returns the name of the analyzer by which a scope is indexed; empty for a scope without entries so far. A
// Memory with another analyzer should not write into the scope before Reindex.
func (m *Memory) IndexedBy(ctx context.Context, scope Scope) (analyzer string, err error) {
	err = m.view(ctx, scope, func(t *tx) error {
		analyzer = t.head.Analyzer
		return nil
	})
	return analyzer, err
}

// Reindex makes the terms of a scope's entries anew, if the scope was indexed by another analyzer than the options'. It
// writes a few entries at a time and returns how many had to be changed. If it is interrupted, call it again. Until it is
// done, searches find the remaining entries only as far as both analyzers agree.
func (m *Memory) Reindex(ctx context.Context, scope Scope) (changed int, err error) {
	name := m.opts.Analyzer.Name()
	for from, done := uint32(1), false; !done; {
		var next uint32
		n := 0
		err := m.update(ctx, scope, func(t *tx) error {
			n, done = 0, true
			if t.head.Analyzer == name {
				return nil
			}
			live, err := t.live(from, maxBatch)
			if err != nil {
				return err
			}
			if done = len(live) < maxBatch; done {
				t.head.Analyzer = name
				if t.head.Count > 0 {
					t.dirty[keyHead] = true
				}
			}
			if err := t.fetchDocs(live...); err != nil {
				return err
			}
			for _, number := range live {
				next = number + 1
				d, err := t.doc(number)
				if err != nil {
					return err
				}
				if d == nil || d.Analyzer == name {
					continue
				}
				n++
				if err := t.index(d); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return changed, fmt.Errorf("reindex: %w", err)
		}
		changed, from = changed+n, next
	}
	return changed, nil
}
