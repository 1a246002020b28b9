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
		if len(c.Session) > 0 || from == nil {
			return
		}
		for name, err := range store.All(func(cursor string) (store.Page[string], error) { return from.Namespaces(ctx, cursor) }) {
			if err != nil {
				yield(recordsReport{}, err)
				return
			}
			if *name == driver.WorkerRecords {
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
		switch {
		case copied:
			r.Copied++
		case errors.Is(err, cairn.ErrExists):
			if r.Differ++; r.Differ == 1 {
				r.fail(err)
			}
		case err != nil:
			r.fail(err)
			return r
		}
	}
	switch {
	case r.Error != nil || r.Copied == 0:
	case c.DryRun:
		r.Outcome = outcomeWouldCopy
	default:
		r.Outcome = outcomeCopied
	}
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
