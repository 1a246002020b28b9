package work

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

type workStatusCmd struct {
	At    stores.Flags `embed:""`
	JSON  bool         `name:"json" help:"Print JSON, with workers, leases and unserved."`
	Limit int          `default:"50" help:"The maximum number of leases, and of sessions that no worker serves; 0 lists all. Default: 50."`
}

// Help returns the details for --help.
func (workStatusCmd) Help() string {
	return `A worker is listed until its registration lapses, one lease duration after its last heartbeat. All times are those of the
store's clock.

A lease whose owner is not a registered worker belongs to a process that runs sessions without being a worker, such as a
server, to a worker that is shutting down, or to one that has just died.`
}

// lease is a session whose lease is held.
type lease struct {
	Owner string `json:"owner"`
	// Registered reports whether the owner is a registered worker.
	Registered bool      `json:"registered"`
	SessionID  string    `json:"session_id"`
	RootID     string    `json:"root_id"`
	Agent      string    `json:"agent"`
	RunID      string    `json:"run_id"`
	Until      time.Time `json:"until"`
}

// unserved is a due session whose agent no registered worker serves.
type unserved struct {
	SessionID string        `json:"session_id"`
	Agent     string        `json:"agent"`
	Kind      store.DueKind `json:"kind"`
	Since     time.Time     `json:"since"`
}

// WorkStatus is the command's output.
type WorkStatus struct {
	Workers  []workerStatus `json:"workers"`
	Leases   []lease        `json:"leases"`
	Unserved []unserved     `json:"unserved"`
	// More names the lists that were cut off at the limit.
	More []string `json:"more,omitempty"`
}

// workerStatus is a worker with the number of its leases.
type workerStatus struct {
	engine.Worker
	Leases int `json:"leases"`
}

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
	s := &WorkStatus{Workers: []workerStatus{}, Leases: []lease{}, Unserved: []unserved{}}
	held := map[string]int{} // by owner
	for w, err := range eng.Workers(ctx) {
		if err != nil {
			return nil, err
		}
		s.Workers = append(s.Workers, workerStatus{Worker: w})
		held[w.Owner] = 0
	}
	for l, err := range leases(ctx, eng) {
		if err != nil {
			return nil, err
		}
		if n, ok := held[l.Owner]; ok {
			held[l.Owner], l.Registered = n+1, true
		}
		if cmd.Limit > 0 && len(s.Leases) == cmd.Limit {
			if !slices.Contains(s.More, "leases") {
				s.More = append(s.More, "leases")
			}
			continue // the rest are only counted
		}
		s.Leases = append(s.Leases, l)
	}
	for i := range s.Workers {
		s.Workers[i].Leases = held[s.Workers[i].Owner]
	}
	slices.SortStableFunc(s.Leases, func(a, b lease) int { return strings.Compare(a.Owner, b.Owner) })
	for d, err := range eng.Unserved(ctx) {
		if err != nil {
			return nil, err
		}
		if cmd.Limit > 0 && len(s.Unserved) == cmd.Limit {
			s.More = append(s.More, "unserved")
			break
		}
		s.Unserved = append(s.Unserved, unserved{SessionID: d.SessionID, Agent: d.Agent, Kind: d.Kind, Since: d.Since})
	}
	return s, nil
}

// leases yields the sessions whose lease has not lapsed, newest first.
func leases(ctx context.Context, eng *engine.Engine) iter.Seq2[lease, error] {
	active := pages.All(func(cursor string) (store.Page[cairn.Session], error) {
		return eng.Sessions(ctx, store.SessionQuery{Statuses: []cairn.SessionStatus{cairn.SessionActive}, Cursor: cursor, Limit: 1000})
	})
	return func(yield func(lease, error) bool) {
		for s, err := range active {
			if err == nil && !s.Running(s.AsOf) {
				continue
			}
			l := lease{Owner: s.Lease.Owner, SessionID: s.ID, RootID: s.RootID, Agent: s.Agent, RunID: s.RunID, Until: s.Lease.Until}
			if !yield(l, err) {
				return
			}
		}
	}
}

func (s *WorkStatus) print(a *cli.App) error {
	err := output.List(a.Stdout, false, pages.Of(s.Workers...), []string{"WORKER", "AGENTS", "HOST", "VERSION", "SINCE", "HEARTBEAT", "LEASES"}, func(w *workerStatus) []string {
		return []string{w.Owner, strings.Join(w.Agents, ", "), w.Host, w.Version, output.Age(w.AsOf, w.Since), output.Age(w.AsOf, w.HeartbeatAt), fmt.Sprint(w.Leases)}
	})
	if err == nil && len(s.Leases) > 0 {
		fmt.Fprintln(a.Stdout)
		err = output.List(a.Stdout, false, pages.Of(s.Leases...), []string{"LEASE OF", "REGISTERED", "SESSION", "AGENT", "RUN", "UNTIL"}, func(l *lease) []string {
			registered := "no"
			if l.Registered {
				registered = "yes"
			}
			return []string{l.Owner, registered, l.SessionID, l.Agent, l.RunID, output.Stamp(l.Until)}
		})
	}
	if err == nil && len(s.Unserved) > 0 {
		fmt.Fprintln(a.Stdout)
		err = output.List(a.Stdout, false, pages.Of(s.Unserved...), []string{"NOT SERVED", "SESSION", "BECAUSE", "SINCE"}, func(u *unserved) []string {
			return []string{u.Agent, u.SessionID, string(u.Kind), output.Stamp(u.Since)}
		})
	}
	if err == nil && len(s.More) > 0 {
		_, err = fmt.Fprintf(a.Stderr, "There are more (%s): --limit 0 lists all.\n", strings.Join(s.More, ", "))
	}
	return err
}
