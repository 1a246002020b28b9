package testenv

import "syscall"

// dieWithParent has a process be sent a signal when the thread that started it ends.
func dieWithParent(attr *syscall.SysProcAttr, how syscall.Signal) { attr.Pdeathsig = how }
