package torture

import (
	"strconv"
	"time"
)

// life is the plan of one process.
type life struct {
	order order
	plan  plan
}

// plan draws what a process does and how it ends.
func (h *harness) plan(group []string, clerk bool) life {
	h.lives++
	p, lease := newPlan(h.rng), between(h.rng, 100, 200)
	if p.end == byTerm && p.frozen == 0 && h.rng.IntN(2) == 0 {
		lease = longLease
	}
	pace := int(h.pace.Load())
	lease *= time.Duration(pace)
	o := order{LeaseTTL: lease}
	if h.host.Defaults {
		lease, o.LeaseTTL = 30*time.Second, 0
	}
	p = p.slowed(pace, lease)
	o.Dir, o.Name, o.Sessions, o.Clerk, o.Alone, o.Elsewhere, o.Records = h.dir, strconv.Itoa(h.lives), group, clerk, h.host.alone, h.host.Elsewhere, h.host.Records
	o.Pace, o.Seed, o.Signal, o.Grace = pace, h.rng.Uint64(), p.signal, p.grace
	o.Ahead = time.Duration(h.rng.Int64N(int64(2**flagAhead+1))) - *flagAhead
	return life{o, p}
}

// live starts a process, stops it, and checks that the store lists what needs a worker.
func (h *harness) live(l life, since time.Time) {
	v := startVictim(h.t, &l.order)
	if err := v.stop(l.plan); err != nil {
		h.t.Error(err)
		return
	}
	h.mu.Lock()
	if v.ready > 0 {
		h.started = append(h.started, v.ready)
	}
	h.stops[v.name] = stop{v.last, l.plan.end, l.plan.frozen > 0}
	h.moments[l.plan.moment]++
	h.mu.Unlock()
	if !l.order.Clerk { // a clerk may outlive the last worker of its round
		for _, err := range h.watch.ask(h.t.Context(), since) {
			h.t.Errorf("after process %s had ended (%s): %v", v.name, l.plan.end, err)
		}
	}
	// With a short lease, a process may consider the lease lost while it is being renewed.
	if pid := v.cmd.Process.Pid; l.plan.end == byTerm && !l.plan.fromStart && h.host.Server == nil && h.host.alone && l.order.LeaseTTL >= longLease {
		if err := h.watch.left(h.t.Context(), pid); err != nil {
			h.t.Errorf("process %s was asked to end: %v", v.name, err)
		}
	}
}
