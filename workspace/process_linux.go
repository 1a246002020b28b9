package workspace

import "syscall"

// endWithThread has the kernel kill a program when the thread ends that has started it, such as when this process is
// killed.
func endWithThread(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
