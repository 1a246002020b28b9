package server

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// pageBody is one page of a list.
type pageBody[T any] struct {
	// Items are the items of this page.
	Items []T `json:"items"`
	// Next is the cursor of the next page; empty after the last.
	Next string `json:"next,omitempty"`
	// HasMore reports whether there is a next page.
	HasMore bool `json:"has_more"`
	// Limit is the maximum number of items on the page.
	Limit int `json:"limit"`
	// Offset is the number of items before the page. It is absent if the page was asked for by its Cursor.
	Offset *int   `json:"offset,omitempty"`
	Cursor string `json:"cursor,omitempty"`
	// Total is the number of items on all pages, where it is known without counting: for runs and queued turns.
	Total *int `json:"total,omitempty"`
}

// paging is how a list is read: from a cursor, or after a number of items.
type paging struct {
	limit, offset int
	cursor        string
}

func (p *paging) check() error {
	switch {
	case p.limit < 0 || p.limit > maxPage:
		return cairn.Invalid("limit", "must be 1 to %d", maxPage)
	case p.offset < 0 || p.offset > maxOffset:
		return cairn.Invalid("offset", "must be 0 to %d; use a cursor to go further", maxOffset)
	case p.offset > 0 && p.cursor != "":
		return cairn.Invalid("offset", "set either an offset or a cursor, not both")
	}
	if p.limit == 0 {
		p.limit = defaultPage
	}
	return nil
}

// pageAt returns a page of a list, read with checked paging.
func pageAt[T any](p paging, items []T, next string) *pageBody[T] {
	page := &pageBody[T]{Items: orEmpty(items), Next: next, HasMore: next != "", Limit: p.limit, Cursor: p.cursor}
	if p.cursor == "" {
		page.Offset = &p.offset
	}
	return page
}

// read returns a page of a list.
func read[T, Q any](ctx context.Context, p paging, q Q, place func(q *Q, cursor string, limit int),
	list func(context.Context, Q) (store.Page[T], error)) (*pageBody[T], error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	cursor := p.cursor
	for before := p.offset; before > 0; {
		place(&q, cursor, min(before, 1000))
		skipped, err := list(ctx, q)
		if err != nil {
			return nil, err
		}
		before -= len(skipped.Items)
		if cursor = skipped.Next; cursor == "" {
			return pageAt[T](p, nil, ""), nil
		}
	}
	place(&q, cursor, p.limit)
	page, err := list(ctx, q)
	if err != nil {
		return nil, err
	}
	return pageAt(p, page.Items, page.Next), nil
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// public returns a session as its user may see it.
func public(row *cairn.Session) *cairn.Session {
	if row == nil {
		return nil
	}
	out := row.Public()
	out.Tags, out.Metadata = row.Tags, row.Metadata // clients set them
	return &out
}

// publicTo is public, with the instructions of a branch for operators and administrators.
func (c *request) publicTo(row *cairn.Session) *cairn.Session {
	out := public(row)
	if row != nil && (c.wholeErrors() || c.principal.Is(RoleAdmin)) {
		out.Branch = row.Branch
	}
	return out
}

// shown returns the messages that a chat shows.
func (c *request) shown(list []cairn.Message) []cairn.Message {
	out := make([]cairn.Message, 0, len(list))
	for i := range list {
		m := &list[i]
		if m.Hidden {
			continue
		}
		show := m.Public()
		if results := m.ToolResults(); c.wholeErrors() && len(results) > 0 {
			for k := range show.Parts {
				if show.Parts[k].Result != nil {
					show.Parts[k].Result, results = results[0], results[1:]
				}
			}
		}
		out = append(out, show)
	}
	return out
}

// maxPage is the maximum number of items on one page of a list, and defaultPage the number without a limit.
const maxPage, defaultPage = 100, 20

// maxOffset bounds how many items are read only to be skipped.
const maxOffset = 10_000
