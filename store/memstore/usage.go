package memstore

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// Usages returns the store's usage rows.
func (s *Store) Usages() driver.Usages { return (*usages)(s) }

var _ driver.UsageProvider = (*Store)(nil)

// usages is the store as driver.Usages.
type usages Store

// Rows implements driver.Usages.
func (u *usages) Rows(ctx context.Context, q driver.PageQuery) (page driver.Page[cairn.UsageRow], err error) {
	s := (*Store)(u)
	from, err := driver.NumberCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	if err := s.lock(ctx); err != nil {
		return page, err
	}
	defer s.mu.Unlock()
	l := &s.usage
	first := min(max(int(from)-l.trimmed, 0), len(l.rows))
	end := min(first+q.Size(), len(l.rows))
	for i := first; i < end; i++ {
		page.Items = append(page.Items, copyUsage(&l.rows[i]))
	}
	if end < len(l.rows) {
		page.Next = strconv.Itoa(l.trimmed + end)
	}
	return page, nil
}

func copyUsage(r *cairn.UsageRow) cairn.UsageRow {
	own := *r
	own.Tags, own.Entries = slices.Clone(r.Tags), slices.Clone(r.Entries)
	return own
}

// Sums implements driver.Usages.
func (u *usages) Sums(ctx context.Context, days driver.DaySpan, reset func(), visit func(*driver.UsageSum)) error {
	s := (*Store)(u)
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	reset()
	show := func(sum *driver.UsageSum) {
		if days.Has(sum.Day) {
			own := *sum
			visit(&own)
		}
	}
	for _, sum := range s.usage.sums {
		show(sum)
	}
	for i := s.usage.folded; i < len(s.usage.rows); i++ {
		driver.SumsOf(&s.usage.rows[i], show)
	}
	return nil
}

// Fold implements driver.Usages.
func (u *usages) Fold(ctx context.Context, limit int) (n int, err error) {
	s := (*Store)(u)
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	l := &s.usage
	if l.sums == nil {
		l.sums = backend.UsageSums{}
	}
	for ; n < limit && l.folded < len(l.rows); n++ {
		l.sums.AddRow(&l.rows[l.folded])
		l.folded++
	}
	return n, nil
}

// Trim implements driver.Usages.
func (u *usages) Trim(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	s := (*Store)(u)
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	l, before := &s.usage, s.clock().Add(-age)
	for n < limit && n < l.folded && l.rows[n].At.Before(before) {
		n++
	}
	l.rows, l.folded, l.trimmed = slices.Clone(l.rows[n:]), l.folded-n, l.trimmed+n
	return n, nil
}

// Forget implements driver.Usages.
func (u *usages) Forget(ctx context.Context, who driver.Forget) error {
	s := (*Store)(u)
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	l := &s.usage
	for i := range l.rows {
		who.Apply(&l.rows[i])
	}
	if who.UserID == "" {
		return nil
	}
	sums := backend.UsageSums{}
	for _, sum := range l.sums {
		if sum.UserID == who.UserID {
			sum.UserID = ""
		}
		sums.Add(sum)
	}
	l.sums = sums
	return nil
}

// Put implements driver.Usages.
func (u *usages) Put(ctx context.Context, sums []driver.UsageSum) error {
	s := (*Store)(u)
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.usage.sums == nil {
		s.usage.sums = backend.UsageSums{}
	}
	for i := range sums {
		own := sums[i]
		s.usage.sums[own.Key()] = &own
	}
	return nil
}
