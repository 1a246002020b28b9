//go:build !linux && unix

package workspace

import (
	"syscall"
	"time"
)

func changeTime(*syscall.Stat_t) time.Time { return time.Time{} }

// bootID identifies the process: this system has no id of the time since the machine was started.
func bootID() string { return processID }
