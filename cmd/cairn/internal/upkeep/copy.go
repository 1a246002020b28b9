package upkeep

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/store"
)

type copyCmd struct {
	From    string   `arg:"" help:"The store to copy from, as --store names it elsewhere."`
	To      string   `arg:"" help:"The store to copy to. A file is made if there is none."`
	Session []string `placeholder:"ID" help:"Only these sessions. Default: all."`
	DryRun  bool     `help:"Only show what would be copied."`
	JSON    bool     `name:"json" help:"Print what became of each session as a JSON array."`
}

// Help is what --help adds.
func (copyCmd) Help() string {
	return `A session is copied with its sub-agents, companions and event log, all at once or not at all, and then read back from both
stores. One that is there already and the same is skipped, so a copy that was interrupted can simply be run again. One that
is there and differs is left alone, and so is one that is running: stop it, or wait. The other sessions are copied all the
same.

Nothing is removed from the store that is copied from. Resume a session in one of the stores only.`
}

// copyOutcome says what became of a session.
type copyOutcome string

const (
	outcomeCopied    copyOutcome = "copied"
	outcomeThere     copyOutcome = "there already"
	outcomeWouldCopy copyOutcome = "to be copied"
	outcomeFailed    copyOutcome = "failed"
)

// copyReport is what became of a session tree.
type copyReport struct {
	Session  string       `json:"session"`
	Sessions int          `json:"sessions"` // in the tree
	Messages int          `json:"messages"`
	Events   int64        `json:"events"`
	Outcome  copyOutcome  `json:"outcome"`
	Error    *cairn.Error `json:"error,omitempty"`
}

// Run copies.
func (cmd *copyCmd) Run(a *cli.App) error {
	from, err := stores.Parse("FROM", cmd.From)
	if err != nil {
		return err
	}
	to, err := stores.Parse("TO", cmd.To)
	if err != nil {
		return err
	}
	if from.Same(to) {
		return cli.Misuse("FROM and TO are the same store")
	}
	ctx, stop := cli.UntilStopped()
	defer stop()
	source, err := from.OpenExisting(ctx, a)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := cmd.openTarget(ctx, a, to)
	if err != nil {
		return err
	}
	if target != nil {
		defer target.Close()
	}
	failed := 0
	reports := func(yield func(copyReport, error) bool) {
		for root, err := range cmd.roots(ctx, source) {
			if err != nil {
				yield(copyReport{}, err)
				return
			}
			r := cmd.one(ctx, source, target, root)
			if r.Error != nil {
				failed++
			}
			if !yield(r, ctx.Err()) {
				return
			}
		}
	}
	err = output.List(a.Stdout, cmd.JSON, reports, []string{"SESSION", "SESSIONS", "MESSAGES", "EVENTS", "OUTCOME"}, func(r *copyReport) []string {
		outcome := string(r.Outcome)
		if r.Error != nil {
			outcome = fmt.Sprintf("%s: %s: %s", outcome, r.Error.Code, output.OneLine(r.Error.Message, output.Width))
		}
		return []string{r.Session, fmt.Sprint(r.Sessions), fmt.Sprint(r.Messages), fmt.Sprint(r.Events), outcome}
	})
	if err == nil && failed > 0 {
		err = fmt.Errorf("%s could not be copied", output.Count(failed, "session"))
	}
	return err
}

// openTarget opens the store to copy to. Trying it out makes no file; then there is none.
func (cmd *copyCmd) openTarget(ctx context.Context, a *cli.App, to *stores.Address) (store.Importer, error) {
	if to.File() == "" {
		return to.OpenExisting(ctx, a)
	}
	if cmd.DryRun {
		migrations, err := to.Migrations(ctx)
		if err != nil || stores.Applied(migrations) == 0 {
			return nil, err
		}
	}
	return to.Open(ctx, a.Engine.Now)
}

// roots yields the ids of the sessions to copy, the newest first unless they were named.
func (cmd *copyCmd) roots(ctx context.Context, source store.Importer) iter.Seq2[string, error] {
	if len(cmd.Session) > 0 {
		return pages.Of(cmd.Session...)
	}
	return func(yield func(string, error) bool) {
		for s, err := range pages.All(func(cursor string) (store.Page[cairn.Session], error) {
			return source.List(ctx, store.SessionQuery{RootsOnly: true, Cursor: cursor})
		}) {
			if !yield(s.ID, err) {
				return
			}
		}
	}
}

// one copies a session tree, or tries it out.
func (cmd *copyCmd) one(ctx context.Context, source, target store.Importer, root string) copyReport {
	r := copyReport{Session: root, Outcome: outcomeFailed}
	err := r.measure(ctx, source)
	if err == nil {
		r.Outcome, err = cmd.carryOut(ctx, source, target, root)
	}
	if err != nil {
		r.Outcome = outcomeFailed
		if !errors.As(err, &r.Error) {
			r.Error = cairn.Errorf(cairn.CodeInternal, "%w", err)
		}
	}
	return r
}

// measure counts what there is of a session tree.
func (r *copyReport) measure(ctx context.Context, source store.Importer) error {
	rows, err := store.Tree(ctx, source, r.Session)
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

func (cmd *copyCmd) carryOut(ctx context.Context, source, target store.Importer, root string) (copyOutcome, error) {
	if !cmd.DryRun {
		copied, err := store.Copy(ctx, source, target, root)
		if copied {
			return outcomeCopied, err
		}
		return outcomeThere, err
	}
	there, err := store.Copied(ctx, source, target, root)
	if there {
		return outcomeThere, err
	}
	return outcomeWouldCopy, err
}
