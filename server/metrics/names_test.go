package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server/metrics"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// The dashboard, the rules for alerts and the table of docs/TRACES.md name metrics that exist, and the table names all.
func TestNamedMetricsExist(t *testing.T) {
	t.Parallel()
	m, _ := watch(t, memstore.New(nil))
	descs := make(chan *prometheus.Desc, 1000)
	m.Registry().Describe(descs)
	close(descs)
	var exist []string
	for d := range descs {
		exist = append(exist, regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())[1])
	}
	for _, file := range []string{"../../examples/observability/dashboard.json", "../../examples/observability/alerts.yaml", "../../docs/TRACES.md"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(raw) {
			t.Errorf("%s is not JSON", file)
		}
		_, text, _ := strings.Cut(string(raw), "## Metrics")
		if text == "" {
			text = string(raw)
		}
		named := regexp.MustCompile(`\bcairn_[a-z_]+\b|\bgen_ai_[a-z_]+(_total|_seconds|_bucket|_count)\b`).FindAllString(text, -1)
		if len(named) < 10 {
			t.Errorf("%s names %d metrics", file, len(named))
		}
		for _, name := range named {
			name = strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_seconds_count")
			if !slices.Contains(exist, name) && !slices.Contains(exist, name+"_seconds") {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
		for _, name := range exist {
			if strings.HasSuffix(file, ".md") && !strings.Contains(text, name) && !strings.HasPrefix(name, "gen_ai_client_inference_usage_") {
				t.Errorf("%s does not name %s", file, name)
			}
		}
	}
}

// The rules for alerts are valid and fire as their tests say. Names and help of the metrics are as Prometheus recommends.
func TestRules(t *testing.T) {
	t.Parallel()
	promtool := testenv.Promtool(t)
	run := func(input string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir, cmd.Stdin = "../../examples/observability", strings.NewReader(input)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
	run("", "check", "rules", "alerts.yaml")
	run("", "test", "rules", "alerts_test.yaml")
	m, _ := watch(t, memstore.New(nil))
	run(scrape(t, m), "check", "metrics")
}

// A store counts what its commits contain: a run with a model call and a tool that fails, and a conflict.
func TestCommits(t *testing.T) {
	t.Parallel()
	m := metrics.New()
	fail := cairn.RawFunc("fail", "Fails.", json.RawMessage(`{"type":"object"}`), failing)
	agent := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{fail}, Model: scripted.New(scripted.Call("fail", struct{}{}).Usage(10, 2), scripted.Text("no").Usage(20, 3))}
	eng, err := engine.New(m.Store(memstore.New(nil)), []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("go"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	text := scrape(t, m)
	for _, want := range []string{
		`cairn_runs_begun_total{agent="bot"} 1`,
		`cairn_runs_ended_total{agent="bot",status="completed"} 1`,
		`cairn_commit_seconds_count{result="ok"} 3`,
		`gen_ai_invoke_agent_duration_seconds_count{error_type="",gen_ai_agent_name="bot"} 1`,
		`gen_ai_client_inference_duration_seconds_count{gen_ai_agent_name="bot",gen_ai_provider_name="scripted",gen_ai_response_model="scripted"} 2`,
		`gen_ai_client_inference_usage_input_tokens_total{gen_ai_agent_name="bot",gen_ai_provider_name="scripted",gen_ai_response_model="scripted",gen_ai_token_modality="unknown"} 30`,
		`gen_ai_execute_tool_duration_seconds_count{error_type="tool_failed",gen_ai_agent_name="bot",gen_ai_tool_name="fail"} 1`,
		`cairn_takeovers_total 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// watch returns metrics of everything about an engine with one agent, bot, whose model never answers.
func watch(t *testing.T, st store.Store, tools ...cairn.Tool) (*metrics.Metrics, *engine.Engine) {
	t.Helper()
	m := metrics.New()
	agent := &cairn.Agent{Name: "bot", Tools: tools, Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if len(tools) > 0 && req.Messages[0].Text() == "ask" {
			return scripted.Call("refund", struct{}{})
		}
		return scripted.Pause(time.Hour)
	})}
	eng, err := engine.New(m.Store(st), []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // which stops runs in progress
		_ = eng.Close(ctx)
	})
	m.Watch(eng)
	m.WatchEffects(eng)
	return m, eng
}

// The gauges show a run in progress, a call that waits, and sessions that wait for a worker and for their event log, with
// their ages. Within ten seconds a scrape reads nothing again.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := &calls{Store: memstore.New(nil)}
		refund := cairn.Func("refund", "Refunds.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "", nil }, cairn.RequireApproval())
		m, eng := watch(t, st, refund)
		for _, id := range []string{"asks", "works"} {
			text := map[string]string{"asks": "ask", "works": "work"}[id]
			if _, err := eng.Execute(t.Context(), id, "bot", cairn.Text(text)); err != nil {
				t.Fatal(err)
			}
		}
		for id, c := range map[string]*driver.Commit{
			"queue": {Enqueue: &driver.QueuedTurn{ID: "turn", Messages: []cairn.Message{cairn.User(cairn.TextPart("later"))}}},
			"lag":   {Events: []cairn.Event{{Type: cairn.EventCustom, SessionID: "lag", Name: "x"}}, Outbox: true},
		} {
			c.Guard, c.Create = driver.Guard{New: true}, &cairn.Session{ID: id, Agent: "elsewhere"}
			if _, err := st.Commit(t.Context(), id, c); err != nil {
				t.Fatal(err)
			}
		}
		testclock.Advance(time.Minute)
		want := func(lines ...string) {
			t.Helper()
			text := scrape(t, m)
			for _, line := range lines {
				if !strings.Contains(text, "\n"+line+"\n") {
					t.Errorf("%s is missing in:\n%s", line, text)
				}
			}
		}
		first := []string{`cairn_runs_driven 1`, `cairn_inbox_open 1`, `cairn_inbox_sessions 1`, `cairn_inbox_oldest_seconds 60`, `cairn_sessions_unserved 2`,
			`cairn_sessions_due{kind="queued"} 1`, `cairn_sessions_due_oldest_seconds{kind="queued"} 60`,
			`cairn_sessions_due{kind="outbox"} 1`, `cairn_sessions_due_oldest_seconds{kind="outbox"} 60`,
			`cairn_sessions_due{kind="crashed"} 0`, `cairn_sessions_due_oldest_seconds{kind="crashed"} 0`}
		want(first...)
		read := st.n.Load()
		testclock.Advance(9 * time.Second)
		if want(first...); st.n.Load() != read {
			t.Errorf("%d reads", st.n.Load()-read)
		}
		testclock.Advance(time.Second)
		want(`cairn_inbox_oldest_seconds 70`, `cairn_sessions_due_oldest_seconds{kind="queued"} 70`)
	})
}

// calls counts the lists that are read, several at once when metrics are scraped.
type calls struct {
	store.Store
	n atomic.Int64
}

func (c *calls) Unwrap() store.Store { return c.Store }

func (c *calls) Due(ctx context.Context, q driver.DueQuery) (driver.Page[driver.Due], error) {
	c.n.Add(1)
	return c.Store.Due(ctx, q)
}

func (c *calls) Calls(ctx context.Context, q driver.CallQuery) (driver.Page[cairn.PendingCall], error) {
	c.n.Add(1)
	return c.Store.Calls(ctx, q)
}

func failing(context.Context, *cairn.Call, json.RawMessage) (json.RawMessage, error) {
	return nil, errors.New("no")
}

// scrape returns the metrics.
func scrape(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	return rec.Body.String()
}
