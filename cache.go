package cairn

import (
	"errors"
	"time"
)

// CachePolicy determines how long, and how many, results of a tool are cached.
type CachePolicy struct {
	// TTL is how long a result is valid after it was produced, by the clock; it elapses while the session is
	// paused, too. 0 means one hour.
	TTL time.Duration
	// Max is the maximum number of results that a session keeps, across all tools; the least recently used one is
	// evicted first. If the tools of an agent differ, the largest number applies. 0 means 64.
	Max int
}

// Cache caches the tool's results within a session: a call with the same arguments gets the earlier result, and the
// function is not run. Hooks are called as for any other call, and BeforeTool may veto it. The EventToolEnd of the
// call is marked Cached, and Usage.ToolCacheHits counts it. Arguments are the same if they differ only in white
// space, the order of members and the escapes in strings; 1 and 1.0 are different. The zero policy means the
// defaults.
//
// Results are stored with the step's commit, and are available to every process and to later turns. Errors are not
// cached. Nor are results of calls that wrote state, added context, switched tools or emitted events, since a
// cached call would not repeat these effects. Usage that the cached call recorded is not recorded again. Calls of
// one reply run in parallel: none gets the result of another.
//
// Use it for tools that query other services and whose result depends on the arguments alone: results are
// invalidated by time only, neither by a change of the session's state nor by a rewind. A branch begins with an
// empty cache. The result of a client tool counts as produced when the run uses it, and so does a sub-agent's answer; a
// call that gets an earlier one asks no client and begins no session. Tools that finish a turn or whose calls need an
// approval cannot be cached.
func Cache(p CachePolicy) ToolOption { return func(t *Tool) { t.def.Cache = &p } }

func (p *CachePolicy) validate(t Tool) error {
	switch {
	case p == nil:
		return nil
	case p.TTL < 0 || p.Max < 0:
		return errors.New("Cache: TTL and Max must not be negative")
	case t.def.Finishes:
		return errors.New("Cache: tools with FinishWith cannot be cached")
	case t.def.Wait.Kind != "" && t.def.Wait.Kind != CallClientTool:
		return errors.New("Cache: tools that require approval cannot be cached")
	}
	return nil
}
