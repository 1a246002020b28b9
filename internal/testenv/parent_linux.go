package testenv

import "syscall"

// dieWithParent makes the kernel send the process a signal when the thread that started it ends.
func dieWithParent(attr *syscall.SysProcAttr, how syscall.Signal) { attr.Pdeathsig = how }
