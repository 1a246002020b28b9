//go:build !demo

package serve

import (
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/assistants"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
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
	options *server.Options
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
	env := map[string]string{"CAIRN_TOKEN": "0123456789abcdef", "OPENAI_API_KEY": "key"}
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
	return &served{t: t, cfg: cfg, agent: set.Agents[0], unready: s.unready("support"), options: s.options(cfg)}
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

// deferred reports whether the tools of one of the first assistant's MCP servers are deferred.
func (s *served) deferred(server int) bool {
	s.t.Helper()
	tools, err := s.agent.Toolsets[server].Tools(json.RawMessage(`{"base": [{"name": "look", "remote": "look", "schema": {"type": "object"}}]}`))
	if err != nil || len(tools) != 1 {
		s.t.Fatal(tools, err)
	}
	return define.Of(&tools[0]).Deferred
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
		"limits": {"{body: 4MiB, streams_per_user: 20, requests_per_minute: 600}", "{body: 1KiB, chat_body: 2KiB, json_values: 5, queue: 6, streams_per_user: 3, requests_per_minute: 4}",
			func(s *served) bool {
				return s.options.MaxBody == 4<<20 && s.options.MaxChatBody == 64<<20 && s.options.MaxValues == 30_000 && s.cfg.Limits.Queue == 100 && s.options.StreamsPerUser == 20 && s.options.RequestsPerMinute == 600
			},
			func(s *served) bool {
				return s.options.MaxBody == 1<<10 && s.options.MaxChatBody == 2<<10 && s.options.MaxValues == 5 && s.cfg.Limits.Queue == 6 && s.options.StreamsPerUser == 3 && s.options.RequestsPerMinute == 4
			}},
		"model":        {"openai-chat:llama3.2", "openai-chat:other", func(s *served) bool { return s.agent.Model.Info().Name == "llama3.2" }, func(s *served) bool { return s.agent.Model.Info().Name == "other" }},
		"instructions": {"You help customers with their orders.", "Be brief.", func(s *served) bool { return s.agent.Instructions == "You help customers with their orders." }, func(s *served) bool { return s.agent.Instructions == "Be brief." }},
		"max_steps":    {"max_steps: 50", "max_steps: 7", func(s *served) bool { return s.agent.MaxSteps == 50 }, func(s *served) bool { return s.agent.MaxSteps == 7 }},
		"on_busy":      {"on_busy: reject", "on_busy: steer", func(s *served) bool { return s.unready.OnBusy == "reject" }, func(s *served) bool { return s.unready.OnBusy == "steer" }},
		"on_waiting":   {"on_waiting: refuse", "on_waiting: withdraw", func(s *served) bool { return s.unready.OnWaiting == "refuse" }, func(s *served) bool { return s.unready.OnWaiting == "withdraw" }},
		"versions":     {"versions: follow", "versions: pin", func(s *served) bool { return !s.agent.KeepVersion && s.agent.Version == "1" }, func(s *served) bool { return s.agent.KeepVersion }},
		"durability":   {"durability: per_step", "durability: per_tool", func(s *served) bool { return s.agent.Durability == cairn.PerStep }, func(s *served) bool { return s.agent.Durability == cairn.PerTool }},
		"ttl":          {"ttl: 168h", "ttl: 2h", func(s *served) bool { return s.agent.TTL == 168*time.Hour }, func(s *served) bool { return s.agent.TTL == 2*time.Hour }},
		"tool_cache": {"{max_entries: 200, ttl: 1h}", "{}",
			func(s *served) bool {
				return *s.tool("lookup_order").Cache == cairn.CachePolicy{Max: 200, TTL: time.Hour} && s.tool("refund").Cache == nil
			},
			func(s *served) bool { return s.tool("lookup_order").Cache == nil }},
		"defer_above": {"defer_above: 5000", "defer_above: -1", func(s *served) bool { return s.agent.DeferAbove == 5000 }, func(s *served) bool { return s.agent.DeferAbove == -1 }},
		"deferred": {"allow: [lookup_order, refund]", "deferred: true",
			func(s *served) bool { return !s.deferred(0) && s.deferred(1) }, func(s *served) bool { return s.deferred(0) }},
		"client":  {"client: get_location", "client: where", func(s *served) bool { return s.tool("get_location").Wait.Kind == cairn.CallClientTool }, func(s *served) bool { return s.tool("get_location") == nil && s.tool("where") != nil }},
		"timeout": {"timeout: 24h", "timeout: 3h", func(s *served) bool { return s.tool("get_location").Wait.AtMost == 24*time.Hour }, func(s *served) bool { return s.tool("get_location").Wait.AtMost == 3*time.Hour }},
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
