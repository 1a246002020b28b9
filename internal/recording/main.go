// Command recording records the demo at a pseudo-terminal and writes it as an animated SVG, which needs no script and
// no font: the README shows it as an image.
//
//	go run ./internal/recording -o docs/demo.svg
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	columns = 112
	rows    = 21
)

func main() {
	out := flag.String("o", "docs/demo.svg", "the file to write")
	flag.Parse()
	if err := run(context.Background(), *out); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string) error {
	dir, err := os.MkdirTemp("", "cairn-recording")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := build(ctx, ".", dir)
	if err != nil {
		return err
	}
	r := &recorder{screen: newScreen(columns), program: program, dir: dir, key: 45 * time.Millisecond, real: true}
	if err := r.play(ctx, story); err != nil {
		return err
	}
	return os.WriteFile(out, render(r.screen, r.now+hold), 0o644)
}

// build builds the command as make demo does, and returns its path.
func build(ctx context.Context, root, dir string) (string, error) {
	program := filepath.Join(dir, "cairn")
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "demo", "-o", program, "./cmd/cairn")
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return program, nil
}
