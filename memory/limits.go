package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/cairn-agents/cairn/store/driver"
)

// Trim removes the entries of a scope beyond MaxEntries and returns how many it removed. The least important ones go
// first; of equal ones those that are superseded, and then the oldest.
func (m *Memory) Trim(ctx context.Context, scope Scope) (removed int, err error) {
	if m.opts.MaxEntries < 0 {
		return 0, nil
	}
	return m.removeSome(ctx, scope, func(t *tx) ([]uint32, error) {
		excess := t.head.Count - m.opts.MaxEntries
		if excess <= 0 {
			return nil, nil
		}
		type rated struct {
			number     uint32
			importance uint8
			current    int
		}
		live, err := t.live(1, 0)
		if err != nil {
			return nil, err
		}
		list := make([]rated, len(live))
		for i, n := range live {
			r, err := t.record(n)
			if err != nil {
				return nil, err
			}
			list[i] = rated{n, r.importance, 1}
			if r.chain > 0 {
				if current, err := t.current(n); err != nil {
					return nil, err
				} else if current != n {
					list[i].current = 0
				}
			}
		}
		slices.SortFunc(list, func(a, b rated) int {
			return cmp.Or(cmp.Compare(a.importance, b.importance), a.current-b.current, cmp.Compare(a.number, b.number))
		})
		var numbers []uint32
		for _, r := range list[:min(excess, len(list))] {
			numbers = append(numbers, r.number)
		}
		return numbers, nil
	})
}

// Expire removes the entries of a scope whose time has come and returns how many it removed: those that have expired, and
// those without an expiry that are older than the retention.
func (m *Memory) Expire(ctx context.Context, scope Scope) (removed int, err error) {
	return m.removeSome(ctx, scope, func(t *tx) ([]uint32, error) {
		live, err := t.live(1, 0)
		if err != nil {
			return nil, err
		}
		var numbers []uint32
		due, now := int64(0), micros(t.now)
		for _, n := range live {
			r, err := t.record(n)
			if err != nil {
				return nil, err
			}
			at := r.expires
			if at == 0 && m.opts.Retention > 0 {
				at = r.stored + m.opts.Retention.Microseconds()
			}
			switch {
			case at == 0:
			case at <= now:
				numbers = append(numbers, n)
			case due == 0 || at < due:
				due = at
			}
		}
		if len(numbers) <= maxBatch && due != t.head.Due {
			t.head.Due, t.dirty[keyHead] = due, t.head.Count > 0
		}
		return numbers, nil
	})
}

// removeSome removes the entries that pick returns, a few at a time.
func (m *Memory) removeSome(ctx context.Context, scope Scope, pick func(*tx) ([]uint32, error)) (removed int, err error) {
	for {
		n, more := 0, false
		err := m.update(ctx, scope, func(t *tx) error {
			numbers, err := pick(t)
			if err != nil {
				return err
			}
			if more = len(numbers) > maxBatch; more {
				numbers = numbers[:maxBatch]
			}
			n = len(numbers)
			if err := t.fetchDocs(numbers...); err != nil {
				return err
			}
			for _, number := range numbers {
				if err := t.remove(number); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return removed, err
		}
		if removed += n; !more {
			return removed, nil
		}
	}
}

// Sweep expires and trims the scopes whose time has come, and returns how many entries it removed. It is for workers: any
// number of processes may call it.
func (m *Memory) Sweep(ctx context.Context) (removed int, err error) {
	q := driver.MemoryScopeQuery{Due: true}
	for {
		page, err := m.rows.Scopes(ctx, q)
		if err != nil {
			return removed, err
		}
		for _, row := range page.Items {
			n, err := m.Expire(ctx, row.MemoryScope)
			if err != nil {
				return removed, err
			}
			removed += n
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return removed, nil
		}
	}
}

// Scopes pages through the scopes in the store, regardless of the options.
func (m *Memory) Scopes(ctx context.Context, q driver.MemoryScopeQuery) (Page[driver.MemoryScopeRow], error) {
	return m.rows.Scopes(ctx, q)
}
