package workspace

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

func changeTime(s *syscall.Stat_t) time.Time { return time.Unix(s.Ctim.Unix()) }

// bootID identifies the time since the machine has started. A note of before may name files that were never written.
var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return processID
	}
	return strings.TrimSpace(string(id))
})
