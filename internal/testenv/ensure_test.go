package testenv_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a directory of commands that shadow the real ones.
type machine struct {
	bin  string
	home string // directory of the Temporal server; empty for the default
}

func newMachine(t *testing.T, commands map[string]string) machine {
	t.Helper()
	m := machine{bin: t.TempDir()}
	for name, script := range commands {
		if err := os.WriteFile(filepath.Join(m.bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// ensure runs the script with "fake-cc" as the C compiler.
func (m machine) ensure(t *testing.T) (output string, err error) {
	t.Helper()
	cmd := exec.Command("sh", "ensure.sh")
	cmd.Env = append(os.Environ(), "CC=fake-cc", "BIN="+m.bin, "PATH="+m.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	if m.home != "" {
		cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+m.home)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

const sudo = `[ "$1" = -n ] && shift; exec "$@"`

func TestEnsureInstallsNothingThatIsThere(t *testing.T) {
	t.Parallel()
	m := newMachine(t, map[string]string{"sudo": sudo, "fake-cc": "cat >/dev/null", "apt-get": "echo called; exit 1"})
	if out, err := m.ensure(t); err != nil || out != "" {
		t.Fatalf("ensure: %v\n%s", err, out)
	}
}

func TestEnsureInstallsWhatIsMissing(t *testing.T) {
	t.Parallel()
	m := newMachine(t, map[string]string{
		"sudo":    sudo,
		"apt-get": `echo "apt-get $*"; case "$*" in *install*) printf '#!/bin/sh\ncat >/dev/null\n' >"$BIN/fake-cc"; chmod +x "$BIN/fake-cc";; esac`,
	})
	out, err := m.ensure(t)
	if err != nil {
		t.Fatalf("ensure: %v\n%s", err, out)
	}
	if !strings.Contains(out, "apt-get -qq update\napt-get -qq -y install --no-install-recommends gcc libc6-dev\n") {
		t.Errorf("not the commands to install a C compiler:\n%s", out)
	}
}

func TestEnsureFailsOverWhatStaysMissing(t *testing.T) {
	t.Parallel()
	for name, aptGet := range map[string]string{
		"the update fails":              "exit 100",
		"the install fails":             `case "$*" in *install*) exit 100;; esac`,
		"the package does not bring it": "exit 0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := newMachine(t, map[string]string{"sudo": sudo, "apt-get": aptGet}).ensure(t)
			if err == nil || !strings.Contains(out, "a C compiler, for the race detector: missing") ||
				!strings.Contains(out, "please install it (on Debian: apt-get install gcc libc6-dev)") {
				t.Errorf("ensure: %v\n%s", err, out)
			}
		})
	}
}

// promtool is unpacked alone. Without the right to list packages anew, it is enough to download its package.
func TestEnsureUnpacksPromtool(t *testing.T) {
	t.Parallel()
	if path, err := exec.LookPath("promtool"); err == nil {
		t.Logf("nothing is unpacked, since there is %s", path)
		return
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ aptGet, want string }{
		"there":  {`case "$*" in *download*) : >prometheus_1_amd64.deb;; *) exit 1;; esac`, ""},
		"absent": {"exit 100", "promtool cannot be unpacked: please install it (on Debian: apt-get install prometheus)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, map[string]string{"fake-cc": "cat >/dev/null", "sudo": sudo, "apt-get": test.aptGet,
				"dpkg": `[ "$*" = "-x prometheus_1_amd64.deb ." ] && mkdir -p usr/bin && : >usr/bin/prometheus && printf '#!/bin/sh\n' >usr/bin/promtool && chmod +x usr/bin/promtool`})
			m.home = t.TempDir()
			if err := os.Mkdir(filepath.Join(m.home, "cairn"), 0o755); err != nil {
				t.Fatal(err)
			}
			others, _ := filepath.Glob(filepath.Join(cache, "cairn", "*-*")) // the other programs, each with a version
			for _, dir := range others {
				if err := os.Symlink(dir, filepath.Join(m.home, "cairn", filepath.Base(dir))); err != nil {
					t.Fatal(err)
				}
			}
			out, err := m.ensure(t)
			unpacked, _ := filepath.Glob(filepath.Join(m.home, "cairn", "promtool", "*"))
			if there := test.want == ""; (err == nil) != there || (len(unpacked) == 1) != there || !strings.Contains(out, test.want) {
				t.Errorf("ensure: %v, %q\n%s", err, unpacked, out)
			}
		})
	}
}

// All that is missing is printed first, and nothing is begun that cannot be completed.
func TestEnsureSaysAllThatIsMissingFirst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		commands map[string]string
		want     string
	}{
		"no right to install": {map[string]string{"id": "echo 1000", "sudo": "exit 1", "apt-get": "echo called"}, "there is neither root nor sudo without a password"},
		"sudo may install":    {map[string]string{"sudo": sudo, "apt-get": "echo called; exit 1"}, "called"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, test.commands)
			m.home = t.TempDir() // no Temporal server is built there
			out, err := m.ensure(t)
			compiler, server := strings.Index(out, "a C compiler, for the race detector: missing"), strings.Index(out, "a Temporal server: missing")
			if then := strings.Index(out, test.want); err == nil || compiler < 0 || server < compiler || then < server {
				t.Errorf("ensure: %v\n%s", err, out)
			}
		})
	}
}
