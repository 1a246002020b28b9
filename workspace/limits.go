package workspace

import (
	"time"

	"github.com/cairn-agents/cairn"
)

// Limits are the limits of the tools of a workspace. A zero field means its default.
type Limits struct {
	// SnapshotBytes is the maximum size of the files of a snapshot, and SnapshotFiles the maximum number of entries:
	// by default 256 MiB and 20,000. A larger workspace stays on its machine: results say so, and the steps commit without
	// a snapshot.
	SnapshotBytes int64
	SnapshotFiles int
	// Time is how long a command may take if its call does not say; by default two minutes. MaxTime is the longest time
	// that a call may ask for, by default ten minutes.
	Time    time.Duration
	MaxTime time.Duration
	// Output is the maximum size of a text that the model reads of a command, a file or a list, in bytes; by default 32 KiB.
	// Of longer output the middle is left out.
	Output int
	// Background is the maximum number of commands of a session that run in the background; by default 4. A negative value
	// means none. BackgroundTime is how long each may run; by default an hour.
	Background     int
	BackgroundTime time.Duration
	// DiskBytes is the maximum size of the files while a command runs, by default 1 GiB. Each file and directory counts 1 KiB
	// besides its content. A command that exceeds it is killed. The files are measured about once a second, and many of
	// them less often, with pauses of up to 10 seconds.
	DiskBytes int64
}

// Defaults of [Limits].
const (
	DefaultSnapshotBytes  = 256 << 20
	DefaultSnapshotFiles  = 20_000
	DefaultTime           = 2 * time.Minute
	DefaultMaxTime        = 10 * time.Minute
	DefaultOutput         = 32 << 10
	DefaultBackground     = 4
	DefaultBackgroundTime = time.Hour
	DefaultDiskBytes      = 1 << 30
)

// withDefaults returns the limits with their defaults. The error is ErrInvalid and names the field.
func (l Limits) withDefaults() (Limits, error) {
	for _, f := range []struct {
		name string
		bad  bool
	}{
		{"limits.snapshot_bytes", l.SnapshotBytes < 0}, {"limits.snapshot_files", l.SnapshotFiles < 0},
		{"limits.time", l.Time < 0}, {"limits.max_time", l.MaxTime < 0}, {"limits.output", l.Output < 0},
		{"limits.background_time", l.BackgroundTime < 0}, {"limits.disk_bytes", l.DiskBytes < 0},
	} {
		if f.bad {
			return l, cairn.Invalid(f.name, "is negative")
		}
	}
	l.SnapshotBytes = defaulted(l.SnapshotBytes, DefaultSnapshotBytes)
	l.SnapshotFiles = defaulted(l.SnapshotFiles, DefaultSnapshotFiles)
	l.Time = defaulted(l.Time, DefaultTime)
	l.MaxTime = max(l.Time, defaulted(l.MaxTime, DefaultMaxTime))
	l.Output = defaulted(l.Output, DefaultOutput)
	l.Background = max(0, defaulted(l.Background, DefaultBackground))
	l.BackgroundTime = defaulted(l.BackgroundTime, DefaultBackgroundTime)
	l.DiskBytes = defaulted(l.DiskBytes, DefaultDiskBytes)
	if l.Output < 1000 || l.Output > 512<<10 {
		return l, cairn.Invalid("limits.output", "%d is not from 1000 to %d", l.Output, 512<<10)
	}
	return l, nil
}

func defaulted[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
