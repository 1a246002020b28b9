package memory

import (
	"cmp"
	"context"
	"hash/maphash"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Memory keeps memories in a store and searches them. It has no state of its own beside its options, so any number of
// processes may use one store. It is safe for concurrent use.
type Memory struct {
	rows    driver.Memories
	records driver.Records // for the limit of Extract.DailyUSD
	opts    Options
	seed    maphash.Seed
	locks   [64]chan struct{} // writers of a scope in this process wait for each other
}

// New returns the memory in a store. The error is ErrInvalid if the store keeps no memories, or names an option.
func New(st driver.Store, opts *Options) (*Memory, error) {
	p, ok := driver.As[driver.MemoryProvider](st)
	if !ok {
		return nil, cairn.Invalid("store", "%T keeps no memories: it is not a store.MemoryProvider", st)
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Memory{rows: p.Memories(), opts: o, seed: maphash.MakeSeed()}
	if x := o.Agent.Extract; x != nil && x.DailyUSD > 0 {
		p, ok := driver.As[driver.RecordProvider](st)
		if !ok {
			return nil, cairn.Invalid("agent.extract.daily_usd", "%T keeps no records: it is not a store.RecordProvider", st)
		}
		m.records = p.Records()
	}
	for i := range m.locks {
		m.locks[i] = make(chan struct{}, 1)
	}
	return m, nil
}

// Options returns the options with their defaults.
func (m *Memory) Options() Options { return m.opts }

// ScopeOf returns the scope of a session's agent. The groups of each tenant are its own. The error is ErrInvalid if the
// scope is a user's and the session has no user: such sessions have no memory, rather than one that all of them share.
func (m *Memory) ScopeOf(s *cairn.Session) (Scope, error) {
	switch m.opts.Scope {
	case driver.MemoryOfSession:
		return Session(s.ID, s.Incarnation), nil
	case driver.MemoryOfGroup:
		tenant, _ := cairn.SplitTenant(s.ID)
		return Group(cairn.InTenant(cmp.Or(tenant, s.Tenant), m.opts.Group)), nil
	}
	if s.UserID == "" {
		return Scope{}, cairn.Invalid("user_id", "is empty: a user's memory needs one")
	}
	return User(s.UserID), nil
}

// Drop forgets a scope with everything in it. found is false if it was empty.
func (m *Memory) Drop(ctx context.Context, scope Scope) (found bool, err error) {
	return m.rows.Drop(ctx, scope)
}
