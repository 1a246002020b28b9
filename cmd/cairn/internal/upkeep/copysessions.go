package upkeep

import (
	"context"
	"fmt"
	"iter"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// treeReport is the result of copying a session tree.
type treeReport struct {
	Session  string `json:"session"`
	Sessions int    `json:"sessions"` // in the tree
	Messages int    `json:"messages"`
	Events   int64  `json:"events"`
	copyResult
}

var treeHeader = []string{"SESSION", "SESSIONS", "MESSAGES", "EVENTS", "OUTCOME"}

func (r *treeReport) row() []string {
	return []string{r.Session, fmt.Sprint(r.Sessions), fmt.Sprint(r.Messages), fmt.Sprint(r.Events), r.text()}
}

// copyTrees copies session trees and yields the result for each. One that is cut short by the end of ctx has none.
func (c *copying) copyTrees(ctx context.Context) iter.Seq2[treeReport, error] {
	copies := c.wouldCopy
	if !c.DryRun {
		copies = c.copied
	}
	return func(yield func(treeReport, error) bool) {
		for r, err := range copies(ctx) {
			if err != nil {
				yield(treeReport{}, err)
				return
			}
			c.trees[r.Outcome]++
			c.progress.Show("%s", c.summary())
			if !yield(r, nil) {
				return
			}
		}
	}
}

// copied copies session trees.
func (c *copying) copied(ctx context.Context) iter.Seq2[treeReport, error] {
	return func(yield func(treeReport, error) bool) {
		for t, err := range store.CopyTrees(ctx, c.source, c.target, c.roots(ctx)) {
			r := treeReport{Session: t.Root, Sessions: t.Sessions, Messages: t.Messages, Events: t.Events}
			switch r.Outcome = outcomeThere; {
			case t.Err != nil:
				r.fail(t.Err)
			case t.Copied:
				r.Outcome = outcomeCopied
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// wouldCopy simulates a copy of session trees.
func (c *copying) wouldCopy(ctx context.Context) iter.Seq2[treeReport, error] {
	return func(yield func(treeReport, error) bool) {
		for root, err := range c.roots(ctx) {
			r := treeReport{Session: root, copyResult: copyResult{Outcome: outcomeWouldCopy}}
			if err == nil {
				var there bool
				failed := r.measure(ctx, c.source)
				if failed == nil {
					there, failed = store.Copied(ctx, c.source, c.target, root)
				}
				if there {
					r.Outcome = outcomeThere
				}
				if failed != nil {
					r.fail(failed)
				}
				err = ctx.Err()
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// roots yields the ids of the sessions to copy, newest first unless they were named.
func (c *copying) roots(ctx context.Context) iter.Seq2[string, error] {
	if len(c.Session) > 0 {
		return pages.Of(c.Session...)
	}
	var tenant *string
	if c.Tenant != "" {
		tenant = &c.Tenant
	}
	return func(yield func(string, error) bool) {
		for s, err := range pages.All(func(cursor string) (store.Page[cairn.Session], error) {
			return c.source.List(ctx, store.SessionQuery{Tenant: tenant, RootsOnly: true, Cursor: cursor})
		}) {
			if !yield(s.ID, err) {
				return
			}
		}
	}
}

// measure counts the sessions, messages and events of a session tree.
func (r *treeReport) measure(ctx context.Context, source store.Importer) error {
	rows, err := driver.Tree(ctx, source, r.Session)
	if err != nil {
		return err
	}
	r.Sessions = len(rows)
	for i := range rows {
		r.Messages += rows[i].MessageCount
	}
	first, last, err := source.EventLog().Bounds(ctx, rows[0].Log())
	r.Events = last - first + 1
	return err
}
