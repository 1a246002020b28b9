// Package hosts connects to the host that a URL, a flag or the environment names: Temporal or DBOS. Every error
// names the flag, the variable or the field at fault, and shows neither a password nor a key. The
// build tags notemporal and nodbos, and demo, leave a host out with the modules that it needs.
package hosts

import (
	"context"
	"time"

	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
)

// Reach bounds the time to connect to a host, or to disconnect.
const Reach = 10 * time.Second

// Lease is how long a session keeps its lease on a host without a heartbeat. It is longer than the 11 seconds after
// which Temporal makes another attempt at what a dead process did.
const Lease = 15 * time.Second

// Connection is a connection of this process to a host.
type Connection struct {
	host.Host
	// Serve has this process execute the effects of runs, in an engine. Rest ends that while the engine is still
	// open; nil if closing the engine is enough.
	Serve func(*engine.Engine) error
	Rest  func()
	// Close is called after the engine is closed.
	Close func(context.Context) error
}
