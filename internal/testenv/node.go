package testenv

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

//go:embed clients/package-lock.json
var locked []byte

// clientsDir returns the directory, below the user's cache directory, where ensure.sh installs the packages of
// directory clients.
func clientsDir() string {
	sum := sha256.Sum256(locked)
	return filepath.Join("cairn", "clients-"+hex.EncodeToString(sum[:6]))
}

// Chromium returns the path of a Chromium executable for a script that drives it.
func Chromium(tb testing.TB) string {
	tb.Helper()
	for _, name := range []string{"chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	tb.Fatal("Chromium is missing, which make test installs")
	return ""
}

// Node runs a script with Node.js, next to the clients' packages, and returns its output. The script is an ES
// module. It is stopped when the test ends.
func Node(tb testing.TB, script string, args ...string) []byte {
	tb.Helper()
	line := NodeCommand(tb, script, args...)
	cmd := exec.CommandContext(tb.Context(), line[0], line[1:]...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(cmd.SysProcAttr, syscall.SIGTERM)
	// The child dies with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		tb.Fatalf("%s %v: %v\n%s", script, args, err, &problems)
	}
	return out.Bytes()
}

// NodeCommand returns the command line by which Node.js runs a script next to the clients' packages, for callers
// that start it themselves.
func NodeCommand(tb testing.TB, script string, args ...string) []string {
	tb.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		tb.Fatal(err)
	}
	modules := filepath.Join(cache, clientsDir(), "node_modules")
	if _, err := os.Stat(modules); err != nil {
		tb.Fatalf("the clients are missing, which make test installs: %v", err)
	}
	dir := tb.TempDir()
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		tb.Fatal(err)
	}
	text, err := os.ReadFile(script)
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(dir, filepath.Base(script))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		tb.Fatal(err)
	}
	return append([]string{"node", file}, args...)
}
