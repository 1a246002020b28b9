package work

import (
	"context"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/engine"
)

type workStatusCmd struct {
	At    stores.Tenanted `embed:""`
	JSON  bool            `name:"json" help:"Print JSON, with workers, leases and unserved."`
	Limit int             `default:"50" help:"The maximum number of leases, and of sessions that no worker serves; 0 lists all. Default: 50."`
}

// Help returns the details for --help.
func (workStatusCmd) Help() string {
	return `A worker is listed until its registration lapses, one lease duration after its last heartbeat. All times are those of the
store's clock.

A lease whose owner is not a registered worker belongs to a process that runs sessions without being a worker, such as a
server, to a worker that is shutting down, or to one that has just died.`
}

// WorkStatus is the command's output.
type WorkStatus struct{ *cairn.Operations }

// Run prints the workers, the leases and the sessions that no worker serves.
func (cmd *workStatusCmd) Run(a *cli.App) error {
	if cmd.Limit < 0 {
		return cli.Misuse("--limit: %d is negative", cmd.Limit)
	}
	return cmd.At.Inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		status, err := cmd.look(ctx, eng)
		switch {
		case err != nil:
			return err
		case cmd.JSON:
			return output.JSON(a.Stdout, status)
		}
		return status.print(a)
	})
}

func (cmd *workStatusCmd) look(ctx context.Context, eng *engine.Engine) (*WorkStatus, error) {
	q := engine.OperationsQuery{Tenant: cmd.At.Selected(), Limit: cmd.Limit}
	if cmd.Limit == 0 {
		q.Limit = -1
	}
	report, err := eng.Operations(ctx, q)
	return &WorkStatus{report}, err
}

func (s *WorkStatus) print(a *cli.App) error {
	err := output.List(a.Stdout, false, pages.Of(s.Workers...), []string{"WORKER", "AGENTS", "HOST", "VERSION", "SINCE", "HEARTBEAT", "LEASES"}, func(w *cairn.WorkerLoad) []string {
		return []string{w.Owner, strings.Join(w.Agents, ", "), w.Host, w.Version, output.Age(w.AsOf, w.Since), output.Age(w.AsOf, w.HeartbeatAt), fmt.Sprint(w.Leases)}
	})
	if err == nil && len(s.Leases) > 0 {
		fmt.Fprintln(a.Stdout)
		err = output.List(a.Stdout, false, pages.Of(s.Leases...), []string{"LEASE OF", "REGISTERED", "SESSION", "AGENT", "RUN", "UNTIL"}, func(l *cairn.HeldLease) []string {
			registered := "no"
			if l.Registered {
				registered = "yes"
			}
			return []string{l.Owner, registered, l.SessionID, l.Agent, l.RunID, output.Stamp(l.Until)}
		})
	}
	if err == nil && len(s.Unserved) > 0 {
		fmt.Fprintln(a.Stdout)
		err = output.List(a.Stdout, false, pages.Of(s.Unserved...), []string{"NOT SERVED", "SESSION", "BECAUSE", "SINCE"}, func(u *cairn.DueSession) []string {
			return []string{u.Agent, u.SessionID, u.Kind, output.Stamp(u.Since)}
		})
	}
	if err == nil && len(s.More) > 0 {
		_, err = fmt.Fprintf(a.Stderr, "There are more (%s): --limit 0 lists all.\n", strings.Join(s.More, ", "))
	}
	return err
}
