package workspace_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostile are commands of BusyBox that may lead out of a sandbox, with two places.
var hostile = []string{
	"ln -s %[2]s %[1]s", "ln %[2]s %[1]s", "mkdir -p %[1]s", "mkfifo %[1]s", "cat %[1]s", "cat %[1]s/secret", "sh -c 'echo x > %[1]s'", "mv %[1]s %[2]s", "cp -r %[2]s %[1]s",
	"ls -laR %[1]s", "chmod 7777 %[1]s", "chown 0:0 %[1]s", "rm -rf %[1]s/secret", "mount --bind %[2]s %[1]s", "mount -t proc none %[1]s", "umount -l %[1]s", "mknod %[1]s b 8 0",
	"chroot %[1]s /bin/busybox cat %[2]s", "nsenter -t 1 -m cat %[2]s", "unshare -rm cat %[2]s", "find %[1]s -maxdepth 4 -name secret -exec cat {} +", "dd if=%[1]s bs=64 count=1", "grep -rs no.workspace %[1]s",
}

// hostilePlaces returns the places of such commands: in the workspace, and on the machine.
func hostilePlaces(outside string) []string {
	return []string{"a", "b", "d", "d/e", "l", "l/secret", "..", "../x", "/workspace/..", outside, outside + "/secret", "/proc/1/root", "/proc/1/root" + outside, "/proc/self/root" + outside + "/secret",
		"/proc/1/environ", "/proc/1/cwd/../../..", "/proc/sysrq-trigger", "/dev/kmsg", "/dev/sda", "/sys/fs/cgroup", "/agent", "/var/x", "/run", "/bin/busybox", "/etc/passwd"}
}

// FuzzContainer runs hostile commands in a container, and tools on the files that they leave: three bytes for each command and
// its places.
func FuzzContainer(f *testing.F) {
	dir := base(f)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	keep := filepath.Join(outside, "secret")
	if err := errors.Join(os.MkdirAll(outside, 0o777), os.Chmod(outside, 0o777), os.WriteFile(keep, []byte(secret), 0o666)); err != nil {
		f.Fatal(err)
	}
	provider, places := contain(f, dir), hostilePlaces(outside)
	f.Add([]byte{0, 0, 9, 5, 0, 9, 0, 4, 10, 4, 4, 0, 6, 0, 0, 12, 0, 0})                // links that lead out
	f.Add([]byte{2, 2, 0, 13, 2, 9, 14, 2, 0, 15, 2, 0, 16, 1, 0, 18, 0, 10, 19, 0, 10}) // mounts, devices and namespaces
	f.Add([]byte{20, 11, 0, 4, 12, 0, 4, 13, 0, 0, 4, 12, 4, 5, 0, 22, 11, 0, 11, 10, 0})
	n := 0
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 36 {
			t.Skip()
		}
		var script strings.Builder
		for ; len(program) >= 3; program = program[3:] {
			at := func(b byte) string { return places[int(b)%len(places)] }
			fmt.Fprintf(&script, "busybox timeout 2 busybox "+hostile[int(program[0])%len(hostile)]+" </dev/null 2>&1\n", at(program[1]), at(program[2]))
		}
		h := newHouse(t, newStore(), provider, nil)
		n++
		session := fmt.Sprintf("s%d", n)
		calls := []string{sh(script.String()), call("list", map[string]any{"pattern": "**"}), call("search", map[string]any{"query": "no workspace"})}
		for _, name := range []string{"a", "b", "d", "l"} {
			calls = append(calls, read(name), read(name+"/secret"), write(name+"/secret", "overwritten"), write(name, "overwritten"), call("remove", map[string]any{"path": name + "/secret"}))
		}
		for i, got := range h.do(session, calls...) {
			if strings.Contains(got, secret) {
				t.Errorf("call %d after\n%s\nhas the secret: %q", i, &script, got)
			}
		}
		if data, err := os.ReadFile(keep); err != nil || string(data) != secret {
			t.Errorf("after\n%s\nthe file outside is %q: %v", &script, data, err)
		}
		if list, err := os.ReadDir(outside); err != nil || len(list) != 1 {
			t.Errorf("after\n%s\noutside has %v: %v", &script, list, err)
		}
	})
}
