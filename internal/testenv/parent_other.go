//go:build !linux

package testenv

import "syscall"

// dieWithParent does nothing where the system has no such thing: a server outlives a test process that is killed.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
