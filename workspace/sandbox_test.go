package workspace_test

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/workspace"
)

func TestCommandsSeeTheirWorkspaceOnly(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	h := newHouse(t, newStore(), wrap(t, nil), &workspace.Options{
		Interpreters: []string{"python3", "sh"},
		Manifest:     workspace.Manifest{Environment: []string{"GOROOT_OF_NO_ONE"}, Variables: map[string]string{"TEAM": "blue"}},
	})
	connect := "import socket\ntry:\n  socket.create_connection(('127.0.0.1', " + port + "), 2)\n  print('connected')\nexcept OSError as e:\n  print('refused')"
	got := h.do("s",
		sh("echo hello; pwd; id -u; echo x > f; cat /etc/shadow"),
		sh("cat f; exit 3"),
		read("f"),
		sh("env | sort | cut -d= -f1 | tr '\\n' ' '; echo $TEAM"),
		sh("ls /; ls -a ~; ps aux 2>/dev/null | wc -l; touch /usr/x /x /etc/x /dev/x"),
		call("run", map[string]any{"language": "python3", "code": connect}),
		call("run", map[string]any{"language": "sh", "code": "read x; echo \"got $x\""}),
		call("run", map[string]any{"language": "ruby", "code": "1"}),
		sh("unshare -U true; mount -t tmpfs none /tmp; mknod dev c 1 3; ls dev"),
		sh("ln /usr/bin/env hard; ls hard"),
		call("shell", map[string]any{"command": "pwd", "dir": "/etc"}),
	)
	expect(t, "identity", got[0], "hello\n/workspace\n1000\n", "No such file", "exit status 1")
	expect(t, "status", got[1], "x\n", "exit status 3")
	expect(t, "read", got[2], "x\n")
	if got[3] != "HOME LANG OLDPWD PATH PWD TEAM TERM USER blue" && got[3] != "HOME LANG PATH PWD TEAM TERM USER blue" {
		t.Errorf("the environment is %q", got[3])
	}
	if strings.Count(got[4], "Read-only file system") != 4 {
		t.Errorf("outside of the workspace: %q", got[4])
	}
	if got[5] != "refused" {
		t.Errorf("the network: %q", got[5])
	}
	expect(t, "run", got[6], "got")
	expect(t, "run of an unknown language", got[7], "python3, sh")
	expect(t, "privileges", got[8], "unshare failed", "cannot access 'dev'")
	expect(t, "hard link", got[9], "Invalid cross-device link")
	expect(t, "dir", got[10], "outside the workspace")
}

func TestCommandsAreBounded(t *testing.T) {
	t.Parallel()
	p := wrap(t, &workspace.BubblewrapOptions{Bounds: workspace.Bounds{Processes: 40, Memory: 512 << 20, FileBytes: 8 << 20}})
	h := newHouse(t, newStore(), p, &workspace.Options{Interpreters: []string{"python3"}, Limits: workspace.Limits{Output: 2000, DiskBytes: 20 << 20}})
	began := time.Now()
	got := h.do("s",
		call("shell", map[string]any{"command": "bomb() { bomb | bomb & }; bomb; sleep 30", "seconds": 2}),
		sh("i=0; while [ $i -lt 60 ]; do sleep 20 & i=$((i+1)); done; ps | grep -c sleep"),
		call("run", map[string]any{"language": "python3", "code": "x = bytearray(1 << 30)"}),
		sh("head -c 10000000 /dev/zero > big; ls -l big"),
		sh("yes | head -c 3000000"),
		call("shell", map[string]any{"command": "sleep 60 & sleep 60", "seconds": 1}),
		sh("sleep 300 >/dev/null & echo left"),
		call("shell", map[string]any{"command": "i=0; while true; do i=$((i+1)); head -c 4000000 /dev/zero > f$i; sleep 0.1; done", "seconds": 60}),
		call("shell", map[string]any{"command": "true", "seconds": 10000}),
		sh("rm -f f*; ls | wc -l"),
	)
	expect(t, "fork bomb", got[0], "killed after 2")
	if slices.Contains(strings.Fields(got[1]), "60") {
		t.Errorf("60 processes run: %q", got[1])
	}
	expect(t, "memory", got[2], "MemoryError")
	expect(t, "size of a file", got[3], " 8388608 ")
	if len(got[4]) > 2200 {
		t.Errorf("the output has %d bytes", len(got[4]))
	}
	expect(t, "output", got[4], "y\ny\n", "bytes left out")
	expect(t, "time", got[5], "killed after 1")
	expect(t, "child that is left", got[6], "left")
	expect(t, "size of all files", got[7], "the files exceed the limit")
	expect(t, "too much time", got[8], "seconds")
	if took := time.Since(began); took > 60*time.Second {
		t.Errorf("it took %s", took)
	}
}

// The size of all files is limited while a command runs in the background, too.
func TestBackgroundCommandsAreMeasured(t *testing.T) {
	t.Parallel()
	h := newHouse(t, newStore(), wrap(t, nil), &workspace.Options{Limits: workspace.Limits{DiskBytes: 20 << 20}})
	h.do("s", call("shell", map[string]any{"command": "head -c 30000000 /dev/zero > big; sleep 30", "background": true}))
	testclock.Await(t, "the end of the command", func() bool {
		return strings.Contains(h.do("s", `processes {}`)[0], "was killed, because the files exceed the limit of size")
	})
	expect(t, "empty files", h.do("t", sh("i=0; while [ $i -lt 25000 ]; do i=$((i+1)); : > f$i; done; sleep 30"))[0], "the files exceed the limit")
}

// A stop kills the command with all that it has started, and what it did is undone.
func TestStopEndsTheCommand(t *testing.T) {
	t.Parallel()
	dir := base(t)
	p, err := workspace.Bubblewrap(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, newStore(), p, nil)
	h.do("s", write("kept", "1"))
	run, err := h.eng.Execute(t.Context(), "s", "bot", cairn.Text(sh("echo 2 > kept; touch started; (while true; do date > tick; sleep 0.05; done) & sleep 100")))
	if err != nil {
		t.Fatal(err)
	}
	testclock.Await(t, "the command to start", func() bool { return found(dir, "tick") != "" })
	if err := h.eng.Interrupt(t.Context(), "s", "enough"); err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(t.Context()); err != nil || res.Status != cairn.RunInterrupted {
		t.Fatal(res, err)
	}
	tick := found(dir, "tick")
	if err := os.Remove(tick); err != nil {
		t.Fatal(err)
	}
	if err := testclock.Pause(t.Context(), 300*time.Millisecond); err != nil { // the loop would write it again
		t.Fatal(err)
	}
	if found(dir, "tick") != "" {
		t.Error("a process of the command runs on")
	}
	got := h.do("s", read("kept"), `list {}`)
	if got[0] != "1" || got[1] != "kept (1 bytes)" {
		t.Errorf("after the stop: %q", got)
	}
}

// found returns the path of a file in a base of directories; "" if there is none.
func found(base, name string) string {
	list, _ := filepath.Glob(filepath.Join(base, "*", "*", "files", name))
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// The output of a command is published while it runs, as one part that changes.
func TestOutputIsPublishedWhileTheCommandRuns(t *testing.T) {
	t.Parallel()
	h := newHouse(t, newStore(), wrap(t, nil), nil)
	run, err := h.eng.Execute(t.Context(), "s", "bot", cairn.Text(sh("echo first; sleep 1; echo second")+"\n"+sh("true")))
	if err != nil {
		t.Fatal(err)
	}
	var texts, ids []string
	for ev, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == cairn.EventCustom && ev.Name == workspace.OutputEvent {
			var out workspace.Output
			if err := json.Unmarshal(ev.Data, &out); err != nil {
				t.Fatal(err)
			}
			texts, ids = append(texts, out.Text), append(ids, ev.DataID)
			if out.CallID != ev.DataID {
				t.Errorf("the event of call %s has the id %s", out.CallID, ev.DataID)
			}
		}
	}
	if len(texts) < 2 || texts[len(texts)-1] != "first\nsecond\n" || texts[0] != "first\n" || len(slices.Compact(ids)) != 1 {
		t.Errorf("published %q as %q", texts, ids)
	}
}
