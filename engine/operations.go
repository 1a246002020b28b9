package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// OperationsQuery limits what [Engine.Operations] reads. The zero value means a hundred items of each list.
type OperationsQuery struct {
	// Tenant selects the sessions of a tenant; an empty one those without a tenant. nil means all.
	Tenant *string
	// Limit is the length of each list; 0 means 100, and a negative number lists and counts all. With a limit, at most
	// 10,000 leases and as many due sessions are counted.
	Limit int
}

const (
	operationsLimit = 100
	operationsScan  = 10_000
	operationsDays  = 7
)

// operations is a report under construction.
type operations struct {
	*cairn.Operations
	limit, scan int // negative for none
	tenant      *string
	workers     map[string]int // places of registered workers, by owner
	served      map[string]bool
}

// Operations returns the registered workers, the leases, the sessions that need a worker, and the model calls of the last
// week. Its cost grows with the number of sessions that are active or due, see [OperationsQuery].
func (e *Engine) Operations(ctx context.Context, q OperationsQuery) (*cairn.Operations, error) {
	o := &operations{tenant: q.Tenant, limit: q.Limit, scan: -1, workers: map[string]int{}, served: map[string]bool{},
		Operations: &cairn.Operations{Workers: []cairn.WorkerLoad{}, Leases: []cairn.HeldLease{}, Due: []cairn.DueCount{},
			Unserved: []cairn.DueSession{}, Days: []cairn.CallsOfDay{}}}
	if o.limit == 0 {
		o.limit = operationsLimit
	}
	if o.limit > 0 {
		o.scan = operationsScan
	}
	for w, err := range e.Workers(ctx) {
		if err != nil {
			return nil, err
		}
		o.workers[w.Owner] = len(o.Workers)
		o.Workers = append(o.Workers, cairn.WorkerLoad{Worker: w})
		for _, agent := range w.Agents {
			o.served[agent] = true
		}
	}
	if err := e.addLeases(ctx, o); err != nil {
		return nil, err
	}
	if err := e.addDue(ctx, o); err != nil {
		return nil, err
	}
	return o.Operations, e.addDays(ctx, o)
}

// more notes that a list is cut off.
func (o *operations) more(list string) {
	if !slices.Contains(o.More, list) {
		o.More = append(o.More, list)
	}
}

// addLeases adds the sessions whose lease is held, newest first, and counts those of workers.
func (e *Engine) addLeases(ctx context.Context, o *operations) error {
	n := 0
	for s, err := range e.reader.sessions(ctx, store.SessionQuery{Tenant: o.tenant, Statuses: []cairn.SessionStatus{cairn.SessionActive}, Limit: 1000}) {
		if err != nil {
			return err
		}
		if n++; o.scan > 0 && n > o.scan {
			o.more("leases")
			break
		}
		if !s.Running(s.AsOf) {
			continue
		}
		place, registered := o.workers[s.Lease.Owner]
		if registered {
			o.Workers[place].Leases++
		}
		if o.limit > 0 && len(o.Leases) == o.limit {
			o.more("leases")
			continue // the rest are only counted
		}
		o.Leases = append(o.Leases, cairn.HeldLease{Owner: s.Lease.Owner, Registered: registered, SessionID: s.ID, RootID: s.RootID, Agent: s.Agent,
			RunID: s.RunID, Turn: s.Turn, Step: s.Step, Recoveries: s.Recoveries, CommittedAt: s.UpdatedAt, Until: s.Lease.Until})
	}
	slices.SortStableFunc(o.Leases, func(a, b cairn.HeldLease) int { return strings.Compare(a.Owner, b.Owner) })
	return nil
}

// addDue counts the sessions that need a worker, and adds those of agents that no registered worker serves.
func (e *Engine) addDue(ctx context.Context, o *operations) error {
	n := 0
	for d, err := range e.Due(ctx) {
		if err != nil {
			return err
		}
		if n++; o.scan > 0 && n > o.scan {
			o.more("due")
			break
		}
		if of, _ := cairn.SplitTenant(d.RootID); o.tenant != nil && of != *o.tenant {
			continue
		}
		o.count(&d)
		switch {
		case o.served[d.Agent]:
		case o.limit > 0 && len(o.Unserved) == o.limit:
			o.more("unserved")
		default:
			o.Unserved = append(o.Unserved, cairn.DueSession{SessionID: d.SessionID, Agent: d.Agent, Kind: string(d.Kind), Since: d.Since})
		}
	}
	return nil
}

func (o *operations) count(d *store.Due) {
	i := slices.IndexFunc(o.Due, func(c cairn.DueCount) bool { return c.Kind == string(d.Kind) })
	if i < 0 {
		i = len(o.Due)
		o.Due = append(o.Due, cairn.DueCount{Kind: string(d.Kind), Since: d.Since})
	}
	c := &o.Due[i]
	c.Count++
	c.Since = earlier(c.Since, d.Since)
}

// addDays adds the model calls of the last days, today included.
func (e *Engine) addDays(ctx context.Context, o *operations) error {
	if _, ok := driver.As[driver.UsageProvider](e.store); !ok {
		return nil
	}
	today := e.opts.Now()
	page, err := e.Usage(ctx, UsageQuery{By: []UsageDimension{UsageByDay}, From: driver.DayOf(today.Add(-(operationsDays - 1) * 24 * time.Hour)), Tenant: o.tenant})
	if err != nil {
		return err
	}
	for _, g := range page.Items {
		o.Days = append(o.Days, cairn.CallsOfDay{Day: g.Day, ModelCalls: g.Usage.ModelCalls, DiscardedCalls: g.Usage.DiscardedCalls})
	}
	return nil
}
