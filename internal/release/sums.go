package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// license is the file of the root that the go command adds to a module that has none.
const license = "LICENSE"

// sums returns the lines of a go.sum for a module as it is staged in the clone: the hashes of its files by the rules of
// golang.org/x/mod/sumdb/dirhash. The go command would have to unpack each module for them; see [repository.verify].
func (r repository) sums(m module, version string) ([]string, error) {
	files, err := r.filesOf(m)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	hashes, err := r.hashes(files, names)
	if err != nil {
		return nil, err
	}
	sum := func(prefix string, names ...string) string {
		all := sha256.New()
		for _, name := range names {
			fmt.Fprintf(all, "%x  %s%s\n", hashes[name], prefix, name)
		}
		return "h1:" + base64.StdEncoding.EncodeToString(all.Sum(nil))
	}
	at := m.Module.Path + " " + version
	return []string{
		at + " " + sum(m.Module.Path+"@"+version+"/", names...),
		at + "/go.mod " + sum("", "go.mod"),
	}, nil
}

// filesOf returns the files of a module with their objects: what is below its directory, except other modules and
// symbolic links.
func (r repository) filesOf(m module) (map[string]string, error) {
	out, err := r.git("ls-files", "--stage", "-z")
	if err != nil {
		return nil, err
	}
	objects := map[string]string{}
	var modules []string
	for entry := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		info, file, _ := strings.Cut(entry, "\t")
		if fields := strings.Fields(info); len(fields) == 3 && strings.HasPrefix(fields[0], "100") {
			objects[file] = fields[1]
		}
		if dir := path.Dir(file); path.Base(file) == "go.mod" && dir != m.dir {
			modules = append(modules, dir+"/")
		}
	}
	files := map[string]string{}
	for file, object := range objects {
		name, within := strings.CutPrefix(file, m.dir+"/")
		if m.dir == "." {
			name, within = file, true
		}
		other := slices.ContainsFunc(modules, func(dir string) bool {
			return strings.HasPrefix(file, dir) && len(dir) > len(m.dir)
		})
		if within && !other {
			files[name] = object
		}
	}
	if files[license] == "" && objects[license] != "" {
		files[license] = objects[license]
	}
	if files["go.mod"] == "" {
		return nil, fmt.Errorf("%s: go.mod is not staged", m.dir)
	}
	return files, nil
}

// hashes returns the SHA-256 of the contents of files.
func (r repository) hashes(files map[string]string, names []string) (map[string][]byte, error) {
	var ask strings.Builder
	for _, name := range names {
		fmt.Fprintln(&ask, files[name])
	}
	cmd := exec.Command("git", "cat-file", "--batch")
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(ask.String())
	raw, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	answers := bufio.NewReader(bytes.NewReader(raw))
	hashes := map[string][]byte{}
	for _, name := range names {
		head, err := answers.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("git cat-file: %s: %w", name, err)
		}
		var object, kind string
		var size int64
		if _, err := fmt.Sscan(head, &object, &kind, &size); err != nil || kind != "blob" {
			return nil, fmt.Errorf("git cat-file: %s: unexpected %q", name, head)
		}
		hash := sha256.New()
		if _, err := io.CopyN(hash, answers, size); err != nil {
			return nil, fmt.Errorf("git cat-file: %s: %w", name, err)
		}
		if _, err := answers.Discard(1); err != nil {
			return nil, fmt.Errorf("git cat-file: %s: %w", name, err)
		}
		hashes[name] = hash.Sum(nil)
	}
	return hashes, nil
}

// verify reports whether the go command, which downloads the tagged modules into an empty module cache, computes the
// same hashes.
func (r repository) verify(modules []module, version string, sums map[string][]string, cache string) error {
	env := append(gitFrom(r.dir, sourceOf(modules)), "GOMODCACHE="+cache, "GOFLAGS=-modcacherw", "GOPROXY=direct", "GONOSUMDB=*")
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		args = append(args, m.Module.Path+"@"+version)
	}
	out, err := r.output(env, "..", "go", args...)
	if err != nil {
		return err
	}
	list := json.NewDecoder(strings.NewReader(out))
	for range modules {
		var found struct{ Path, Sum, GoModSum string }
		if err := list.Decode(&found); err != nil {
			return err
		}
		at := found.Path + " " + version
		if want := []string{at + " " + found.Sum, at + "/go.mod " + found.GoModSum}; !slices.Equal(sums[found.Path], want) {
			return fmt.Errorf("the go command computes the hashes %q, not %q", want, sums[found.Path])
		}
	}
	return nil
}

// addSums inserts lines into the text of a go.sum, which is sorted by the paths of modules.
func addSums(text string, add []string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if text == "" {
		lines = nil
	}
	for _, line := range add {
		i := slices.IndexFunc(lines, func(other string) bool { return pathOf(other) > pathOf(line) })
		if i < 0 {
			i = len(lines)
		}
		lines = slices.Insert(lines, i, line)
	}
	return strings.Join(lines, "\n") + "\n"
}

func pathOf(line string) string {
	modulePath, _, _ := strings.Cut(line, " ")
	return modulePath
}

// gitFrom returns the environment in which git reads the directory instead of the URL.
func gitFrom(dir, url string) []string {
	return []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url." + dir + ".insteadOf", "GIT_CONFIG_VALUE_0=" + url}
}
