package sqlitestore

import (
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Synchronous says when a commit counts as done.
type Synchronous int

const (
	// Full acknowledges a commit when it is on disk.
	Full Synchronous = iota
	// Normal acknowledges a commit when the operating system has it: it survives the death of the process, but the last
	// ones may be lost when the machine loses power. The file stays consistent.
	Normal
)

// Options tune a Store. The zero value and nil mean the defaults.
type Options struct {
	// Synchronous is when a commit counts as done; the default is Full.
	Synchronous Synchronous
	// Now is the store's clock; nil means time.Now. Processes that share a file should agree on the time.
	Now func() time.Time
	// MaxEvent is the maximum size of an encoded event in bytes; 0 means driver.DefaultMaxEvent.
	MaxEvent int
	// PollInterval is how often the file is checked for writes of other processes, while a caller follows a log or
	// watches stop requests; 0 means 20 ms. While a log is followed and another process writes, it is checked ten times
	// as often.
	PollInterval time.Duration
	// ReadConnections is how many reads may run concurrently; 0 means 4.
	ReadConnections int
	// BusyTimeout is how long a write waits for other processes before it fails with ErrUnavailable; 0 means 10 s.
	BusyTimeout time.Duration
	// ReadOnly opens an existing file for reading and changes nothing, neither in it nor next to it: a file without write
	// permission, on a read-only disk, or a copy. A write fails with an ErrUnavailable error that wraps a
	// [ReadOnlyError]. Sessions that have expired and were not removed yet are shown as they are. Open's
	// error is ErrNotFound for a missing file and ErrSchema for one that would have to be migrated.
	ReadOnly bool
	// ExecTimeout limits the total duration of the statements that the tools of one step recorded with [Exec]; 0 means
	// 5 s. While they run, no other session of the file can commit, in any process.
	ExecTimeout time.Duration
}

// withDefaults returns a copy of o with defaults for its zero fields. It fails if a field is invalid.
func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	switch {
	case out.Synchronous != Full && out.Synchronous != Normal:
		return out, cairn.Invalid("synchronous", "must be Full or Normal, not %d", out.Synchronous)
	case out.MaxEvent < 0:
		return out, cairn.Invalid("max_event", "%d is negative", out.MaxEvent)
	case out.PollInterval < 0:
		return out, cairn.Invalid("poll_interval", "%s is negative", out.PollInterval)
	case out.ReadConnections < 0:
		return out, cairn.Invalid("read_connections", "%d is negative", out.ReadConnections)
	case out.BusyTimeout < 0:
		return out, cairn.Invalid("busy_timeout", "%s is negative", out.BusyTimeout)
	case out.ExecTimeout < 0:
		return out, cairn.Invalid("exec_timeout", "%s is negative", out.ExecTimeout)
	}
	if out.Now == nil {
		out.Now = time.Now
	}
	setDefault(&out.MaxEvent, driver.DefaultMaxEvent)
	setDefault(&out.PollInterval, 20*time.Millisecond)
	setDefault(&out.ReadConnections, 4)
	setDefault(&out.BusyTimeout, 10*time.Second)
	setDefault(&out.ExecTimeout, 5*time.Second)
	return out, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
