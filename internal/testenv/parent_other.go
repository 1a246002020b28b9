//go:build !linux

package testenv

import "syscall"

// dieWithParent does nothing on systems without such a signal: a server outlives a test process that is killed.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
