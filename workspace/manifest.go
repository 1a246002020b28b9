package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// begin stores the files that a session begins with, and returns their reference; "" if there are none.
func (w *Workspace) begin(ctx context.Context, owner driver.BlobOwner) (ref string, err error) {
	m := &w.opts.Manifest
	if len(m.Files)+len(m.Repositories) == 0 && m.FS == nil {
		return "", nil
	}
	base, err := os.MkdirTemp("", "cairn-workspace-")
	if err != nil {
		return "", cairn.Errorf(cairn.ErrUnavailable, "make the workspace: %w", err)
	}
	defer func() { err = errors.Join(err, removeAll(base)) }()
	s, err := newSlots(base, -1)
	if err != nil {
		return "", err
	}
	d, err := s.open(strings.Repeat("0", 32))
	if err != nil {
		return "", err
	}
	defer d.Close()
	if err := m.fill(ctx, d); err != nil {
		return "", cairn.Errorf(cairn.ErrUnavailable, "make the workspace: %w", err)
	}
	c := &checkout{dir: d, info: w.info, blobs: w.blobs, owner: owner, limits: w.opts.Limits}
	root, left, err := c.snapshot(ctx)
	if err != nil {
		return "", err
	}
	if text := left.String(); text != "" {
		w.opts.Logger.Warn("files of the manifest are left out", "session", owner.Root, "reason", text)
	}
	return reference{root: root, owner: owner}.String(), nil
}

// fill makes the files of the manifest in a directory: repositories first, so that files may be added to them.
func (m *Manifest) fill(ctx context.Context, d *localDirectory) error {
	for _, r := range m.Repositories {
		if err := d.Mkdir(r.Path); err != nil { // fails if a link of another repository leads it out
			return err
		}
		if err := r.clone(ctx, filepath.Join(d.slot, filesDir, filepath.FromSlash(r.Path))); err != nil {
			return err
		}
	}
	if m.FS != nil {
		if err := copyFS(m.FS, d); err != nil {
			return err
		}
	}
	for name, text := range m.Files {
		if err := d.Write(name, false, strings.NewReader(text)); err != nil {
			return err
		}
	}
	return nil
}

// clone makes the working tree. Hooks and configuration of the machine's user have no part in it.
func (r *Repository) clone(ctx context.Context, to string) error {
	args := []string{"-c", "core.hooksPath=/dev/null", "clone", "--quiet", "--no-hardlinks"}
	if r.Revision != "" {
		args = append(args, "--branch", r.Revision)
	}
	if r.Depth > 0 {
		args = append(args, "--depth", strconv.Itoa(r.Depth))
	}
	cmd := exec.CommandContext(ctx, "git", append(args, "--", r.URL, to)...)
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_GLOBAL="+os.DevNull)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("clone %s: %w: %s", r.URL, err, strings.TrimSpace(string(out)))
	}
	return nil
}

func copyFS(from fs.FS, to Directory) error {
	return fs.WalkDir(from, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if e.IsDir() {
			return to.Mkdir(name)
		}
		f, err := from.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		return to.Write(name, info.Mode()&0o100 != 0, f)
	})
}
