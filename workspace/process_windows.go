package workspace

import "os/exec"

func confine(*exec.Cmd) {}

func asUser(*exec.Cmd, int) {}

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
