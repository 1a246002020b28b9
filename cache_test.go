package cairn_test

import (
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

func TestCachePolicy(t *testing.T) {
	t.Parallel()
	agent := func(max ...int) *cairn.Agent {
		a := &cairn.Agent{Tools: []cairn.Tool{serverTool()}}
		for _, n := range max {
			a.Tools = append(a.Tools, serverTool(cairn.Cache(cairn.CachePolicy{Max: n})))
		}
		return a
	}
	for _, test := range []struct {
		agent *cairn.Agent
		want  int
	}{{agent(), 0}, {agent(0), 64}, {agent(2, 5, 1), 5}, {agent(2, 0), 64}, {agent(1000, 0), 1000}} {
		if got := define.CachedResults(test.agent.Tools); got != test.want {
			t.Errorf("a session keeps %d results, want %d", got, test.want)
		}
	}
	if p := of(serverTool()).Cache; p != nil {
		t.Errorf("a tool without a cache has %+v", p)
	}
	for name, test := range map[string]struct {
		policy   cairn.CachePolicy
		lifetime time.Duration
	}{
		"default": {cairn.CachePolicy{}, time.Hour},
		"briefly": {cairn.CachePolicy{TTL: time.Nanosecond}, time.Nanosecond},
		"few":     {cairn.CachePolicy{Max: 1}, time.Hour},
		"both":    {cairn.CachePolicy{TTL: 48 * time.Hour, Max: 1000}, 48 * time.Hour},
	} {
		p := of(serverTool(cairn.Cache(test.policy))).Cache
		if p == nil || *p != test.policy || define.Lifetime(p) != test.lifetime {
			t.Errorf("%s: %+v, good for %s", name, p, define.Lifetime(p))
		}
	}
}

func TestCachedTools(t *testing.T) {
	t.Parallel()
	cache := cairn.Cache(cairn.CachePolicy{})
	checkTools(t, map[string]string{
		"that finishes":    "Cache: tools with FinishWith cannot be cached",
		"approved":         "Cache: tools that require approval cannot be cached",
		"approved, too":    "Cache: tools that require approval cannot be cached",
		"approved at once": "Cache: tools that require approval cannot be cached",
		"for less than 0":  "Cache: TTL and Max must not be negative",
		"less than none":   "Cache: TTL and Max must not be negative",
	}, map[string]cairn.Tool{
		"plain":            serverTool(cache, cairn.Timeout(time.Second)),
		"that finishes":    serverTool(cache, cairn.FinishWith()),
		"approved":         serverTool(cache, cairn.RequireApproval()),
		"approved, too":    serverTool(cairn.RequireApproval(), cache),
		"approved at once": serverTool(cache, cairn.RequireApprovalIf(never)),
		"client":           clientTool(cache),
		"for less than 0":  serverTool(cairn.Cache(cairn.CachePolicy{TTL: -1})),
		"less than none":   serverTool(cairn.Cache(cairn.CachePolicy{Max: -1})),
	})
}

func TestUsageCountsCacheHits(t *testing.T) {
	t.Parallel()
	if sum := (cairn.Usage{ToolCalls: 2, ToolCacheHits: 1}).Add(cairn.Usage{ToolCalls: 40, ToolCacheHits: 30}); sum.ToolCalls != 42 || sum.ToolCacheHits != 31 {
		t.Errorf("sum %+v", sum)
	}
}
