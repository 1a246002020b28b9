package memory

import "github.com/cairn-agents/cairn/store/driver"

// Scope names a set of memories. Nothing crosses the border between two scopes.
type Scope = driver.MemoryScope

// User returns the scope of a user's memories, which is erased with the user's data.
func User(id string) Scope { return driver.UserMemories(id) }

// Group returns the scope of a group of agents.
func Group(name string) Scope { return Scope{Kind: driver.MemoryOfGroup, Name: name} }

// Session returns the scope of a session's own memories, which ends when the session is purged. See
// [driver.SessionMemories].
func Session(id, incarnation string) Scope { return driver.SessionMemories(id, incarnation) }

// The kinds of scopes that an agent can have, see [Options.Scope].
const (
	OfUser    = driver.MemoryOfUser
	OfSession = driver.MemoryOfSession
	OfGroup   = driver.MemoryOfGroup
)
