package dostore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// Usages returns the store's usage rows. Commits deliver them to the list usageRows of the directory, whose keys are the
// order of delivery. The sums are rows of the directory with the owner usageSums, by their keys, and the row foldedKey has
// the key of the last row that is in them.
func (s *Store) Usages() driver.Usages { return (*usages)(s) }

var _ driver.UsageProvider = (*Store)(nil)

// usages is the store as driver.Usages.
type usages Store

const (
	usageRows  = "usage"
	usageSums  = "usage sums"
	usageState = "usage"
	foldedKey  = "folded"
)

// usage adds a usage row for the directory.
func (r *rows) usage(u *cairn.UsageRow) {
	text, err := usageText(u)
	if err != nil && r.err == nil {
		r.err = err
	}
	at := strconv.FormatInt(r.at.UnixMicro(), 10)
	r.Share = append(r.Share, shared{Source: "usage/" + u.SessionID + "\x00" + at, Value: &text, Append: usageRows})
}

// usageText returns a usage row as it is stored: its time, and the form that stores share.
func usageText(u *cairn.UsageRow) (string, error) {
	text, err := backend.UsageRowText(u, true)
	return strconv.FormatInt(u.At.UnixMicro(), 10) + " " + text, err
}

func readUsage(r *row) (cairn.UsageRow, error) {
	at, text, _ := strings.Cut(r.value, " ")
	micros, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return cairn.UsageRow{}, cairn.Errorf(cairn.ErrCorrupt, "invalid stored time %q of a usage row", at)
	}
	return backend.ReadUsageRow(text, stamp(micros), "", "")
}

func (u *usages) store() *Store { return (*Store)(u) }

// each calls do with the usage rows behind a key, until it returns false.
func (u *usages) each(ctx context.Context, after string, do func(r *row, u *cairn.UsageRow, now time.Time) (bool, error)) error {
	from := ""
	if after != "" {
		from = after + "\x00"
	}
	return u.store().each(ctx, usageRows, from, behind, false, func(r *row, now time.Time) (bool, error) {
		one, err := readUsage(r)
		if err != nil {
			return false, err
		}
		return do(r, &one, now)
	})
}

// Rows implements driver.Usages.
func (u *usages) Rows(ctx context.Context, q driver.PageQuery) (page driver.Page[cairn.UsageRow], err error) {
	number, err := driver.NumberCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	last := number
	err = u.each(ctx, padded(number), func(r *row, one *cairn.UsageRow, _ time.Time) (bool, error) {
		if len(page.Items) == q.Size() {
			page.Next = strconv.FormatInt(last, 10)
			return false, nil
		}
		page.Items = append(page.Items, *one)
		last, err = strconv.ParseInt(r.key, 10, 64)
		return true, err
	})
	return page, err
}

// padded returns the key of a place in the order of delivery.
func padded(n int64) string { return strings.TrimPrefix(numbered("", n), "/") }

// folded reads the key of the last row that is in the sums, with the version of that row, and what more asks for: the
// answer's parts for more begin at 1.
func (u *usages) folded(ctx context.Context, more ...ask) (key string, version int64, a *answer, err error) {
	a, err = u.store().directory().call(ctx, &request{Op: "read", Ask: append([]ask{get(usageState, foldedKey)}, more...)})
	if err != nil {
		return "", 0, nil, err
	}
	r, err := a.one(0)
	if err != nil || r == nil {
		return "", 0, a, err
	}
	return r.value, r.version, a, nil
}

// Sums implements driver.Usages. If rows are folded during the call, it begins again.
func (u *usages) Sums(ctx context.Context, days driver.DaySpan, reset func(), visit func(*driver.UsageSum)) error {
	from, before := days.Keys()
	for {
		reset()
		key, version, a, err := u.folded(ctx, scan(usageSums, from, before))
		if err != nil {
			return err
		}
		list, err := a.all(1)
		if err != nil {
			return err
		}
		for i := range list {
			sum, err := backend.DecodeUsageSum(list[i].value)
			if err != nil {
				return err
			}
			visit(&sum)
		}
		err = u.each(ctx, key, func(_ *row, one *cairn.UsageRow, _ time.Time) (bool, error) {
			driver.SumsOf(one, func(sum *driver.UsageSum) {
				if days.Has(sum.Day) {
					visit(sum)
				}
			})
			return true, nil
		})
		if err != nil {
			return err
		}
		_, now, _, err := u.folded(ctx)
		if err != nil || now == version {
			return err
		}
	}
}

// Fold implements driver.Usages.
func (u *usages) Fold(ctx context.Context, limit int) (n int, err error) {
	for {
		key, version, _, err := u.folded(ctx)
		if err != nil {
			return 0, err
		}
		n = 0
		added := backend.UsageSums{}
		err = u.each(ctx, key, func(r *row, one *cairn.UsageRow, _ time.Time) (bool, error) {
			if n >= limit {
				return false, nil
			}
			added.AddRow(one)
			key = r.key
			n++
			return true, nil
		})
		if err != nil || n == 0 {
			return 0, err
		}
		r := &rows{owner: usageSums}
		if err := u.addSums(ctx, r, added); err != nil {
			return 0, err
		}
		r.expect(usageState, foldedKey, version)
		r.text(usageState, foldedKey, key)
		if done, err := u.write(ctx, r); done || err != nil {
			return n, err
		}
	}
}

// addSums adds sums, each on top of the stored one, to a write.
func (u *usages) addSums(ctx context.Context, r *rows, added backend.UsageSums) error {
	var keys []string
	var asks []ask
	for key := range added {
		keys = append(keys, key)
		asks = append(asks, get(usageSums, key))
	}
	if len(asks) == 0 {
		return nil
	}
	a, err := u.store().directory().call(ctx, &request{Op: "read", Ask: asks})
	if err != nil {
		return err
	}
	for i, key := range keys {
		there, err := a.one(i)
		if err != nil {
			return err
		}
		var version int64
		sum := added[key]
		if there != nil {
			stored, err := backend.DecodeUsageSum(there.value)
			if err != nil {
				return err
			}
			stored.Add(sum)
			sum, version = &stored, there.version
		}
		r.expect(usageSums, key, version)
		r.put(usageSums, key, "usage sum", sum)
	}
	return nil
}

// write writes rows to the directory. done is false if one has changed.
func (u *usages) write(ctx context.Context, r *rows) (done bool, err error) {
	if r.err != nil {
		return false, r.err
	}
	refused, _, err := u.store().directory().write(ctx, fixed(&r.request))
	return refused == nil && err == nil, err
}

// change replaces values of the directory, or removes them, at the versions behind those that were read.
func (u *usages) change(ctx context.Context, items []shared) error {
	if len(items) == 0 {
		return nil
	}
	if err := u.store().failure(); err != nil {
		return err
	}
	_, err := u.store().directory().call(ctx, &request{Op: "deliver", Share: items})
	return err
}

// Trim implements driver.Usages.
func (u *usages) Trim(ctx context.Context, age time.Duration, limit int) (int, error) {
	last, _, _, err := u.folded(ctx)
	if err != nil {
		return 0, err
	}
	var items []shared
	err = u.each(ctx, "", func(r *row, one *cairn.UsageRow, now time.Time) (bool, error) {
		if len(items) >= limit || r.key > last || !one.At.Before(now.Add(-age)) {
			return false, nil
		}
		items = append(items, shared{Source: r.source, Version: r.version + 1})
		return true, nil
	})
	if err == nil {
		err = u.change(ctx, items)
	}
	if err != nil {
		return 0, err
	}
	return len(items), nil
}

// Forget implements driver.Usages.
func (u *usages) Forget(ctx context.Context, who driver.Forget) error {
	var items []shared
	err := u.each(ctx, "", func(r *row, one *cairn.UsageRow, _ time.Time) (bool, error) {
		if !who.Apply(one) {
			return true, nil
		}
		text, err := usageText(one)
		items = append(items, shared{Source: r.source, Value: &text, Lists: [][2]string{{usageRows, r.key}}, Version: r.version + 1})
		return true, err
	})
	if err == nil {
		err = u.change(ctx, items)
	}
	if err != nil || who.UserID == "" {
		return err
	}
	for {
		_, _, a, err := u.folded(ctx, scan(usageSums, "", behind))
		if err != nil {
			return err
		}
		list, err := a.all(1)
		if err != nil {
			return err
		}
		r := &rows{owner: usageSums}
		moved := backend.UsageSums{}
		for i := range list {
			sum, err := backend.DecodeUsageSum(list[i].value)
			if err != nil {
				return err
			}
			if sum.UserID == who.UserID {
				r.expect(usageSums, list[i].key, list[i].version)
				r.Clear = append(r.Clear, only(usageSums, list[i].key))
				sum.UserID = ""
				moved.Add(&sum)
			}
		}
		if len(moved) == 0 {
			return nil
		}
		if err := u.addSums(ctx, r, moved); err != nil {
			return err
		}
		if done, err := u.write(ctx, r); done || err != nil {
			return err
		}
	}
}

// Put implements driver.Usages.
func (u *usages) Put(ctx context.Context, sums []driver.UsageSum) error {
	r := &rows{owner: usageSums}
	for i := range sums {
		r.put(usageSums, sums[i].Key(), "usage sum", &sums[i])
	}
	if len(r.Put) == 0 {
		return nil
	}
	_, err := u.write(ctx, r)
	return err
}
