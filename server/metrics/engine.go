package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// maxCounted is the number of rows of a kind that are counted.
const maxCounted = 10_000

// Watch adds gauges of an engine and its store: the runs that the engine drives and its abandoned calls of user code; the
// sessions that need a worker, with how long the first of each kind has been due, and those whose agent no worker serves;
// the calls that wait for people, clients or children, with the age of the oldest one. Ages are by this process's clock.
//
// Due sessions and open calls are counted by indexes: sessions that need nothing cost nothing. At most once in ten seconds the
// gauges are read from the store, up to 10,000 rows of each kind and for at most five seconds; a scrape in between gets the
// same values. A gauge that cannot be read is absent. Call Watch once.
func (m *Metrics) Watch(eng *engine.Engine) {
	m.registry.MustRegister(
		&sampled{descs: []*prometheus.Desc{dueDesc, dueAgeDesc, unservedDesc}, read: func(ctx context.Context, set setter) { readDue(ctx, eng, set) }},
		&sampled{descs: []*prometheus.Desc{openDesc, waitingDesc, openAgeDesc}, read: func(ctx context.Context, set setter) { readInbox(ctx, eng, set) }},
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "cairn_runs_driven", Help: "Runs that this process drives."},
			func() float64 { return float64(eng.Driving()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "cairn_abandoned_calls", Help: "Calls of user code that still run although their run continued without them."},
			func() float64 { return float64(eng.Abandoned()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "cairn_store_behind_total", Help: "Sessions that this process has seen at a later version than the store has."},
			func() float64 { return float64(eng.StoreBehind()) }))
}

// WatchEffects adds a gauge of the effects in an engine's ledger whose outcome is unknown, see [cairn.Effectful]. It is
// read as the gauges of [Metrics.Watch] are. Call it once.
func (m *Metrics) WatchEffects(eng *engine.Engine) {
	m.registry.MustRegister(&sampled{descs: []*prometheus.Desc{unknownDesc}, read: func(ctx context.Context, set setter) {
		q := engine.EffectQuery{States: []cairn.EffectState{cairn.EffectUnknown}, Limit: 1000}
		n := 0
		for _, err := range upTo(maxCounted, func(cursor string) (store.Page[cairn.PendingCall], error) {
			q.Cursor = cursor
			return eng.Effects(ctx, q)
		}) {
			if err != nil {
				return
			}
			n++
		}
		set(unknownDesc, float64(n))
	}})
}

var (
	dueDesc      = prometheus.NewDesc("cairn_sessions_due", "Sessions that need a worker, by the reason.", []string{"kind"}, nil)
	dueAgeDesc   = prometheus.NewDesc("cairn_sessions_due_oldest_seconds", "How long the first of these sessions has been due, in seconds.", []string{"kind"}, nil)
	unservedDesc = prometheus.NewDesc("cairn_sessions_unserved", "Sessions that need a worker and whose agent no live worker serves.", nil, nil)
	openDesc     = prometheus.NewDesc("cairn_inbox_open", "Calls that wait for people, clients or children.", nil, nil)
	waitingDesc  = prometheus.NewDesc("cairn_inbox_sessions", "Sessions of these calls.", nil, nil)
	openAgeDesc  = prometheus.NewDesc("cairn_inbox_oldest_seconds", "How long the oldest of these calls has waited, in seconds.", nil, nil)
	unknownDesc  = prometheus.NewDesc("cairn_effects_unknown", "Effects whose outcome is unknown.", nil, nil)
)

// kindsOfDue are the reasons why a session needs a worker.
var kindsOfDue = []driver.DueKind{driver.DueCrashed, driver.DueEnding, driver.DueReady, driver.DueDeadline, driver.DueQueued, driver.DueOutbox}

// readDue reads the gauges of sessions that need a worker.
func readDue(ctx context.Context, eng *engine.Engine, set setter) {
	served := map[string]bool{}
	for w, err := range eng.Workers(ctx) {
		if err != nil {
			return
		}
		for _, agent := range w.Agents {
			served[agent] = true
		}
	}
	n, unserved := map[driver.DueKind]int{}, 0
	first := map[driver.DueKind]time.Time{}
	all := 0
	for d, err := range eng.Due(ctx) {
		if err != nil {
			return
		}
		if n[d.Kind]++; n[d.Kind] == 1 || d.Since.Before(first[d.Kind]) {
			first[d.Kind] = d.Since
		}
		if !served[d.Agent] {
			unserved++
		}
		if all++; all == maxCounted {
			break
		}
	}
	for _, kind := range kindsOfDue {
		set(dueDesc, float64(n[kind]), string(kind))
		set(dueAgeDesc, age(first[kind]), string(kind))
	}
	set(unservedDesc, float64(unserved))
}

// readInbox reads the gauges of open calls.
func readInbox(ctx context.Context, eng *engine.Engine, set setter) {
	n, sessions := 0, map[string]bool{}
	var oldest time.Time
	for call, err := range upTo(maxCounted, func(cursor string) (store.Page[cairn.PendingCall], error) {
		return eng.Inbox(ctx, store.CallQuery{Statuses: []cairn.CallStatus{cairn.CallOpen}, Limit: 1000, Cursor: cursor})
	}) {
		if err != nil {
			return
		}
		if n++; n == 1 {
			oldest = call.CreatedAt
		}
		sessions[call.SessionID] = true
	}
	set(openDesc, float64(n))
	set(waitingDesc, float64(len(sessions)))
	set(openAgeDesc, age(oldest))
}

// age returns the seconds since a time; 0 for the zero time, and for one ahead of this process's clock.
func age(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(0, time.Since(at).Seconds())
}
