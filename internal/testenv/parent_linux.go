package testenv

import "syscall"

// dieWithParent has the kernel send a process a signal when the thread that started it ends.
func dieWithParent(attr *syscall.SysProcAttr, how syscall.Signal) { attr.Pdeathsig = how }
