package workspace_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/workspace"
)

const secret = "what no workspace may read"

// Commands make whatever could lead the tools for files, and snapshots, out of the workspace, or keep them busy for ever.
func TestCommandsDoNotLeadToolsAstray(t *testing.T) {
	t.Parallel()
	dir := base(t)
	p, err := workspace.Bubblewrap(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(filepath.Dir(dir), "outside")
	if err := os.MkdirAll(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(outside, "secret"), []byte(secret), 0o666), os.Chmod(outside, 0o777)); err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, newStore(), p, nil)
	made := h.do("s",
		sh("mkdir sub && echo inside > sub/f && ln -s "+outside+" abs && ln -s ../../../../outside up && ln -s ../outside/../../outside/secret up2 && ln -s loop loop && ln -s sub in && ln -s /workspace/sub own && ln -s /etc etc"),
		sh("mkfifo pipe && python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; ln sub/f sub/g"),
		sh("mkdir closed && echo x > closed/f && chmod 000 closed/f closed && mkdir -p sub2 && touch 'sub2/a\nb' && touch \"$(printf 'sub2/\\377')\" && touch .cairn-x"),
		sh(`python3 -c 'import os
for i in range(3000):
    os.mkdir("d"); os.chdir("d")
open("deep","w").write("x")'`),
	)
	for i, out := range made {
		if strings.Contains(out, "exit status") {
			t.Fatalf("command %d: %s", i, out)
		}
	}
	expect(t, "first command", made[0], "4 links that lead out of the workspace")
	expect(t, "second command", made[1], "2 devices, pipes or sockets")
	for _, name := range []string{"abs/secret", "up/secret", "up2", "loop", "pipe", "sock", "etc/shadow", "etc/passwd", outside + "/secret", "../../../outside/secret", "/etc/shadow", "sub/../../../../../outside/secret", "d"} {
		got := h.do("s", read(name), write(name, "overwritten"), call("edit", map[string]any{"path": name, "old": "no", "new": "a"}), call("list", map[string]any{"path": name}),
			call("search", map[string]any{"path": name, "query": "workspace"}), call("shell", map[string]any{"command": "pwd", "dir": name}))
		if all := strings.Join(got, "\n"); strings.Contains(all, secret) || strings.Contains(all, "root:x:0:0:root:/root:/bin/bash") {
			t.Errorf("%s: %q", name, all)
		}
	}
	if data, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(data) != secret {
		t.Errorf("the file outside is %q: %v", data, err)
	}
	if got := h.do("s", read("in/f"), read("sub/f"), write("sub/g", "new"), read("sub/f"), read("closed/f")); got[0] != "inside\n" || got[3] != "inside\n" || got[4] != "x\n" {
		t.Errorf("inside: %q", got)
	}
	// All of that can be removed, and restored elsewhere without what does not stay inside.
	other := newHouse(t, h.st, wrap(t, nil), nil)
	if got := other.do("s", read("in/f"), sh("cat own/f; ls -d abs up")); got[0] != "inside\n[The workspace was restored in a new sandbox: commands that ran in the background have ended, and files outside of it are gone.]" || !strings.Contains(got[1], "inside\n") {
		t.Errorf("on another machine: %q", got)
	}
	for _, name := range []string{"d", "closed", "sub2", "pipe", "abs"} {
		if got := h.do("s", call("remove", map[string]any{"path": name}))[0]; !strings.HasPrefix(got, "Removed") {
			t.Errorf("remove %s: %s", name, got)
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

// A command in the background swaps a directory for a link that leads out, again and again, while tools use it.
func TestSwappedDirectories(t *testing.T) {
	t.Parallel()
	dir := base(t)
	p, err := workspace.Bubblewrap(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(filepath.Dir(dir), "outside")
	if err := errors.Join(os.MkdirAll(outside, 0o777), os.Chmod(outside, 0o777), os.WriteFile(filepath.Join(outside, "f"), []byte(secret), 0o666)); err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, newStore(), p, nil)
	h.do("s", call("shell", map[string]any{"background": true, "command": "mkdir x y; ln -s " + outside + " z; touch ready; while true; do mv x y/; mv z x; mv x z; mv y/x x; done 2>/dev/null"}))
	testclock.Await(t, "the command", func() bool { return found(dir, "ready") != "" })
	for began := time.Now(); time.Since(began) < 3*time.Second; {
		for _, got := range h.do("s", write("x/f", "mine"), read("x/f"), `search {"query":"workspace"}`, `list {"pattern":"**"}`) {
			if strings.Contains(got, secret) {
				t.Fatalf("a tool was led out: %q", got)
			}
		}
	}
	if data, err := os.ReadFile(filepath.Join(outside, "f")); err != nil || string(data) != secret {
		t.Errorf("the file outside is %q: %v", data, err)
	}
	if list, _ := os.ReadDir(outside); len(list) != 1 {
		t.Errorf("outside has %v", list)
	}
}

// FuzzDirectory makes a link, and uses paths that may lead through it.
func FuzzDirectory(f *testing.F) {
	for _, seed := range [][3]string{
		{"l", "..", "l/secret"}, {"l", "../../..", "l/x"}, {"a/l", "../..", "a/l/secret"}, {"l", "l", "l/l"}, {"l", "a/../../b", "l"}, {"l", "/etc", "l/passwd"},
		{"l", "/workspace/..", "l"}, {"l", ".", "l/l/l/l"}, {"a", "b", "a/c"}, {"..", "x", "../secret"}, {"l\x00", "x", "\x00"}, {"a/./b", "x", "a//b"}, {"", "", ""},
		{"l", "../files/../../0/lock", "l"}, {"l", "secret\xff", "l"}, {strings.Repeat("a/", 70) + "b", "x", strings.Repeat("b", 300)},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, link, target, name string) {
		outside := t.TempDir()
		keep := filepath.Join(outside, "secret")
		if err := os.WriteFile(keep, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		local, err := workspace.Dir(filepath.Join(outside, "base"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []workspace.Provider{local, workspace.Memory()} {
			d, err := p.Open(t.Context(), strings.Repeat("a", 32))
			if err != nil {
				t.Fatal(err)
			}
			use(t, d, link, target, name)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
		if data, err := os.ReadFile(keep); err != nil || string(data) != secret {
			t.Fatalf("%q -> %q, %q: the file outside is %q: %v", link, target, name, data, err)
		}
		list, err := os.ReadDir(outside)
		if err != nil || len(list) != 2 {
			t.Fatalf("%q -> %q, %q: outside has %v: %v", link, target, name, list, err)
		}
	})
}

// use uses a directory with paths that it has not checked.
func use(t *testing.T, d workspace.Directory, link, target, name string) {
	_ = d.Link(link, target)
	_ = d.Write("inside", false, strings.NewReader("x"))
	if f, _, err := d.Open(name); err == nil {
		data, err := io.ReadAll(f)
		if err != nil || strings.Contains(string(data), secret) {
			t.Fatalf("%q -> %q: %q has %q: %v", link, target, name, data, err)
		}
		_ = f.Close()
	}
	_ = d.Write(name, true, strings.NewReader("y"))
	_ = d.Mkdir(name + "/z")
	_, _ = d.Stat(name)
	var links int
	err := d.Walk(context.Background(), func(e workspace.Entry) error {
		if links++; links > 1000 {
			return fs.ErrInvalid
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%q -> %q, %q: %v", link, target, name, err)
	}
	_ = d.Remove(name)
	_ = d.Remove(link)
}
