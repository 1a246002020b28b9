//go:build !demo

package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/assistants"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/memstore"
)

// served is the result of a file.
type served struct {
	t       *testing.T
	cfg     *config.Config
	agent   *cairn.Agent // the first assistant
	unready server.Unready
	threads server.Threads
	options *server.Options
	engine  engine.Options
	front   http.Handler
}

// status returns the status of the answer to a probe.
func (s *served) status(path string) int {
	w := httptest.NewRecorder()
	s.front.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code
}

// servedBy serves the example with some of its text replaced.
func servedBy(t *testing.T, changes ...string) *served {
	t.Helper()
	raw, err := os.ReadFile("config/testdata/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("the example has no %q", changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	env := map[string]string{"CAIRN_TOKEN": "0123456789abcdef", "OPENAI_API_KEY": "key", "SEARCH_TOKEN": "word"}
	cfg, err := config.Parse("cairn.yaml", []byte(text), env, providers())
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	s := &service{app: &cli.App{Env: env}, cmd: &Command{}, log: log, toolsets: &toolsets{env: env, logger: log}}
	t.Cleanup(func() { s.toolsets.close() })
	s.catalog = &assistants.Catalog{Records: memstore.New(nil).Records(), Logger: log}
	if err := s.catalog.Publish(t.Context(), cfg.Assistants); err != nil {
		t.Fatal(err)
	}
	set, err := s.catalog.Load(t.Context(), []string{"support", "researcher"}, s.parts(cfg))
	if err != nil {
		t.Fatal(err)
	}
	s.set.Store(set)
	s.eng, err = engine.New(memstore.New(nil), set.Agents, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.eng.Close(context.Background()) })
	h, err := server.New(s.eng, s.options(cfg))
	if err != nil {
		t.Fatal(err)
	}
	opts, err := s.engineOptions(cfg)
	if err != nil {
		t.Fatal(err)
	}
	front, err := s.front(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	return &served{t: t, cfg: cfg, agent: set.Agents[0], unready: s.unready("support"), threads: s.threads("support"), options: s.options(cfg), engine: opts, front: front}
}

// tool returns one of the first assistant's tools, including those of its MCP servers.
func (s *served) tool(name string) *define.Tool {
	s.t.Helper()
	const list = `{"base": [{"name": "lookup_order", "remote": "lookup_order", "schema": {"type": "object"}, "reads": true},
		{"name": "refund", "remote": "refund", "schema": {"type": "object"}, "reads": true}], "through": true}`
	tools := slices.Clone(s.agent.Tools)
	for _, ts := range s.agent.Toolsets {
		more, err := ts.Tools(json.RawMessage(list))
		if err != nil {
			s.t.Fatal(err)
		}
		tools = append(tools, more...)
	}
	for i := range tools {
		if tools[i].Name() == name {
			return define.Of(&tools[i])
		}
	}
	return nil
}

// fields returns the fields of a tool for providers.
func (s *served) fields(name string) string {
	s.t.Helper()
	list := map[string]string{}
	for provider, raw := range s.tool(name).Spec().Fields {
		list[provider] = string(raw)
	}
	return fmt.Sprint(list)
}

// resources counts the tools for resources of one of the first assistant's MCP servers.
func (s *served) resources(server int) int {
	s.t.Helper()
	tools, err := s.agent.Toolsets[server].Tools(json.RawMessage(`{"resources": true}`))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(tools)
}

// deferred reports whether the tools of one of the first assistant's MCP servers are deferred.
func (s *served) deferred(server int) bool {
	s.t.Helper()
	tools, err := s.agent.Toolsets[server].Tools(json.RawMessage(`{"base": [{"name": "lookup_order", "remote": "lookup_order", "schema": {"type": "object"}}]}`))
	if err != nil || len(tools) != 1 {
		s.t.Fatal(tools, err)
	}
	return define.Of(&tools[0]).Deferred
}

// A file that is read again reports the changed keys that count from the next start on.
func TestKeysOfTheNextStart(t *testing.T) {
	t.Parallel()
	before := servedBy(t).cfg
	for change, want := range map[[2]string][]string{
		{"level: info", "level: debug"}:                                         nil,
		{"temperature: 0.2", "temperature: 0.3"}:                                nil,
		{"user: alice", "user: bob"}:                                            nil,
		{"cert: cairn.pem", "cert: other.pem"}:                                  nil,
		{"tls: {cert: cairn.pem, key: cairn.key}", ""}:                          {"tls.cert", "tls.key"},
		{"format: text", "format: json"}:                                        {"log.format"},
		{"body: 4MiB", "body: 5MiB"}:                                            {"limits.body"},
		{"event_age: 90d, events: 100000, usage: 30d", "events: 5, usage: 30d"}: {"retention.event_age", "retention.events"},
		{"http://localhost:3000", "https://example.com"}:                        {"cors.origins"},
		{"drain: 10s", "drain: 20s"}:                                            {"drain"},
		{"allow_unauthenticated: false", ""}:                                    nil,
		{"listen: 127.0.0.1:8420", "listen: localhost:1"}:                       {"listen"},
	} {
		if got := lasting(before, servedBy(t, change[0], change[1]).cfg); !slices.Equal(got, want) {
			t.Errorf("%s → %s: %q, want %q", change[0], change[1], got, want)
		}
	}
}

// Each key of the example has its effect, and another value has another effect.
func TestExample(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to string
		is, then func(*served) bool
	}{
		"listen": {"127.0.0.1:8420", "127.0.0.1:9999", func(s *served) bool { return s.cfg.Listen == "127.0.0.1:8420" }, func(s *served) bool { return s.cfg.Listen == "127.0.0.1:9999" }},
		"store":  {"sqlite:cairn.db", "'memory:'", func(s *served) bool { return s.cfg.Store == "sqlite:cairn.db" }, func(s *served) bool { return s.cfg.Store == "memory:" }},
		"events": {`events: ""`, `events: redis://x`, func(s *served) bool { return s.cfg.Events == "" }, func(s *served) bool { return s.cfg.Events == "redis://x" }},
		"host":   {`host: ""`, `host: temporal://x`, func(s *served) bool { return s.cfg.Host == "" }, func(s *served) bool { return s.cfg.Host == "temporal://x" }},
		"executor": {"host: \"\"                            # \"\" = this process; temporal://… | dbos://…\nexecutor: \"\"", "host: temporal://x\nexecutor: worker-1",
			func(s *served) bool { return s.cfg.Executor == "" }, func(s *served) bool { return s.cfg.Executor == "worker-1" }},
		"worker":           {"worker: true", "worker: false", func(s *served) bool { return s.cfg.Worker }, func(s *served) bool { return !s.cfg.Worker }},
		"work_concurrency": {"work_concurrency: 1000", "work_concurrency: 3", func(s *served) bool { return s.cfg.WorkConcurrency == 1000 }, func(s *served) bool { return s.cfg.WorkConcurrency == 3 }},
		"wait_at_most":     {"wait_at_most: 72h", "wait_at_most: 2h", func(s *served) bool { return time.Duration(s.cfg.WaitAtMost) == 72*time.Hour }, func(s *served) bool { return time.Duration(s.cfg.WaitAtMost) == 2*time.Hour }},
		"auth":             {"${CAIRN_TOKEN}", "", func(s *served) bool { return s.options.Authenticate != nil && !s.options.AllowUnauthenticated }, nil},
		"cors":             {"http://localhost:3000", "https://app.example.com", func(s *served) bool { return slices.Equal(s.options.Origins, []string{"http://localhost:3000"}) }, func(s *served) bool { return slices.Equal(s.options.Origins, []string{"https://app.example.com"}) }},
		"limits": {"{body: 4MiB, streams_per_user: 20, requests_per_minute: 600, runs_per_user: 5}", "{body: 1KiB, chat_body: 2KiB, json_values: 5, queue: 6, replaced: 7, streams_per_user: 3, requests_per_minute: 4}",
			func(s *served) bool {
				return s.options.MaxBody == 4<<20 && s.options.MaxChatBody == 64<<20 && s.options.MaxValues == 30_000 && s.engine.MaxQueue == 100 && s.engine.MaxReplaced == 50 && s.options.StreamsPerUser == 20 && s.options.RequestsPerMinute == 600 && s.options.RunsPerUser == 5
			},
			func(s *served) bool {
				return s.options.MaxBody == 1<<10 && s.options.MaxChatBody == 2<<10 && s.options.MaxValues == 5 && s.engine.MaxQueue == 6 && s.engine.MaxReplaced == 7 && s.options.StreamsPerUser == 3 && s.options.RequestsPerMinute == 4 && s.options.RunsPerUser == 0
			}},
		"url":       {"https://example.com/agents", "http://localhost", func(s *served) bool { return s.options.URL == "https://example.com/agents" }, func(s *served) bool { return s.options.URL == "http://localhost" }},
		"base_path": {"base_path: /agents", "", func(s *served) bool { return s.status("/agents/healthz") == 200 && s.status("/healthz") == 404 }, func(s *served) bool { return s.status("/healthz") == 200 }},
		"log.level": {"level: info", "level: warn", func(s *served) bool { return s.cfg.Log.Least() == slog.LevelInfo }, func(s *served) bool { return s.cfg.Log.Least() == slog.LevelWarn }},
		"lease":     {"lease: 30s", "lease: 5s", func(s *served) bool { return s.engine.LeaseTTL == 30*time.Second }, func(s *served) bool { return s.engine.LeaseTTL == 5*time.Second }},
		"drain":     {"drain: 10s", "drain: 1m", func(s *served) bool { return s.engine.CloseGrace == 10*time.Second }, func(s *served) bool { return s.engine.CloseGrace == time.Minute }},
		"retention": {"{removed: 30d, event_age: 90d, events: 100000, usage: 30d}", "{removed: 1w, event_age: 36h, usage: 2d}",
			func(s *served) bool {
				return s.engine.Retention == 30*24*time.Hour && s.engine.UsageRetention == 30*24*time.Hour && s.engine.EventRetention == engine.EventRetention{Age: 90 * 24 * time.Hour, Events: 100000}
			},
			func(s *served) bool {
				return s.engine.Retention == 7*24*time.Hour && s.engine.UsageRetention == 48*time.Hour && s.engine.EventRetention == engine.EventRetention{Age: 36 * time.Hour}
			}},
		"models": {`models: ""`, "models: testdata/models.json", func(s *served) bool { return s.engine.Models == nil },
			func(s *served) bool { return len(s.engine.Models) == 1 && s.engine.Models[0].Window == 4096 }},
		"settings": {"{temperature: 0.2, top_p: 0.9, max_output_tokens: 2000, reasoning_effort: low, stop_sequences: [END], options: {seed: 7}}", "{temperature: 0}",
			func(s *served) bool {
				return reflect.DeepEqual(s.agent.Settings, cairn.Settings{Temperature: new(0.2), TopP: new(0.9), MaxOutputTokens: 2000, ReasoningEffort: "low",
					StopSequences: []string{"END"}, Options: map[string]any{"seed": 7.0}})
			},
			func(s *served) bool {
				return reflect.DeepEqual(s.agent.Settings, cairn.Settings{Temperature: new(0.0)})
			}},
		"model":        {"openai-chat:llama3.2", "openai-chat:other", func(s *served) bool { return s.agent.Model.Info().Name == "llama3.2" }, func(s *served) bool { return s.agent.Model.Info().Name == "other" }},
		"instructions": {"You help customers with their orders.", "Be brief.", func(s *served) bool { return s.agent.Instructions == "You help customers with their orders." }, func(s *served) bool { return s.agent.Instructions == "Be brief." }},
		"max_steps":    {"max_steps: 50", "max_steps: 7", func(s *served) bool { return s.agent.MaxSteps == 50 }, func(s *served) bool { return s.agent.MaxSteps == 7 }},
		"budget": {"{tokens: 400000, per: turn, on_limit: ask}", "{usd: 0.5, unpriced: true, per: tree, on_limit: fail, warn_at: 0.5, reviewers: [ann]}",
			func(s *served) bool { return reflect.DeepEqual(s.agent.Budget, cairn.Budget{Tokens: 400000}) },
			func(s *served) bool {
				return reflect.DeepEqual(s.agent.Budget, cairn.Budget{USD: 0.5, Unpriced: true, Per: cairn.PerTree, OnLimit: cairn.BudgetFails, WarnAt: 0.5,
					Reviewers: []string{"ann"}})
			}},
		"budgets": {"{name: daily, scope: user, period: day, zone: Europe/Berlin, tokens: 2000000}",
			"{name: big, scope: tenant, of: acme, period: month, usd: 500, steps: 9, unpriced: true, on_limit: fail, warn_at: -1, reviewers: [ann]}",
			func(s *served) bool {
				return reflect.DeepEqual(s.engine.Budgets, []cairn.BudgetRule{{Name: "daily", Scope: cairn.BudgetOfUser, Period: cairn.BudgetDay, Zone: "Europe/Berlin",
					Budget: cairn.Budget{Tokens: 2_000_000}}})
			},
			func(s *served) bool {
				return reflect.DeepEqual(s.engine.Budgets, []cairn.BudgetRule{{Name: "big", Scope: cairn.BudgetOfTenant, Of: "acme", Period: cairn.BudgetMonth,
					Budget: cairn.Budget{USD: 500, Steps: 9, Unpriced: true, OnLimit: cairn.BudgetFails, WarnAt: -1, Reviewers: []string{"ann"}}}})
			}},
		"on_busy":    {"on_busy: reject", "on_busy: steer", func(s *served) bool { return s.unready.OnBusy == "reject" }, func(s *served) bool { return s.unready.OnBusy == "steer" }},
		"on_waiting": {"on_waiting: refuse", "on_waiting: withdraw", func(s *served) bool { return s.unready.OnWaiting == "refuse" }, func(s *served) bool { return s.unready.OnWaiting == "withdraw" }},
		"on_expired": {"on_expired: refuse", "on_expired: new", func(s *served) bool { return s.threads.OnExpired == server.ExpiredRefuse }, func(s *served) bool { return s.threads.OnExpired == server.ExpiredNew }},
		"sessions":   {"sessions: thread", "sessions: each_turn", func(s *served) bool { return !s.threads.EachTurn }, func(s *served) bool { return s.threads.EachTurn }},
		"versions":   {"versions: follow", "versions: pin", func(s *served) bool { return !s.agent.KeepVersion && s.agent.Version == "1" }, func(s *served) bool { return s.agent.KeepVersion }},
		"durability": {"durability: per_step", "durability: per_tool", func(s *served) bool { return s.agent.Durability == cairn.PerStep }, func(s *served) bool { return s.agent.Durability == cairn.PerTool }},
		"ttl":        {"ttl: 168h", "ttl: 2h", func(s *served) bool { return s.agent.TTL == 168*time.Hour }, func(s *served) bool { return s.agent.TTL == 2*time.Hour }},
		"tool_cache": {"{max_entries: 200, ttl: 1h}", "{}",
			func(s *served) bool {
				return *s.tool("lookup_order").Cache == cairn.CachePolicy{Max: 200, TTL: time.Hour} && s.tool("refund").Cache == nil
			},
			func(s *served) bool { return s.tool("lookup_order").Cache == nil }},
		"defer_above": {"defer_above: 5000", "defer_above: -1", func(s *served) bool { return s.agent.DeferAbove == 5000 }, func(s *served) bool { return s.agent.DeferAbove == -1 }},
		"deferred": {"allow: [lookup_order, refund]", "deferred: true",
			func(s *served) bool { return !s.deferred(0) && s.deferred(1) }, func(s *served) bool { return s.deferred(0) }},
		"output": {"native: true ", "native: false ", func(s *served) bool { return s.tool("researcher").Agent.Output.IsNative() },
			func(s *served) bool { o := s.tool("researcher").Agent.Output; return o != nil && !o.IsNative() }},
		"provider_fields": {"{anthropic: {strict: true}}", "{openai-chat: {function: {strict: true}}}",
			func(s *served) bool { return s.fields("get_location") == `map[anthropic:{"strict":true}]` },
			func(s *served) bool {
				return s.fields("get_location") == `map[openai-chat:{"function":{"strict":true}}]`
			}},
		"provider_fields of a server": {"allow: [lookup_order, refund]", "provider_fields: {anthropic: {x: null}}", func(s *served) bool { return s.fields("lookup_order") == "map[]" },
			func(s *served) bool { return s.fields("lookup_order") == `map[anthropic:{"x":null}]` }},
		"provider_fields of a sub-agent": {"agent: researcher ", "provider_fields: {anthropic: {x: 1}}\n        agent: researcher ", func(s *served) bool { return s.fields("researcher") == "map[]" },
			func(s *served) bool { return s.fields("researcher") == `map[anthropic:{"x":1}]` }},
		"required": {"required: true", "required: false", func(s *served) bool { return s.agent.Toolsets[1].(cairn.RequiredToolset).Required() },
			func(s *served) bool { return !s.agent.Toolsets[1].(cairn.RequiredToolset).Required() }},
		"resources": {"resources: true", "resources: false", func(s *served) bool { return s.resources(1) == 2 }, func(s *served) bool { return s.resources(1) == 0 }},
		"client":    {"client: get_location", "client: where", func(s *served) bool { return s.tool("get_location").Wait.Kind == cairn.CallClientTool }, func(s *served) bool { return s.tool("get_location") == nil && s.tool("where") != nil }},
		"timeout":   {"timeout: 24h", "timeout: 3h", func(s *served) bool { return s.tool("get_location").Wait.AtMost == 24*time.Hour }, func(s *served) bool { return s.tool("get_location").Wait.AtMost == 3*time.Hour }},
		"approve": {"approve: [refund]", "approve: [lookup_order]", func(s *served) bool {
			return s.tool("refund").Wait.Kind == cairn.CallApproval && s.tool("lookup_order").Wait.Kind == ""
		},
			func(s *served) bool {
				return s.tool("refund").Wait.Kind == "" && s.tool("lookup_order").Wait.Kind == cairn.CallApproval
			}},
		"prefix": {"prefix: search_", "prefix: find_", func(s *served) bool { return s.tool("search_call_new_tool") != nil }, func(s *served) bool { return s.tool("find_call_new_tool") != nil }},
		"agent":  {"- agent: researcher", "# none", func(s *served) bool { return s.tool("researcher").Delegates() }, func(s *served) bool { return s.tool("researcher") == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !c.is(servedBy(t)) {
				t.Errorf("%s: the example has not its effect", c.from)
			}
			if c.then != nil && !c.then(servedBy(t, c.from, c.to)) {
				t.Errorf("%s: has not its effect", c.to)
			}
		})
	}
}
