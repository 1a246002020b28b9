package cairn

import (
	"errors"
	"time"
)

// CachePolicy says how long and how many of a tool's results are kept.
type CachePolicy struct {
	// TTL is how long a result is good from when it was made, by the clock; it runs on while the session is paused. 0
	// means one hour.
	TTL time.Duration
	// Max is how many results a session keeps, of all tools together; the least recently used one goes first. Where the tools
	// of an agent differ, the largest number counts. 0 means 64.
	Max int
}

// Cache keeps the tool's results within a session: a call with the same arguments gets the earlier result and the
// function is not run. Hooks hear of such a call as of any other, and BeforeTool may veto it; its EventToolEnd is marked
// Cached, and Usage.ToolCacheHits counts it. Arguments are the same if they differ in no more than white space, the order
// of members and the escapes in strings; 1 and 1.0 are two. The zero policy means the defaults.
//
// Results are kept with the step's commit, for every process and for later turns. Not kept are errors, and results of
// calls that wrote state, added context, switched tools or emitted events, since a later call would not do so again. What
// a call recorded as usage is not recorded again. Calls of one reply run side by side: none gets the result of another.
//
// Cache tools that ask the outside world and whose answer follows from the arguments: nothing but the time makes a
// result go, neither a change of the session's state nor a rewind. A branch begins with an empty cache. Tools that
// finish a turn, that wait for somebody and that delegate to a sub-agent cannot be cached.
func Cache(p CachePolicy) ToolOption { return func(t *Tool) { t.cache = &p } }

func (p *CachePolicy) validate(t Tool) error {
	switch {
	case p == nil:
		return nil
	case p.TTL < 0 || p.Max < 0:
		return errors.New("Cache: TTL and Max cannot be negative")
	case t.finish:
		return errors.New("Cache: a tool that finishes a turn is called once")
	case t.wait.kind != "":
		return errors.New("Cache: a tool that waits for somebody is asked each time")
	}
	return nil
}

// Lifetime returns how long a result is good.
func (p *CachePolicy) Lifetime() time.Duration {
	if p.TTL == 0 {
		return time.Hour
	}
	return p.TTL
}

// CachedResults returns how many results of tools a session of the agent keeps, of all tools together: the largest
// [CachePolicy].Max of its tools; 0 if none of them is cached.
func (a *Agent) CachedResults() int {
	most := 0
	for i := range a.Tools {
		switch p := a.Tools[i].cache; {
		case p == nil:
		case p.Max == 0:
			most = max(most, 64)
		default:
			most = max(most, p.Max)
		}
	}
	return most
}
