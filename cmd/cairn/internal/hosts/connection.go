// Package hosts connects to what drives runs, Temporal or DBOS, as a URL, a flag and the environment name it. Every
// error names the flag, the variable or the field that is at fault, and shows neither a password nor a key. What needs
// the hosts' modules has the build tag !demo.
package hosts

import (
	"context"
	"time"

	"github.com/cairn-agents/cairn/engine"
)

// Reach is how long a host may take to be connected to, or to be left.
const Reach = 10 * time.Second

// Lease is how long a session stays with whatever drives it on a host, if the host does not say that it still does. It
// is longer than the 11 seconds that Temporal takes to try again what a process did that died.
const Lease = 15 * time.Second

// Connection is a host that this process is connected to.
type Connection struct {
	engine.Host
	// Serve has this process carry out, in an engine, what runs ask for. rest ends that while the engine is still open;
	// nil if the engine's own end is enough.
	Serve func(*engine.Engine) error
	Rest  func()
	// Close is called after the engine's own.
	Close func(context.Context) error
}
