package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// earlier returns the other versions of a version's minor version that a remote has.
func (r repository) earlier(remote, version string) (list []string, err error) {
	minor := version[:strings.LastIndex(strings.SplitN(version, "-", 2)[0], ".")+1] // v0.1.
	tags, err := r.git("ls-remote", "--tags", "--refs", remote, "refs/tags/"+minor+"*")
	for line := range strings.Lines(tags) {
		_, tag, _ := strings.Cut(strings.TrimSpace(line), "\trefs/tags/")
		if tag != "" && tag != version {
			list = append(list, tag)
		}
	}
	return list, err
}

// checkMixtures reports whether the modules of each earlier version of the same minor version build with the root module
// of this one, which they import internal packages of. A module never gets an older root than it requires, so these are
// the mixtures that there are.
func (r repository) checkMixtures(remote, version string, modules []module) error {
	versions, err := r.earlier(remote, version)
	if err != nil {
		return err
	}
	for _, old := range versions {
		if err := r.checkMixture(remote, old, modules); err != nil {
			return fmt.Errorf("the modules of %s do not build with the root of %s, as docs/COMPATIBILITY.md promises: %w", old, version, err)
		}
	}
	return nil
}

// checkMixture builds the modules of an old version with the root of the clone, in a workspace beside the clone.
func (r repository) checkMixture(remote, old string, modules []module) error {
	temp := filepath.Join(filepath.Dir(r.dir), "mixture")
	if err := os.Mkdir(temp, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	earlier := repository{dir: filepath.Join(temp, "old")}
	if _, err := r.git("clone", "--quiet", "--no-checkout", "--branch="+old, remote, earlier.dir); err != nil {
		return err
	}
	dirs := []string{"sparse-checkout", "set"}
	for _, m := range modules[1:] {
		dirs = append(dirs, m.dir)
	}
	for _, args := range [][]string{dirs, {"checkout", "--quiet"}} {
		if _, err := earlier.git(args...); err != nil {
			return err
		}
	}
	use := []string{"work", "init", r.dir}
	// The old modules require each other, and the root, at the old version.
	instead := []string{"work", "edit", "-replace=" + modules[0].Module.Path + "@" + old + "=" + r.dir}
	build := []string{"build"}
	for _, m := range modules[1:] {
		dir := "./" + path.Join("old", m.dir)
		if _, err := os.Stat(filepath.Join(temp, dir, "go.mod")); err == nil {
			use = append(use, dir)
			instead = append(instead, "-replace="+m.Module.Path+"@"+old+"="+dir)
			build = append(build, dir+"/...")
		}
	}
	for _, args := range [][]string{use, instead, build} {
		if _, err := (repository{dir: temp}).output([]string{"GOWORK="}, ".", "go", args...); err != nil {
			return err
		}
	}
	return nil
}
