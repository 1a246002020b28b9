package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

// workCmds holds the worker and what looks at all of them.
type workCmds struct {
	Run    workCmd       `cmd:"" default:"withargs" help:"Go on with the demo's sessions that are ready or whose process died, until interrupted. \"run\" can be left out."`
	Status workStatusCmd `cmd:"" help:"List the workers, the sessions that they and others hold, and what no worker serves."`
}

type workStatusCmd struct {
	storeFlags
	JSON  bool `name:"json" help:"Print JSON: workers, leases and unserved, each with what there is of it."`
	Limit int  `default:"50" help:"At most so many leases, and so many sessions that no worker serves; 0 lists all. Default: 50."`
}

// Help is what --help adds.
func (workStatusCmd) Help() string {
	return `A worker is listed while it works; one that died, until its registration lapses, as long after its last heartbeat as a
lease lasts. All times are those of the store's clock.

A lease whose owner is no registered worker belongs to a process that runs sessions without being a worker, such as a
server, to a worker that is about to end, or to one that died a moment ago.`
}

// lease is a session that an engine holds.
type lease struct {
	Owner string `json:"owner"`
	// Registered says that the owner is a registered worker.
	Registered bool      `json:"registered"`
	SessionID  string    `json:"session_id"`
	RootID     string    `json:"root_id"`
	Agent      string    `json:"agent"`
	RunID      string    `json:"run_id"`
	Until      time.Time `json:"until"`
}

// unserved is a session that is due and whose agent no registered worker serves.
type unserved struct {
	SessionID string        `json:"session_id"`
	Agent     string        `json:"agent"`
	Kind      store.DueKind `json:"kind"`
	Since     time.Time     `json:"since"`
}

// workStatus is what the command prints.
type workStatus struct {
	Workers  []workerStatus `json:"workers"`
	Leases   []lease        `json:"leases"`
	Unserved []unserved     `json:"unserved"`
	// More says of what there is more than was asked for.
	More []string `json:"more,omitempty"`
}

// workerStatus is a worker with the number of its leases among those that were looked at.
type workerStatus struct {
	engine.Worker
	Leases int `json:"leases"`
}

// Run prints who works on what.
func (cmd *workStatusCmd) Run(a *app) error {
	if cmd.Limit < 0 {
		return misuse("--limit: %d is negative", cmd.Limit)
	}
	return cmd.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		status, err := cmd.look(ctx, eng)
		switch {
		case err != nil:
			return err
		case cmd.JSON:
			return printJSON(a.stdout, status)
		}
		return status.print(a)
	})
}

func (cmd *workStatusCmd) look(ctx context.Context, eng *engine.Engine) (*workStatus, error) {
	s := &workStatus{Workers: []workerStatus{}, Leases: []lease{}, Unserved: []unserved{}}
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
			continue // the rest are counted
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

// leases yields the sessions whose lease is good, the newest first.
func leases(ctx context.Context, eng *engine.Engine) iter.Seq2[lease, error] {
	active := paged(func(cursor string) (store.Page[cairn.Session], error) {
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

func (s *workStatus) print(a *app) error {
	err := list(a, false, each(s.Workers), []string{"WORKER", "AGENTS", "HOST", "VERSION", "SINCE", "HEARTBEAT", "LEASES"}, func(w *workerStatus) []string {
		return []string{w.Owner, strings.Join(w.Agents, ", "), w.Host, w.Version, age(w.AsOf, w.Since), age(w.AsOf, w.HeartbeatAt), fmt.Sprint(w.Leases)}
	})
	if err == nil && len(s.Leases) > 0 {
		fmt.Fprintln(a.stdout)
		err = list(a, false, each(s.Leases), []string{"LEASE OF", "REGISTERED", "SESSION", "AGENT", "RUN", "UNTIL"}, func(l *lease) []string {
			registered := "no"
			if l.Registered {
				registered = "yes"
			}
			return []string{l.Owner, registered, l.SessionID, l.Agent, l.RunID, stamp(l.Until)}
		})
	}
	if err == nil && len(s.Unserved) > 0 {
		fmt.Fprintln(a.stdout)
		err = list(a, false, each(s.Unserved), []string{"NOT SERVED", "SESSION", "BECAUSE", "SINCE"}, func(u *unserved) []string {
			return []string{u.Agent, u.SessionID, string(u.Kind), stamp(u.Since)}
		})
	}
	if err == nil && len(s.More) > 0 {
		_, err = fmt.Fprintf(a.stderr, "There are more (%s): --limit 0 lists all.\n", strings.Join(s.More, ", "))
	}
	return err
}
