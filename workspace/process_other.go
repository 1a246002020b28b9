//go:build unix && !linux

package workspace

import "syscall"

func endWithThread(*syscall.SysProcAttr) {}
