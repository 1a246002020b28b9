package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// shown returns an entry for the caller.
func (t *tx) shown(d *doc) (Entry, error) {
	e := d.Entry
	e.Keys, e.Supersedes = slices.Clone(e.Keys), slices.Clone(e.Supersedes)
	versions, err := t.versions(d.Number)
	if err != nil {
		return e, err
	}
	for _, n := range versions[slices.Index(versions, d.Number)+1:] {
		r, err := t.record(n)
		if err != nil {
			return e, err
		}
		if r.is(flagQuarantined) && d.State != Quarantined {
			continue
		}
		next, err := t.doc(n)
		if err != nil {
			return e, err
		}
		if next != nil {
			e.SupersededBy = next.ID
		}
		break
	}
	return e, nil
}

// Get returns an entry in any state. The error is ErrNotFound if it does not exist.
func (m *Memory) Get(ctx context.Context, scope Scope, id string) (*Entry, error) {
	var e Entry
	err := m.view(ctx, scope, func(t *tx) error {
		d, err := t.find("id", id)
		if err == nil {
			e, err = t.shown(d)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &e, nil
}

// History returns all versions of an entry, the one that became valid first at the beginning. The error is ErrNotFound if
// the entry does not exist.
func (m *Memory) History(ctx context.Context, scope Scope, id string) ([]Entry, error) {
	var list []Entry
	err := m.view(ctx, scope, func(t *tx) error {
		list = nil
		d, err := t.find("id", id)
		if err != nil {
			return err
		}
		versions, err := t.versions(d.Number)
		if err != nil {
			return err
		}
		list, err = t.shownAll(versions)
		return err
	})
	return list, err
}

func (t *tx) shownAll(numbers []uint32) ([]Entry, error) {
	if err := t.fetchDocs(numbers...); err != nil {
		return nil, err
	}
	var list []Entry
	for _, n := range numbers {
		d, err := t.doc(n)
		if err != nil {
			return nil, err
		}
		if d == nil {
			continue
		}
		e, err := t.shown(d)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// Page is one page of a list.
type Page[T any] = driver.Page[T]

// List pages through entries. Entries that are added or removed between two pages do not move the cursor.
func (m *Memory) List(ctx context.Context, scope Scope, q ListQuery) (page Page[Entry], err error) {
	if err := checkSelection(q.Kind, q.Source, q.State); err != nil {
		return page, err
	}
	after, err := parseCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	err = m.view(ctx, scope, func(t *tx) error {
		page, err = t.list(&q, after)
		return err
	})
	return page, err
}

// All yields the entries of a list, page after page. It ignores the query's cursor.
func (m *Memory) All(ctx context.Context, scope Scope, q ListQuery) iter.Seq2[*Entry, error] {
	return driver.All(func(cursor string) (Page[Entry], error) {
		q.Cursor = cursor
		return m.List(ctx, scope, q)
	})
}

// place is the place of an entry in a list.
type place struct {
	valid  int64 // 0 in lists by number
	number uint32
}

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.valid, other.valid), cmp.Compare(p.number, other.number))
}

func parseCursor(text string) (*place, error) {
	if text == "" {
		return nil, nil
	}
	valid, number, _ := strings.Cut(text, ".")
	v, err := strconv.ParseInt(valid, 10, 64)
	n, err2 := strconv.ParseUint(number, 10, 32)
	if err != nil || err2 != nil {
		return nil, cairn.Invalid("cursor", "%q does not belong to this list", text)
	}
	return &place{v, uint32(n)}, nil
}

func (p place) cursor() string {
	return strconv.FormatInt(p.valid, 10) + "." + strconv.FormatUint(uint64(p.number), 10)
}

func (t *tx) list(q *ListQuery, after *place) (page Page[Entry], err error) {
	places, err := t.places(q, after)
	if err != nil {
		return page, err
	}
	size := driver.PageSize(q.Limit)
	for len(places) > 0 {
		part := places[:min(len(places), size)]
		numbers := make([]uint32, len(part))
		for i, p := range part {
			numbers[i] = p.number
		}
		if err := t.fetchDocs(numbers...); err != nil {
			return page, err
		}
		for i, p := range part {
			d, err := t.doc(p.number)
			if err != nil {
				return page, err
			}
			if d == nil || q.Entity != "" && fold(d.Entity) != fold(q.Entity) || q.Session != "" && d.Source.Session != q.Session {
				continue // its hash is that of the entity's name
			}
			e, err := t.shown(d)
			if err != nil {
				return page, err
			}
			if page.Items = append(page.Items, e); len(page.Items) == size {
				if i+1 < len(places) {
					page.Next = p.cursor()
				}
				return page, nil
			}
		}
		places = places[len(part):]
	}
	return page, nil
}

// places returns the places of the entries that a list may have, in its order, after the cursor.
func (t *tx) places(q *ListQuery, after *place) ([]place, error) {
	live, err := t.live(1, 0)
	if err != nil {
		return nil, err
	}
	order := place.compare
	if !q.OldestFirst {
		order = func(a, b place) int { return b.compare(a) }
	}
	var list []place
	for _, n := range live {
		r, err := t.record(n)
		if err != nil {
			return nil, err
		}
		if ok, err := t.selected(q, n, r); err != nil || !ok {
			if err != nil {
				return nil, err
			}
			continue
		}
		p := place{number: n}
		if q.ByValidTime {
			p.valid = r.valid
		}
		if after == nil || order(p, *after) > 0 {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, order)
	return list, nil
}

func (t *tx) selected(q *ListQuery, n uint32, r *record) (bool, error) {
	switch {
	case r.expires > 0 && r.expires <= micros(t.now),
		q.Entity != "" && r.entity != hash32(fold(q.Entity)),
		q.Session != "" && r.thread != hash32(q.Session),
		q.Kind == Fact && !r.is(flagFact), q.Kind == Said && r.is(flagFact),
		q.Source != "" && sourceKinds[min(int(r.source), len(sourceKinds)-1)] != q.Source,
		q.State == Active && r.is(flagQuarantined|flagRedacted),
		q.State == Quarantined && !r.is(flagQuarantined), q.State == Redacted && !r.is(flagRedacted):
		return false, nil
	case !q.Current || r.chain == 0:
		return true, nil
	}
	current, err := t.current(n)
	return current == n, err
}

// current returns the number of the newest version of a memory that is not quarantined; 0 if all are.
func (t *tx) current(n uint32) (uint32, error) {
	versions, err := t.versions(n)
	if err != nil {
		return 0, err
	}
	for _, v := range slices.Backward(versions) {
		r, err := t.record(v)
		if err != nil {
			return 0, err
		}
		if r.live() && !r.is(flagQuarantined) && r.valid <= micros(t.now) {
			return v, nil
		}
	}
	return 0, nil
}

func (t *tx) name(key string) (*name, error) {
	raw, err := t.get(key)
	if err != nil || raw == nil {
		return nil, err
	}
	n := &name{}
	if err := json.Unmarshal(raw, n); err != nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "memory: name %q: %w", key, err)
	}
	return n, nil
}

// Entities pages through the entities and speakers of a scope, ordered by their names in lower case. A name that is
// spelled in several ways is listed as it was spelled first.
func (m *Memory) Entities(ctx context.Context, scope Scope, q driver.PageQuery) (page Page[EntityCount], err error) {
	if q.Newest {
		return page, cairn.Invalid("newest", "cannot be set: names are ordered by text")
	}
	if err := cairn.CheckText("cursor", q.Cursor); err != nil {
		return page, err
	}
	size := q.Size()
	err = m.view(ctx, scope, func(t *tx) error {
		page = Page[EntityCount]{}
		found, err := t.read(driver.MemoryRead{From: nameKey(q.Cursor), Before: "f", Limit: size + 2})
		if err != nil {
			return err
		}
		for _, e := range found[0] {
			if q.Cursor != "" && e.Key == nameKey(q.Cursor) {
				continue
			}
			t.entries[e.Key] = e.Value
			n, err := t.name(e.Key)
			if err != nil {
				return err
			}
			if len(page.Items) == size {
				break
			}
			page.Items = append(page.Items, EntityCount{Name: n.Name, Entries: n.Entity, Spoken: n.Speaker})
			page.Next = e.Key[1:]
		}
		if n := len(found[0]); n == 0 || page.Next == "" || found[0][n-1].Key == "e"+page.Next {
			page.Next = ""
		}
		return nil
	})
	return page, err
}

// Sources counts the entries of a scope by the kind of their source, without kinds that have none.
func (m *Memory) Sources(ctx context.Context, scope Scope) ([]SourceCount, error) {
	var list []SourceCount
	err := m.view(ctx, scope, func(t *tx) error {
		live, err := t.live(1, 0)
		if err != nil {
			return err
		}
		var bits []byte
		if m.opts.Embedder != nil {
			if bits, err = t.get(embeddedKey(m.opts.Embedder.Model())); err != nil {
				return err
			}
		}
		counts := make([]SourceCount, len(sourceKinds))
		for _, n := range live {
			r, err := t.record(n)
			if err != nil {
				return err
			}
			countSource(&counts[min(int(r.source), len(counts)-1)], r, hasBit(bits, n))
		}
		list = nil
		for i := range counts {
			if counts[i].Source = sourceKinds[i]; counts[i].Said+counts[i].Facts > 0 {
				list = append(list, counts[i])
			}
		}
		return nil
	})
	return list, err
}

// countSource adds an entry to the counts of its source.
func countSource(c *SourceCount, r *record, embedded bool) {
	for _, x := range [...]struct {
		count *int
		is    bool
	}{{&c.Said, !r.is(flagFact)}, {&c.Facts, r.is(flagFact)}, {&c.Quarantined, r.is(flagQuarantined)},
		{&c.Redacted, r.is(flagRedacted)}, {&c.Embedded, embedded}} {
		if x.is {
			*x.count++
		}
	}
}

// Export writes all entries of a scope as JSON Lines, in the order in which they were added, and returns how many.
func (m *Memory) Export(ctx context.Context, scope Scope, w io.Writer) (entries int, err error) {
	out := json.NewEncoder(w)
	for e, err := range m.All(ctx, scope, ListQuery{OldestFirst: true}) {
		if err != nil {
			return entries, err
		}
		if err := out.Encode(e); err != nil {
			return entries, err
		}
		entries++
	}
	return entries, nil
}
