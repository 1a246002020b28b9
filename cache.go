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
	// Max is how many results a session keeps, of all tools together; the least recently used one goes first. Where
	// the tools of an agent differ, the largest number counts. 0 means 64.
	Max int
}

// Cache keeps the tool's results within a session: a call with the same arguments gets the earlier result and the
// function is not run. Hooks are called for it as for any other call, and BeforeTool may veto it; its EventToolEnd is
// marked Cached, and Usage.ToolCacheHits counts it. Arguments are the same if they differ in no more than white
// space, the order of members and the escapes in strings; 1 and 1.0 are two. The zero policy means the defaults.
//
// Results are kept with the step's commit, for every process and for later turns. Not kept are errors, and results of
// calls that wrote state, added context, switched tools or emitted events, since a later call would not do so again.
// What a call recorded as usage is not recorded again. Calls of one reply run in parallel: none gets the result of
// another.
//
// Cache tools that ask other services and whose answer follows from the arguments: nothing but the time makes a
// result go, neither a change of the session's state nor a rewind. A branch begins with an empty cache. Tools that
// finish a turn, whose calls may be pending, and that delegate to a sub-agent cannot be cached.
func Cache(p CachePolicy) ToolOption { return func(t *Tool) { t.def.Cache = &p } }

func (p *CachePolicy) validate(t Tool) error {
	switch {
	case p == nil:
		return nil
	case p.TTL < 0 || p.Max < 0:
		return errors.New("Cache: TTL and Max cannot be negative")
	case t.def.Finishes:
		return errors.New("Cache: a tool that finishes a turn is called once")
	case t.def.Wait.Kind != "":
		return errors.New("Cache: a tool that waits for an answer is called each time")
	}
	return nil
}
