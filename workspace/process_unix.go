//go:build unix

package workspace

import (
	"os/exec"
	"syscall"
)

// confine has a program lead a process group.
func confine(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	endWithThread(cmd.SysProcAttr)
}

// asUser has a program run as another user, without further groups.
func asUser(cmd *exec.Cmd, uid int) {
	if uid >= 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
}

// killGroup kills the processes of the group that a program leads.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
