package workspace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/workspace"
)

// contain returns a provider of containers, whose root directory has the programs of BusyBox. The flags are those that
// podman needs within a container, where it can neither set up networks nor raise limits.
func contain(t testing.TB, dir string) workspace.Provider {
	t.Helper()
	root := filepath.Join(filepath.Dir(dir), "root")
	for _, name := range []string{"bin", "etc", "proc", "sys", "dev", "tmp", "run", "var", "workspace", "agent"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin/busybox"), data, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sh", "cat", "echo", "id", "ls", "touch", "sleep", "grep", "ln", "mkfifo", "date", "env", "sort", "tr", "head", "mkdir"} {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := workspace.Container(dir, &workspace.ContainerOptions{Program: "podman", Flags: []string{"--runtime", "runc", "--cgroup-manager", "cgroupfs", "--storage-driver", "vfs"},
		Arguments: []string{"--log-driver", "none", "--ulimit", "nproc=4096:4096", "--rootfs", root}, Bounds: workspace.Bounds{Files: 512, Processes: 50}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestContainer(t *testing.T) {
	t.Parallel()
	h := newHouse(t, newStore(), contain(t, base(t)), &workspace.Options{Interpreters: []string{"sh"}, Manifest: workspace.Manifest{Variables: map[string]string{"TEAM": "blue", "PATH": "/bin"}}})
	got := h.do("s",
		sh("echo hello; pwd; echo x > f; touch /x; echo $TEAM; id -u; exit 3"),
		read("f"),
		call("run", map[string]any{"language": "sh", "code": "grep -c : /proc/net/dev; cat f"}),
		call("shell", map[string]any{"command": "sleep 100", "seconds": 1}),
		sh("ln -s /etc etc; ln -s ../../.. up; mkfifo pipe"),
		read("etc/passwd"), read("up/etc/passwd"), read("pipe"),
		call("shell", map[string]any{"command": "echo begins; sleep 100", "background": true}),
		call("shell", map[string]any{"command": "pwd", "dir": "nowhere"}),
		sh("i=0; while [ $i -lt 100 ]; do sleep 5 & i=$((i+1)); done; echo all"),
	)
	expect(t, "command", got[0], "hello\n/workspace\n", "Read-only file system", "blue\n", "65534\n", "exit status 3")
	expect(t, "read", got[1], "x\n")
	expect(t, "run", got[2], "1\nx")
	expect(t, "time", got[3], "killed after 1")
	expect(t, "links", got[4], "Snapshots leave out 1 devices, pipes or sockets and 2 links")
	for i, what := range []string{"absolute link", "relative link", "pipe"} {
		if !strings.HasPrefix(got[5+i], "open ") {
			t.Errorf("%s: %q", what, got[5+i])
		}
	}
	expect(t, "background", got[8], `"1"`)
	expect(t, "directory", got[9], "does not exist")
	if strings.Contains(got[10], "all") {
		t.Errorf("100 processes: %q", got[10])
	}
	testclock.Await(t, "the output of the command in the background", func() bool { return strings.Contains(h.do("s", `processes {"id":"1"}`)[0], "begins") })
	expect(t, "stop", h.do("s", `processes {"id":"1","stop":true}`)[0], "was killed")
}

// A sweep ends the containers that a killed process has left running.
func TestSweepEndsContainers(t *testing.T) {
	t.Parallel()
	dir := base(t)
	p := contain(t, dir)
	h := newHouse(t, newStore(), p, nil)
	h.do("s", call("shell", map[string]any{"command": "touch started; sleep 100", "background": true}))
	testclock.Await(t, "the command", func() bool { return found(dir, "started") != "" })
	note, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(found(dir, "started"))), "containers"))
	if err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(dir, strings.Repeat("a", 32), "0")
	if err := os.MkdirAll(killed, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(killed, "containers"), note, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Sweep(t.Context(), -time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(killed); err == nil {
		t.Error("the directory stays")
	}
	testclock.Await(t, "the end of the command", func() bool { return strings.Contains(h.do("s", `processes {}`)[0], "ended") })
}
