package cairn

import "time"

// Worker is an engine that takes on due sessions, as it registered with its store.
type Worker struct {
	// Owner names the engine in the leases that it holds: its machine, its process, and an id of its own.
	Owner string `json:"owner"`
	// Agents are the names of the agents that it serves, sorted.
	Agents []string `json:"agents"`
	// Host is the name of the Keeper that drives its runs; empty for goroutines of the process and for another Host.
	Host string `json:"host,omitempty"`
	// Version is Options.Version.
	Version string `json:"version,omitempty"`
	// Since is when it registered, HeartbeatAt its last heartbeat, and Until when its registration lapses without
	// another one. AsOf is when this was read. All are times of the store.
	Since       time.Time `json:"since"`
	HeartbeatAt time.Time `json:"heartbeat_at"`
	Until       time.Time `json:"until"`
	AsOf        time.Time `json:"as_of"`
}

// Operations is the state of the processes on a store and of the work for them.
type Operations struct {
	// Workers are the registered workers.
	Workers []WorkerLoad `json:"workers"`
	// Leases are sessions that a process drives, sorted by their owners.
	Leases []HeldLease `json:"leases"`
	// Due counts the sessions that need a worker, by the reason.
	Due []DueCount `json:"due"`
	// Unserved are due sessions of agents that no registered worker serves, the longest due first.
	Unserved []DueSession `json:"unserved"`
	// Days are the model calls of the last days, oldest first. It is empty on a store that keeps no usage.
	Days []CallsOfDay `json:"days"`
	// More names the lists, and the counts of leases and due sessions, that are cut off at a limit.
	More []string `json:"more,omitempty"`
}

// WorkerLoad is a worker with the number of its leases.
type WorkerLoad struct {
	Worker
	// Leases is the number of sessions that the worker drives.
	Leases int `json:"leases"`
}

// HeldLease is the lease of a session that a process drives.
type HeldLease struct {
	// Owner is the process that holds the lease.
	Owner string `json:"owner,omitempty"`
	// Registered reports whether the owner is a registered worker.
	Registered bool `json:"registered"`
	// SessionID, RootID, Agent and RunID name the session, its root, its agent and its run.
	SessionID string `json:"session_id"`
	RootID    string `json:"root_id"`
	Agent     string `json:"agent"`
	RunID     string `json:"run_id"`
	// Turn is the current turn, and Step the number of its committed steps.
	Turn int `json:"turn"`
	Step int `json:"step"`
	// Recoveries is how many times the run was taken over since its last committed step.
	Recoveries int `json:"recoveries,omitempty"`
	// CommittedAt is the session's last commit. Until is when the lease lapses without another heartbeat.
	CommittedAt time.Time `json:"committed_at"`
	Until       time.Time `json:"until"`
}

// DueCount is the number of sessions that need a worker for one reason.
type DueCount struct {
	// Kind is the reason: crashed, ending, ready, deadline, queued or outbox.
	Kind string `json:"kind"`
	// Count is the number of sessions, and Since when the first of them became due.
	Count int       `json:"count"`
	Since time.Time `json:"since"`
}

// DueSession is a session that needs a worker.
type DueSession struct {
	// SessionID is the session, and Agent the agent of its root.
	SessionID string `json:"session_id"`
	Agent     string `json:"agent"`
	// Kind is the reason: crashed, ending, ready, deadline, queued or outbox. Since is when the session became due.
	Kind  string    `json:"kind"`
	Since time.Time `json:"since"`
}

// CallsOfDay are the model calls of one day.
type CallsOfDay struct {
	// Day is the day, in UTC, as in 2026-11-27.
	Day string `json:"day"`
	// ModelCalls is the number of model calls whose reply was used.
	ModelCalls int64 `json:"model_calls"`
	// DiscardedCalls is the number of those whose reply was not used: they failed, were retried, or were repeated after a
	// crash.
	DiscardedCalls int64 `json:"discarded_calls"`
}
