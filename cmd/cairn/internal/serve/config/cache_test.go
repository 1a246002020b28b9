package config

import (
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

// A client tool of the file has the cache that the file declares for it.
func TestCacheOfAClientTool(t *testing.T) {
	for _, c := range []struct {
		cache ToolCache
		want  *cairn.CachePolicy
	}{{ToolCache{}, nil}, {ToolCache{MaxEntries: 3, TTL: Duration(time.Minute)}, &cairn.CachePolicy{Max: 3, TTL: time.Minute}}} {
		tool := (&Tool{Client: "where", Description: "Asks.", ToolCache: c.cache}).ClientTool()
		if got := define.Of(&tool).Cache; (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%+v: %+v, want %+v", c.cache, got, c.want)
		}
	}
}
