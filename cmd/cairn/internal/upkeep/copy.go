package upkeep

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/store"
)

type copyCmd struct {
	From    string   `arg:"" help:"The store to copy from, in the form of --store."`
	To      string   `arg:"" help:"The store to copy to. A missing file is created."`
	Session []string `placeholder:"ID" help:"Only these sessions, and no records. Default: all."`
	Tenant  string   `placeholder:"NAME" help:"Only sessions of this tenant, and no records. Default: all."`
	DryRun  bool     `help:"Only show what would be copied."`
	JSON    bool     `name:"json" help:"Print the outcome for each session and each namespace of records as JSON."`
}

// Help returns the details for --help.
func (copyCmd) Help() string {
	return `Each session is copied with its sub-agents, companions and event log as one write, then read back from both stores and
compared. A session that TO already has is skipped if it is identical and refused if it differs, so an interrupted copy can
be run again. A running session is refused: stop it, or wait. The other sessions are still copied.

Then records are copied one by one: data that belongs to no session, such as connected accounts, idempotency keys and
versions of assistants. They keep their remaining time to live. A record that TO already has with another value is refused.
Workers are not copied; they register with the store they work on. Memories are copied last, scope by scope; a scope that
TO already has is skipped if it is identical and refused if it differs. The usage by day follows, into a store without other
usage; with --session or --tenant it stays behind, and the sessions bring their counters.

FROM is not changed. Resume a session in one of the stores only.`
}

// copyOutcome is the outcome of a copy.
type copyOutcome string

const (
	outcomeCopied    copyOutcome = "copied"
	outcomeThere     copyOutcome = "exists"
	outcomeWouldCopy copyOutcome = "to be copied"
	outcomeFailed    copyOutcome = "failed"
)

// copyResult is the result of copying a session tree or a namespace.
type copyResult struct {
	Outcome copyOutcome  `json:"outcome"`
	Error   *cairn.Error `json:"error,omitempty"`
}

// fail sets the result to an error.
func (r *copyResult) fail(err error) {
	r.Outcome = outcomeFailed
	if !errors.As(err, &r.Error) {
		r.Error = cairn.Errorf(cairn.ErrInternal, "%w", err)
	}
}

// text returns the result for a table.
func (r *copyResult) text() string {
	if r.Error == nil {
		return string(r.Outcome)
	}
	return fmt.Sprintf("%s: %s: %s", r.Outcome, r.Error.Code, output.OneLine(r.Error.Message, output.Width))
}

// Run copies sessions and records.
func (cmd *copyCmd) Run(a *cli.App) error {
	for i, id := range cmd.Session {
		var err error
		if cmd.Session[i], err = stores.IDIn(cmd.Tenant, "--session", id); err != nil {
			return err
		}
	}
	if err := stores.CheckTenant(cmd.Tenant); err != nil {
		return err
	}
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
	return newCopying(cmd, a, source, target).run(ctx, a)
}

func newCopying(cmd *copyCmd, a *cli.App, source, target store.Importer) *copying {
	return &copying{copyCmd: cmd, source: source, target: target, progress: a.Progress(), trees: map[copyOutcome]int{}}
}

// run copies. If it is interrupted, it says how far it came.
func (c *copying) run(ctx context.Context, a *cli.App) error {
	err := c.print(ctx, a)
	c.progress.End()
	if ctx.Err() != nil {
		fmt.Fprintln(a.Stderr, c.summary())
	}
	if err != nil {
		return cli.Unfinished(ctx, err)
	}
	return c.failure()
}

// openTarget opens the store to copy to. A dry run creates no file; it returns nil if there is none.
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

// copying is a copy under way. target is nil if a dry run found no store.
type copying struct {
	*copyCmd
	source, target   store.Importer
	progress         *cli.Progress
	trees            map[copyOutcome]int // number of trees by what became of them
	failedNamespaces int
}

// partial reports whether only some sessions are copied, and no records.
func (c *copying) partial() bool { return len(c.Session) > 0 || c.Tenant != "" }

// summary returns how far the copy is.
func (c *copying) summary() string {
	done := 0
	var words []string
	for _, o := range []copyOutcome{outcomeCopied, outcomeWouldCopy, outcomeThere, outcomeFailed} {
		if n := c.trees[o]; n > 0 {
			done += n
			words = append(words, fmt.Sprintf("%d %s", n, o))
		}
	}
	if done == 0 {
		return "No sessions found."
	}
	return output.Count(done, "session") + ": " + strings.Join(words, ", ") + "."
}

// print copies, and prints the result for each session and each namespace of records.
func (c *copying) print(ctx context.Context, a *cli.App) error {
	if c.JSON {
		return output.Items(a.Stdout, func(yield func(any, error) bool) {
			for r, err := range c.copyTrees(ctx) {
				if !yield(r, err) || err != nil {
					return
				}
			}
			for r, err := range c.besides(ctx) {
				if !yield(r, err) || err != nil {
					return
				}
			}
		}, nil)
	}
	err := output.List(a.Stdout, false, c.copyTrees(ctx), treeHeader, (*treeReport).row)
	if err != nil || c.partial() {
		return err
	}
	next, stop := iter.Pull2(c.besides(ctx))
	defer stop()
	r, err, some := next()
	if err != nil || !some {
		return err
	}
	fmt.Fprintln(a.Stdout)
	return output.List(a.Stdout, false, func(yield func(recordsReport, error) bool) {
		for ; some && yield(r, err); r, err, some = next() {
		}
	}, recordsHeader, (*recordsReport).row)
}

// failure returns an error if anything could not be copied.
func (c *copying) failure() error {
	var failed []string
	if n := c.trees[outcomeFailed]; n > 0 {
		failed = append(failed, output.Count(n, "session"))
	}
	if c.failedNamespaces > 0 {
		failed = append(failed, "records of "+output.Count(c.failedNamespaces, "namespace"))
	}
	if failed == nil {
		return nil
	}
	return fmt.Errorf("%s could not be copied", strings.Join(failed, " and "))
}
