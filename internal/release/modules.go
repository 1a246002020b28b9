package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// unpublished are directories whose modules nobody requires: they have no version, and keep their replace directives.
var unpublished = []string{"bench", "examples", "tools"}

// module is a published module of the repository.
type module struct {
	dir string // relative to the repository's root, with slashes

	Module  struct{ Path string }
	Require []struct{ Path string }
	Replace []struct{ Old struct{ Path string } }
}

// tag is the tag by which the go command finds a version of the module.
func (m module) tag(version string) string { return path.Join(m.dir, version) }

// modules returns the published modules, each after those that it requires.
func (r repository) modules() ([]module, error) {
	files, err := r.git("ls-files", "go.mod", "*/go.mod")
	if err != nil {
		return nil, err
	}
	found := map[string]module{}
	var paths []string
	for _, file := range strings.Fields(files) {
		m := module{dir: path.Dir(file)}
		if slices.Contains(unpublished, strings.Split(m.dir, "/")[0]) {
			continue
		}
		out, err := r.output(nil, m.dir, "go", "mod", "edit", "-json")
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(out), &m); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		found[m.Module.Path] = m
		paths = append(paths, m.Module.Path)
	}

	var order []module
	seen := map[string]bool{}
	var add func(string)
	add = func(modulePath string) {
		m, ours := found[modulePath]
		if !ours || seen[modulePath] {
			return
		}
		seen[modulePath] = true
		for _, required := range m.Require {
			add(required.Path)
		}
		order = append(order, m)
	}
	for _, p := range paths {
		add(p)
	}
	for _, m := range order {
		for _, replaced := range m.Replace {
			if _, ours := found[replaced.Old.Path]; !ours {
				return nil, fmt.Errorf("%s/go.mod replaces %s, which is not published", m.dir, replaced.Old.Path)
			}
		}
	}
	if len(order) == 0 || order[0].dir != "." {
		return nil, fmt.Errorf("the first of %d modules is not the root", len(order))
	}
	return order, nil
}

// sourceOf returns the URL that the go command clones the modules from.
func sourceOf(modules []module) string { return "https://" + modules[0].Module.Path }

// require makes a module require its siblings at the version, and adds their hashes to its go.sum.
func (r repository) require(m module, version string, sums map[string][]string) error {
	args := []string{"mod", "edit"}
	var lines []string
	for _, required := range m.Require {
		if sum, ours := sums[required.Path]; ours {
			args = append(args, "-require="+required.Path+"@"+version)
			lines = append(lines, sum...)
		}
	}
	for _, replaced := range m.Replace {
		args = append(args, "-dropreplace="+replaced.Old.Path)
	}
	if len(args) == 2 {
		return nil
	}
	if _, err := r.output(nil, m.dir, "go", args...); err != nil {
		return err
	}
	file := filepath.Join(r.dir, m.dir, "go.sum")
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(addSums(string(old), lines)), 0o644)
}

// repository is a clone.
type repository struct {
	dir  string
	base string // the commit that is released
}

// commit commits every change, and tags it. Author and date are those of the released commit, so that the same version
// of the same commit has the same hash.
func (r repository) commit(message string, tags ...string) error {
	who, err := r.git("log", "-1", "--format=%cn%n%ce%n%cI", r.base)
	if err != nil {
		return err
	}
	lines := strings.Split(who, "\n")
	var env []string
	for _, role := range []string{"AUTHOR", "COMMITTER"} {
		env = append(env, "GIT_"+role+"_NAME="+lines[0], "GIT_"+role+"_EMAIL="+lines[1], "GIT_"+role+"_DATE="+lines[2])
	}
	if _, err := r.output(env, ".", "git", "commit", "--quiet", "--no-gpg-sign", "--no-verify", "--allow-empty", "--all", "-m", message); err != nil {
		return err
	}
	for _, tag := range tags {
		if _, err := r.git("-c", "tag.gpgSign=false", "tag", "--force", tag); err != nil {
			return err
		}
	}
	return nil
}

func (r repository) git(args ...string) (string, error) {
	out, err := r.output(nil, ".", "git", args...)
	return strings.TrimSpace(out), err
}

// output runs a command in a directory of the clone, outside its workspace, and returns what it prints.
func (r repository) output(env []string, dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = filepath.Join(r.dir, dir)
	cmd.Env = append(append(os.Environ(), "GOWORK=off"), env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// run runs a program of the clone, with the output on the terminal.
func (r repository) run(program string) error {
	cmd := exec.Command(filepath.Join(r.dir, program))
	cmd.Dir = r.dir
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
