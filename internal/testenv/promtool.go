package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Promtool returns the path of promtool, which checks and tests rules of Prometheus.
func Promtool(tb testing.TB) string {
	tb.Helper()
	if path, err := exec.LookPath("promtool"); err == nil {
		return path
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(cache, "cairn", "promtool", "promtool")
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("promtool is missing, which make test installs: %v", err)
	}
	return path
}
