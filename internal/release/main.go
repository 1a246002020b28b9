// Command release makes a version of Cairn: one commit in which the published modules require each other at that
// version, and a tag of each module on it. At HEAD they require each other's directories, by replace directives, which
// work in a clone and which the go command refuses or ignores elsewhere.
//
//	go run ./internal/release -version v0.1.0 -fixtures     write its fixtures into the work tree, to be committed
//	go run ./internal/release -version v0.1.0 -n            make it in a copy, and push nothing
//	go run ./internal/release -version v0.1.0               make it, and push the tags to origin
//	go run ./internal/release -version v0.1.0 -remote URL   push them there
//
// It needs a clean work tree, a section of the version in CHANGELOG.md, and the version's fixtures: a store of each kind
// as this source writes it, which the tests of every later version read. It runs .ci/run in the copy first. The same HEAD
// and version make the same commit, so it can be repeated: tags that are there already are left alone, and tags of
// another commit are an error. Except for -fixtures, the work tree and the repository it belongs to are never changed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	var o options
	flag.StringVar(&o.version, "version", "", "the version, such as v0.1.0 or v0.1.0-rc.1")
	flag.StringVar(&o.remote, "remote", "origin", "where the tags are pushed to: a remote's name or a URL")
	flag.BoolVar(&o.dry, "n", false, "push nothing")
	flag.BoolVar(&o.fixtures, "fixtures", false, "write the version's fixtures into the work tree, and make no version")
	flag.BoolVar(&o.unchecked, "unchecked", false, "leave out .ci/run and the check of mixtures, which have passed for this commit")
	flag.Parse()
	if err := release(".", o); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

type options struct {
	version   string
	remote    string
	dry       bool
	fixtures  bool
	unchecked bool
}

// release makes the version from HEAD of the repository at root.
func release(root string, o options) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	source := repository{dir: root}
	if o.fixtures {
		dirs, err := source.writeFixtures(o.version, root)
		if err == nil {
			fmt.Printf("wrote %s\ncommit them with %s, then run make release VERSION=%s\n", strings.Join(dirs, " "), changelog, o.version)
		}
		return err
	}
	base, err := source.git("rev-parse", "HEAD")
	if err != nil {
		return err
	}
	if err := source.ready(o.version); err != nil {
		return err
	}
	if url, err := source.git("remote", "get-url", o.remote); err == nil {
		o.remote = url
	} else if !strings.ContainsAny(o.remote, "/:") {
		if !o.dry {
			return fmt.Errorf("-remote: no remote is named %s", o.remote)
		}
		o.remote = ""
	}

	temp, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	copied := repository{dir: filepath.Join(temp, "copy"), base: base}
	if _, err := source.git("clone", "--quiet", "--shared", "--no-tags", "--no-checkout", root, copied.dir); err != nil {
		return err
	}
	if o.unchecked { // nothing is built
		if _, err := copied.git("sparse-checkout", "set", "--no-cone", "go.mod", "go.sum"); err != nil {
			return err
		}
	}
	if _, err := copied.git("checkout", "--quiet", "--detach", base); err != nil {
		return err
	}
	if !o.unchecked {
		if err := copied.run(".ci/run"); err != nil {
			return fmt.Errorf("the checks of this commit fail: %w", err)
		}
	}
	modules, err := copied.modules()
	if err != nil {
		return err
	}
	tags, sums, err := copied.release(o.version, modules)
	if err != nil {
		return err
	}
	if !o.unchecked {
		if err := copied.verify(modules, o.version, sums, filepath.Join(temp, "mod")); err != nil {
			return err
		}
	}
	if !o.unchecked && o.remote != "" {
		if err := copied.checkMixtures(o.remote, o.version, modules); err != nil {
			return err
		}
	}
	commit, err := copied.git("rev-parse", "HEAD")
	if err != nil {
		return err
	}
	fmt.Printf("%s is commit %s with %d tags: %s\n", o.version, commit, len(tags), strings.Join(tags, " "))
	if o.dry {
		return nil
	}
	return copied.push(o.remote, commit, tags)
}

// ready reports whether HEAD can become the version.
func (r repository) ready(version string) error {
	if !validVersion(version) {
		return wrongVersion(version)
	}
	changes, err := r.git("status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("the work tree has changes that are not committed:\n%s", changes)
	}
	log, err := os.ReadFile(filepath.Join(r.dir, changelog))
	if err != nil {
		return err
	}
	if err := checkChangelog(string(log), version); err != nil {
		return err
	}
	return r.checkFixtures(version)
}

// release commits the version in the copy, and returns the tags of its modules and their lines of a go.sum. Modules are
// changed in the order of their requirements, since the go.sum of one holds the hashes of those that it requires.
func (r repository) release(version string, modules []module) (tags []string, sums map[string][]string, err error) {
	sums = map[string][]string{}
	for _, m := range modules {
		if err := r.require(m, version, sums); err != nil {
			return nil, nil, err
		}
		if _, err := r.git("add", "--update", m.dir); err != nil {
			return nil, nil, err
		}
		if sums[m.Module.Path], err = r.sums(m, version); err != nil {
			return nil, nil, err
		}
		tags = append(tags, m.tag(version))
	}
	slices.Sort(tags)
	return tags, sums, r.commit("Release "+version, tags...)
}

// push adds the tags to the remote, all or none. Tags that are there already must be of the same commit.
func (r repository) push(remote, commit string, tags []string) error {
	list, err := r.git("ls-remote", "--tags", remote)
	if err != nil {
		return err
	}
	var missing []string
	for _, tag := range tags {
		i := slices.IndexFunc(strings.Split(list, "\n"), func(line string) bool {
			return strings.HasSuffix(line, "\trefs/tags/"+tag)
		})
		if i < 0 {
			missing = append(missing, "refs/tags/"+tag)
		} else if !strings.HasPrefix(strings.Split(list, "\n")[i], commit) {
			return fmt.Errorf("%s has the tag %s already, of another commit: a released version cannot be made again", remote, tag)
		}
	}
	if len(missing) == 0 {
		fmt.Printf("%s has these tags already\n", remote)
		return nil
	}
	if _, err := r.git(append([]string{"push", "--quiet", "--atomic", remote}, missing...)...); err != nil {
		return errors.Join(errors.New("nothing was pushed"), err)
	}
	return nil
}
