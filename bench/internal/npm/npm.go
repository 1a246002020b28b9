// Package npm installs the packages of systems on Node.
package npm

import (
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Install copies the files of a directory, including a package-lock.json, into a directory below dir. It installs
// their packages unless they are installed already, and returns that directory.
func Install(ctx context.Context, files embed.FS, name, dir string, progress io.Writer) (string, error) {
	sum := sha256.New()
	entries, err := files.ReadDir(name)
	if err != nil {
		return "", err
	}
	contents := map[string][]byte{}
	for _, e := range entries {
		data, err := files.ReadFile(name + "/" + e.Name())
		if err != nil {
			return "", err
		}
		contents[e.Name()] = data
		fmt.Fprintf(sum, "%s %d\n%s", e.Name(), len(data), data)
	}
	dir = filepath.Join(dir, fmt.Sprintf("%s-%x", name, sum.Sum(nil)[:8]))
	done := filepath.Join(dir, "installed")
	if _, err := os.Stat(done); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for name, data := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return "", err
		}
	}
	fmt.Fprintln(progress, "install the packages of", name)
	npm := exec.CommandContext(ctx, "npm", "ci", "--legacy-peer-deps", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return dir, os.WriteFile(done, nil, 0o644)
}

// Cache returns the default directory for packages.
func Cache() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "cairn-bench"), err
}
