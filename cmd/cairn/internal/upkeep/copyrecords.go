package upkeep

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// recordsReport is the result of copying a namespace of records.
type recordsReport struct {
	Namespace string `json:"namespace"`
	Records   int    `json:"records"`
	Copied    int    `json:"copied"` // copied, or to be copied
	Differ    int    `json:"differ"` // differ from those in the target
	copyResult
}

var recordsHeader = []string{"NAMESPACE", "RECORDS", "COPIED", "DIFFER", "OUTCOME"}

func (r *recordsReport) row() []string {
	return []string{r.Namespace, fmt.Sprint(r.Records), fmt.Sprint(r.Copied), fmt.Sprint(r.Differ), r.text()}
}

// namespaces copies records and yields the result for each namespace that is not empty.
func (c *copying) namespaces(ctx context.Context) iter.Seq2[recordsReport, error] {
	return func(yield func(recordsReport, error) bool) {
		from, to := recordsOf(c.source), recordsOf(c.target)
		if c.partial() || from == nil {
			return
		}
		for name, err := range store.All(func(cursor string) (store.Page[string], error) { return from.Namespaces(ctx, cursor) }) {
			if err != nil {
				yield(recordsReport{}, err)
				return
			}
			switch *name {
			case driver.WorkerRecords, driver.AdvanceRecords, driver.TraceRecords: // of processes, or about the rows of one store
				continue
			}
			r := c.namespace(ctx, from, to, *name)
			if r.Error != nil {
				c.failedNamespaces++
			}
			if (r.Records > 0 || r.Error != nil) && !yield(r, ctx.Err()) {
				return
			}
		}
	}
}

// recordsOf returns the records of a store; nil if there is no store or it keeps no records.
func recordsOf(st store.Importer) store.Records {
	if p, ok := driver.As[store.RecordProvider](st); ok {
		return p.Records()
	}
	return nil
}

// besides copies what is not part of a session.
func (c *copying) besides(ctx context.Context) iter.Seq2[recordsReport, error] {
	return func(yield func(recordsReport, error) bool) {
		for _, list := range []iter.Seq2[recordsReport, error]{c.namespaces(ctx), c.memories(ctx), c.usage(ctx)} {
			for r, err := range list {
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}

// memories copies memories and yields the result for each kind of scope, as a namespace whose records are scopes.
func (c *copying) memories(ctx context.Context) iter.Seq2[recordsReport, error] {
	return func(yield func(recordsReport, error) bool) {
		source, ok := driver.As[store.MemoryProvider](c.source)
		if c.partial() || !ok {
			return
		}
		reports := map[driver.MemoryKind]*recordsReport{}
		kinds := []driver.MemoryKind{driver.MemoryOfGroup, driver.MemoryOfSession, driver.MemoryOfUser}
		for _, kind := range kinds {
			reports[kind] = &recordsReport{Namespace: "memories of " + string(kind) + "s", copyResult: copyResult{Outcome: outcomeThere}}
		}
		for row, err := range store.MemoryScopes(ctx, source.Memories()) {
			if err != nil {
				yield(recordsReport{}, err)
				return
			}
			r := reports[row.Kind]
			r.Records++
			r.count(c.copyScope(ctx, source.Memories(), row))
		}
		for _, kind := range kinds {
			r := reports[kind]
			if r.end(c.DryRun); r.Error != nil {
				c.failedNamespaces++
			}
			if r.Records > 0 && !yield(*r, ctx.Err()) {
				return
			}
		}
	}
}

// usage copies the usage by day and yields the result, as a namespace whose records are sums.
func (c *copying) usage(ctx context.Context) iter.Seq2[recordsReport, error] {
	return func(yield func(recordsReport, error) bool) {
		source, ok := driver.As[store.UsageProvider](c.source)
		if c.partial() || !ok {
			return
		}
		var to store.Usages
		target, ok := driver.As[store.UsageProvider](c.target)
		if ok {
			to = target.Usages()
		}
		r := recordsReport{Namespace: "usage by day", copyResult: copyResult{Outcome: outcomeThere}}
		var n int
		var err error
		if n, err = store.CopyUsage(ctx, source.Usages(), to, c.DryRun || to == nil); err == nil && !ok && c.target != nil && n > 0 {
			err = cairn.Errorf(cairn.ErrInvalid, "the target keeps no usage")
		}
		if n == 0 && err == nil {
			return
		}
		if r.Records, r.Copied = n, n; err != nil {
			r.Copied = 0
			r.count(false, err)
		}
		if r.end(c.DryRun); r.Error != nil {
			c.failedNamespaces++
		}
		yield(r, ctx.Err())
	}
}

// copyScope reports whether it copied a scope of memories, or would have without --dry-run.
func (c *copying) copyScope(ctx context.Context, from store.Memories, row *driver.MemoryScopeRow) (bool, error) {
	target, ok := driver.As[store.MemoryProvider](c.target)
	switch {
	case c.DryRun && c.target == nil:
		return true, nil
	case !ok:
		return false, cairn.Errorf(cairn.ErrInvalid, "the target keeps no memories")
	case !c.DryRun:
		return store.CopyMemories(ctx, row, from, target.Memories())
	}
	there, err := store.CopiedMemories(ctx, row.MemoryScope, from, target.Memories())
	return !there && err == nil, err
}

// count adds the outcome for one record.
func (r *recordsReport) count(copied bool, err error) {
	switch {
	case copied:
		r.Copied++
	case errors.Is(err, cairn.ErrExists):
		if r.Differ++; r.Differ == 1 {
			r.fail(err)
		}
	case err != nil:
		r.fail(err)
	}
}

// end sets the outcome.
func (r *recordsReport) end(dryRun bool) {
	switch {
	case r.Error != nil || r.Copied == 0:
	case dryRun:
		r.Outcome = outcomeWouldCopy
	default:
		r.Outcome = outcomeCopied
	}
}

// namespace copies the records of a namespace, or simulates that. A record that differs from the target's does not
// keep the others from being copied.
func (c *copying) namespace(ctx context.Context, from, to store.Records, name string) recordsReport {
	r := recordsReport{Namespace: name, copyResult: copyResult{Outcome: outcomeThere}}
	for rec, err := range store.All(func(cursor string) (store.Page[store.Record], error) {
		return from.List(ctx, store.RecordQuery{Namespace: name, Cursor: cursor})
	}) {
		copied := false
		if err == nil {
			r.Records++
			copied, err = c.copyRecord(ctx, rec, to)
		}
		if r.count(copied, err); err != nil && !errors.Is(err, cairn.ErrExists) {
			return r
		}
	}
	r.end(c.DryRun)
	return r
}

// copyRecord reports whether it copied a record, or would have without --dry-run.
func (c *copying) copyRecord(ctx context.Context, rec *store.Record, to store.Records) (bool, error) {
	switch {
	case !c.DryRun:
		return store.CopyRecord(ctx, rec, to)
	case to == nil:
		return true, nil
	}
	there, err := store.CopiedRecord(ctx, rec, to)
	return !there && err == nil, err
}
