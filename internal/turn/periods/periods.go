// Package periods counts what runs use of the budgets of periods, see [cairn.BudgetRule], in records of the store. The
// decision whether a model call fits is made in package budget; no run is driven or changed here.
package periods

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine/settings"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/turn/budget"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	// shards is the number of records of a counter: so many runs can reserve at the same time without a conflict.
	shards = 16
	// keepEnded is how long it is kept that a run has ended. A process that was suspended for that long after it began a run
	// could count the run again.
	keepEnded = 10 * time.Minute
	// keepPeriod is how long the counters of a period are kept after its end.
	keepPeriod = 31 * 24 * time.Hour
	// longest is the longest pause after a write that another process was faster with.
	longest = 50 * time.Millisecond
)

// Periods are the budgets of periods. It is safe for concurrent use.
type Periods struct {
	*settings.Options
	Store driver.Store
	// Records are the store's. They are not nil if Options.Budgets has rules.
	Records driver.Records
}

// counter is one period of a rule, for one user, agent, tag or tenant.
type counter struct {
	rule *cairn.BudgetRule
	of   string
	// The period begins at begin and ends at next.
	begin, next time.Time
	// key is the index of the counter's records, and the beginning of their keys.
	key string
}

// Owner is what of a session decides which rules apply to it. Tags are those of its root.
type Owner struct {
	User, Agent, Tenant string
	Tags                []string
}

// Applies reports whether there are rules.
func (p *Periods) Applies() bool { return len(p.Budgets) > 0 }

// counters returns the counters that apply to a session at a time.
func (p *Periods) counters(o Owner, now time.Time) (list []counter) {
	for i := range p.Budgets {
		r := &p.Budgets[i]
		var names []string
		switch r.Scope {
		case cairn.BudgetOfUser:
			names = []string{o.User}
		case cairn.BudgetOfAgent:
			names = []string{o.Agent}
		case cairn.BudgetOfTag:
			names = o.Tags
		case cairn.BudgetOfTenant:
			names = []string{o.Tenant}
		}
		for _, name := range names {
			if name != "" && (r.Of == "" || r.Of == name) {
				list = append(list, at(r, name, now))
			}
		}
	}
	return list
}

func at(r *cairn.BudgetRule, of string, now time.Time) counter {
	begin, next := r.Begin(now)
	return counter{r, of, begin, next, ids.Derive("budget", r.Name, string(r.Scope), of, string(r.Period), begin.UTC().Format(time.RFC3339))}
}

// Owner returns what of a session decides which rules apply to it. It reads the root of a sub-agent if a rule is about tags.
func (p *Periods) Owner(ctx context.Context, row *cairn.Session) (Owner, error) {
	o := Owner{User: row.UserID, Agent: row.Agent, Tenant: row.Tenant, Tags: row.Tags}
	if row.ParentID == "" || !slices.ContainsFunc(p.Budgets, func(r cairn.BudgetRule) bool { return r.Scope == cairn.BudgetOfTag }) {
		return o, nil
	}
	root, err := driver.Load(ctx, p.Store, row.RootID)
	if err == nil {
		o.Tags = root.Tags
	}
	return o, err
}

// Call is a model call that is about to begin.
type Call struct {
	Session string
	// Run is the call's run, which began at Began.
	Run   string
	Began time.Time
	Owner Owner
	// Used is what the run has used so far, and Estimate what the call may use.
	Used, Estimate budget.Amount
	// Now is the store's time.
	Now time.Time
}

// Denied is a budget that does not allow a model call.
type Denied struct {
	Rule   *cairn.BudgetRule
	Report *cairn.BudgetReport
}

// Reserve reserves what a model call may use with each budget that applies to it, and records what its run has used until
// now. It returns the first budget that does not allow the call; nil if all do. Warnings are the budgets of which the
// share for a warning is used or reserved for the first time. The error is ErrFenced if the run has ended.
func (p *Periods) Reserve(ctx context.Context, c Call) (denied *Denied, warnings []*cairn.BudgetReport, err error) {
	for _, n := range p.counters(c.Owner, c.Now) {
		denied, warning, err := p.reserve(ctx, n, c)
		if err != nil || denied != nil {
			return denied, warnings, err
		}
		if warning != nil {
			warnings = append(warnings, warning)
		}
	}
	return nil, warnings, nil
}

// reserve reserves with one counter.
func (p *Periods) reserve(ctx context.Context, n counter, c Call) (denied *Denied, warning *cairn.BudgetReport, err error) {
	first := false
	err = p.change(ctx, n, c.Run, c.Now, func(all *ledger) (bool, error) {
		own := all.own(c.Run)
		share, known := own.Runs[c.Run]
		if share.Ended {
			return false, cairn.Errorf(cairn.ErrFenced, "session %q: run %q has ended", c.Session, c.Run)
		}
		spent, raised := all.sums(c.Run)
		if known {
			spent = spent.Plus(c.Used.Minus(share.Base))
		}
		denied, warning, first = nil, nil, !known
		if r := budget.Exceeded(&n.rule.Budget, spent, raised, c.Estimate); r != nil {
			denied = &Denied{n.rule, n.report(r)}
			return false, nil
		}
		own.Reserve(c.Run, c.Session, c.Used, c.Estimate, c.Now.Add(2*p.LeaseTTL))
		if w := budget.Warnings(&n.rule.Budget, budget.Amount{}, spent.Plus(c.Estimate), raised); len(w) > 0 && !all.warned() {
			own.Warned, warning = true, n.report(w[0])
		}
		return true, nil
	})
	if err == nil && denied == nil && first && c.Began.Before(n.begin) {
		_, err = p.end(ctx, at(n.rule, n.of, n.begin.Add(-1)), c.Run, c.Used, c.Now)
	}
	return denied, warning, err
}

// Raise records the raise of an answered call about a budget of an owner. A run records the call that its first step has
// answered before it asks anything: the answer is used even if another budget does not allow the step.
func (p *Periods) Raise(ctx context.Context, o Owner, run string, call *cairn.PendingCall, now time.Time) error {
	var r cairn.BudgetReport
	if !budget.Raises(call) || json.Unmarshal(call.Payload, &r) != nil || r.Rule == "" {
		return nil
	}
	for _, n := range p.counters(o, now) {
		if r.Rule != n.rule.Name || r.Of != n.of || !r.Until.Equal(n.next) {
			continue
		}
		err := p.change(ctx, n, run, now, func(all *ledger) (bool, error) {
			own := all.own(run)
			if _, known := own.Raised[call.ID]; known {
				return false, nil
			}
			if own.Raised == nil {
				own.Raised = map[string]budget.Amount{}
			}
			own.Raised[call.ID] = budget.Raise(&n.rule.Budget, call)
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// report completes a report about the counter.
func (n *counter) report(r *cairn.BudgetReport) *cairn.BudgetReport {
	r.Per, r.Rule, r.Of, r.Until = string(n.rule.Period), n.rule.Name, n.of, n.next.UTC()
	return r
}

// searched is how many periods before its end are searched for the last model call of a run.
const searched = 3

// End counts what a run has used that is committed as ended. row is its session, as of a time before that. A process that
// dies before it leaves that to the next one that reserves with the budget.
func (p *Periods) End(ctx context.Context, run *cairn.Run, row *cairn.Session) {
	owner, err := p.Owner(ctx, row)
	if err == nil {
		err = p.endAll(ctx, p.counters(owner, row.AsOf), run, row.AsOf)
	}
	if err != nil {
		p.Logger.Warn("usage of a run not counted; its reservation lapses", "session", row.ID, "run", run.ID, "error", err)
	}
}

func (p *Periods) endAll(ctx context.Context, list []counter, run *cairn.Run, now time.Time) error {
	for _, n := range list {
		// The period of the last model call: usually the current one, or one that began since the row was read.
		tries := []counter{n, at(n.rule, n.of, n.next)}
		for range searched {
			if !run.StartedAt.Before(n.begin) {
				break
			}
			n = at(n.rule, n.of, n.begin.Add(-1))
			tries = append(tries, n)
		}
		for _, n := range tries {
			if found, err := p.end(ctx, n, run.ID, budget.Of(run.Usage), now); found || err != nil {
				if err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}

// end counts what a run has used in all, and reports whether the counter has a share of the run.
func (p *Periods) end(ctx context.Context, n counter, run string, used budget.Amount, now time.Time) (found bool, err error) {
	err = p.change(ctx, n, run, now, func(all *ledger) (bool, error) {
		own := all.own(run)
		_, found = own.Runs[run]
		own.End(run, used, now.Add(keepEnded))
		return found, nil
	})
	return found, err
}

// Spent returns the reports of a rule's budget of a user, agent, tag or tenant in the period of now, one for each limit.
func (p *Periods) Spent(ctx context.Context, r *cairn.BudgetRule, of string, now time.Time) ([]*cairn.BudgetReport, error) {
	n := at(r, of, now)
	var total, raised budget.Amount
	err := p.change(ctx, n, "", now, func(all *ledger) (bool, error) {
		total, raised = all.sums("")
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	list := budget.Reports(&r.Budget, total, raised)
	for _, report := range list {
		n.report(report)
	}
	return list, nil
}

// ledger are the shards of a counter.
type ledger struct {
	by       map[int]*budget.Shard
	versions map[int]int64
}

func shardOf(run string) int {
	h := fnv.New32a()
	h.Write([]byte(run))
	return int(h.Sum32() % shards)
}

// own returns the shard of a run.
func (l *ledger) own(run string) *budget.Shard {
	i := shardOf(run)
	if l.by[i] == nil {
		l.by[i] = &budget.Shard{}
	}
	return l.by[i]
}

// sums returns what is counted without a run's share, and what was added to the limits.
func (l *ledger) sums(without string) (total, raised budget.Amount) {
	for _, s := range l.by {
		total = total.Plus(s.Total(without))
		for _, r := range s.Raised {
			raised = raised.Plus(r)
		}
	}
	return total, raised
}

func (l *ledger) warned() bool {
	for _, s := range l.by {
		if s.Warned {
			return true
		}
	}
	return false
}

// load reads the shards of a counter.
func (p *Periods) load(ctx context.Context, n counter) (*ledger, error) {
	all := &ledger{by: map[int]*budget.Shard{}, versions: map[int]int64{}}
	page, err := p.Records.List(ctx, driver.RecordQuery{Namespace: driver.BudgetRecords, Index: &driver.IndexRange{From: n.key, Before: n.key + "!"}})
	if err != nil {
		return nil, err
	}
	for i := range page.Items {
		r := &page.Items[i]
		s := &budget.Shard{}
		shard, err := strconv.Atoi(r.Key[len(n.key)+1:])
		if err == nil {
			err = json.Unmarshal(r.Value, s)
		}
		if err != nil {
			return nil, cairn.Errorf(cairn.ErrCorrupt, "budget record %q: %w", r.Key, err)
		}
		all.by[shard], all.versions[shard] = s, r.Version
	}
	return all, nil
}

// change changes the shard of a run, if do reports that it has done so. It first counts the runs of processes that have
// died. do is called again if another process has changed the shard meanwhile.
func (p *Periods) change(ctx context.Context, n counter, run string, now time.Time, do func(*ledger) (bool, error)) error {
	return retry.Storage(ctx, p.Logger, func() error {
		for {
			all, err := p.load(ctx, n)
			if err != nil {
				return err
			}
			if err := p.settle(ctx, n, all, run, now); err != nil {
				return err
			}
			changed, err := do(all)
			if err == nil && changed {
				err = p.put(ctx, n, all, shardOf(run), now)
			}
			if !errors.Is(err, cairn.ErrStale) {
				return err
			}
			if err := retry.Sleep(ctx, rand.N(longest)); err != nil {
				return err
			}
		}
	})
}

// settle counts the lapsed reservations of runs that no process drives any more by what the runs have committed, and
// renews those of runs in progress. It writes the shards of other runs than own; the caller writes that of own.
func (p *Periods) settle(ctx context.Context, n counter, all *ledger, own string, now time.Time) error {
	for i, s := range all.by {
		lapsed := s.Lapsed(own, now)
		for _, run := range lapsed {
			if err := p.settleRun(ctx, s, run, now); err != nil {
				return err
			}
		}
		if len(lapsed) > 0 && i != shardOf(own) {
			if err := p.put(ctx, n, all, i, now); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Periods) settleRun(ctx context.Context, s *budget.Shard, run string, now time.Time) error {
	share := s.Runs[run]
	snap, err := p.Store.Read(ctx, share.Session, driver.Want{Run: run})
	switch {
	case errors.Is(err, cairn.ErrNotFound): // the session was purged
		s.End(run, share.Base.Plus(share.Used), now.Add(keepEnded))
		return nil
	case err != nil:
		return err
	}
	row := snap.Session
	switch {
	case row.RunID != run || row.Status != cairn.SessionActive:
		s.End(run, budget.Of(snap.Run.Usage), now.Add(keepEnded))
		return nil
	case !row.Lease.Held(row.AsOf): // the process has died; another one will continue the run
		share.Used, share.Held = budget.Of(row.RunUsage).Minus(share.Base), budget.Amount{}
	}
	share.Until = now.Add(2 * p.LeaseTTL)
	s.Runs[run] = share
	return nil
}

func (p *Periods) put(ctx context.Context, n counter, all *ledger, shard int, now time.Time) error {
	value, err := json.Marshal(all.by[shard])
	if err != nil {
		return err
	}
	r, err := p.Records.Put(ctx, driver.RecordWrite{Namespace: driver.BudgetRecords, Key: n.key + "/" + strconv.Itoa(shard), Index: n.key, Value: value,
		Seen: all.versions[shard], TTL: max(n.next.Sub(now), 0) + keepPeriod})
	if err == nil {
		all.versions[shard] = r.Version
	}
	return err
}

// New returns the budgets of a process.
func New(o *settings.Options, st driver.Store, records driver.Records) *Periods {
	return &Periods{Options: o, Store: st, Records: records}
}
