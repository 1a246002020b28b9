package metrics

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// Store returns a store that counts and times the commits that an engine makes with it in this process, and their runs,
// takeovers, model calls with their tokens, and tool calls. Give it to engine.New in place of st. Metrics of models and
// tools have the names of the OpenTelemetry conventions for generative AI, as Prometheus writes them.
// Call it once.
func (m *Metrics) Store(st store.Store) store.Store {
	c := newCommits()
	m.registry.MustRegister(c)
	return &measured{Store: st, commits: c}
}

// measured is a store whose commits are counted.
type measured struct {
	store.Store
	commits *commits
}

// Unwrap implements driver.Unwrapper.
func (s *measured) Unwrap() store.Store { return s.Store }

// Commit implements driver.Store.
func (s *measured) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	began := time.Now()
	row, err := s.Store.Commit(ctx, id, c)
	result := "ok"
	switch {
	case errors.Is(err, cairn.ErrStale), errors.Is(err, cairn.ErrFenced):
		result = "conflict"
	case err != nil:
		result = "error"
	}
	s.commits.seconds.WithLabelValues(result).Observe(time.Since(began).Seconds())
	if err == nil {
		s.commits.count(c, row)
	}
	return row, err
}

// commits are the metrics of commits.
type commits struct {
	seconds   *prometheus.HistogramVec
	begun     *prometheus.CounterVec
	ended     *prometheus.CounterVec
	takeovers prometheus.Counter
	runs      *prometheus.HistogramVec
	models    *prometheus.HistogramVec
	discarded *prometheus.CounterVec
	tokens    map[string]*prometheus.CounterVec
	cost      *prometheus.CounterVec
	tools     *prometheus.HistogramVec
	all       []prometheus.Collector
}

// kinds are the counters of tokens, by the ends of their names.
var kinds = []string{"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_write_input_tokens", "reasoning_output_tokens"}

// calls are the buckets of durations of calls and runs, in seconds.
var calls = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}

func newCommits() *commits {
	c := &commits{tokens: map[string]*prometheus.CounterVec{}}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		c.all = append(c.all, h)
		return h
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		c.all = append(c.all, v)
		return v
	}
	c.seconds = histogram("cairn_commit_seconds", "Duration of commits to the store, by result: ok, conflict or error.",
		[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}, "result")
	c.begun = counter("cairn_runs_begun_total", "Runs that this process has begun.", "agent")
	c.ended = counter("cairn_runs_ended_total", "Runs that this process has ended or suspended, by status.", "agent", "status")
	c.takeovers = prometheus.NewCounter(prometheus.CounterOpts{Name: "cairn_takeovers_total", Help: "Runs of dead processes that this process has taken over."})
	c.all = append(c.all, c.takeovers)
	c.runs = histogram("gen_ai_invoke_agent_duration_seconds", "Duration of runs that ended.", calls, "gen_ai_agent_name", "error_type")
	model := []string{"gen_ai_provider_name", "gen_ai_response_model"}
	c.models = histogram("gen_ai_client_inference_duration_seconds", "Duration of model calls.", calls, append(model, "gen_ai_agent_name")...)
	c.discarded = counter("cairn_model_calls_discarded_total", "Model calls whose reply was not used.", model...)
	for _, kind := range kinds {
		c.tokens[kind] = counter("gen_ai_client_inference_usage_"+kind+"_total", "Tokens of model calls, discarded ones too: "+strings.ReplaceAll(kind, "_", " ")+".",
			append(model, "gen_ai_agent_name", "gen_ai_token_modality")...)
	}
	c.cost = counter("cairn_cost_usd_total", "Cost of model calls in US dollars, as far as it is known.", append(model, "gen_ai_agent_name")...)
	c.tools = histogram("gen_ai_execute_tool_duration_seconds", "Duration of tool calls.", calls, "gen_ai_tool_name", "gen_ai_agent_name", "error_type")
	return c
}

// Describe implements prometheus.Collector.
func (c *commits) Describe(ch chan<- *prometheus.Desc) {
	for _, one := range c.all {
		one.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (c *commits) Collect(ch chan<- prometheus.Metric) {
	for _, one := range c.all {
		one.Collect(ch)
	}
}

// count counts what a commit has written.
func (c *commits) count(done *driver.Commit, row *cairn.Session) {
	if done.StartRun != nil {
		c.begun.WithLabelValues(row.Agent).Inc()
	}
	if done.Recovered {
		c.takeovers.Inc()
	}
	if run := done.EndRun; run != nil && run.Status != cairn.RunRunning {
		c.ended.WithLabelValues(row.Agent, string(run.Status)).Inc()
		failure := ""
		if run.Error != nil {
			failure = string(run.Error.Code)
		}
		if !run.StartedAt.IsZero() {
			c.runs.WithLabelValues(row.Agent, failure).Observe(max(0, row.UpdatedAt.Sub(run.StartedAt).Seconds()))
		}
	}
	for i := range done.UsageEntries {
		e := &done.UsageEntries[i]
		switch e.Kind {
		case cairn.UsageModel:
			c.model(e, row.Agent)
		case cairn.UsageTool:
			failure := ""
			if e.Usage.ToolErrors > 0 {
				failure = string(cairn.ErrTool)
			}
			c.tools.WithLabelValues(e.Name, row.Agent, failure).Observe(time.Duration(e.Duration).Seconds())
		}
	}
}

// model counts a model call.
func (c *commits) model(e *cairn.UsageEntry, agent string) {
	provider, name, ok := strings.Cut(e.Name, ":")
	if !ok {
		provider, name = "", e.Name
	}
	if e.Discarded() {
		c.discarded.WithLabelValues(provider, name).Inc()
	} else if e.Usage.ModelCalls > 0 {
		c.models.WithLabelValues(provider, name, agent).Observe(time.Duration(e.Duration).Seconds())
	}
	u := &e.Usage
	for i, n := range []int64{u.InputTokens, u.OutputTokens, u.CachedTokens, u.CacheWriteTokens, u.ReasoningTokens} {
		if n > 0 {
			c.tokens[kinds[i]].WithLabelValues(provider, name, agent, "unknown").Add(float64(n))
		}
	}
	if u.CostNanos > 0 {
		c.cost.WithLabelValues(provider, name, agent).Add(float64(u.CostNanos) / 1e9)
	}
}
