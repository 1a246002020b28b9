package skillsync

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/cairn-agents/cairn/skill"
)

// Limits of skills.
const (
	// maxFiles is the maximum number of files of a skill.
	maxFiles = 200
	// maxDepth is how many levels of folders are searched for skills.
	maxDepth = 6
	// maxTotal is the maximum size of all skills together, in bytes.
	maxTotal = 64 << 20

	manifest = "SKILL.md"
)

// baked is a skill with its files.
type baked struct {
	lockedSkill
	contents map[string][]byte
	modes    map[string]fs.FileMode
}

// collect returns the skills below a folder of a commit: those with the names, or all.
func (c *commit) collect(dir string, names []string) (list []*baked, notes []string, err error) {
	if !c.isDir(dir) {
		return nil, nil, fmt.Errorf("no folder %s", dir)
	}
	for _, at := range c.folders(dir) {
		s, warnings, err := c.bake(at, names)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", at, err)
		}
		if s == nil {
			continue
		}
		list = append(list, s)
		for _, w := range warnings {
			notes = append(notes, fmt.Sprintf("skill %s: %s", s.Name, w))
		}
	}
	return list, notes, nil
}

// folders returns the folders with a SKILL.md below a folder, by path. Skills do not nest.
func (c *commit) folders(dir string) (dirs []string) {
	prefix := dir + "/"
	if dir == "." {
		prefix = ""
	}
	for _, name := range slices.Sorted(maps.Keys(c.entries)) {
		at := path.Dir(name)
		if path.Base(name) != manifest || !strings.HasPrefix(name, prefix) || strings.Count(strings.TrimPrefix(name, prefix), "/") > maxDepth {
			continue
		}
		dirs = append(dirs, at)
	}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		return slices.ContainsFunc(dirs, func(above string) bool {
			return above != dir && (above == "." || strings.HasPrefix(dir, above+"/"))
		})
	})
}

// bake reads the skill in a folder; nil if it has none of the names.
func (c *commit) bake(dir string, names []string) (*baked, []string, error) {
	raw, err := c.read(path.Join(dir, manifest), skill.MaxBody+64<<10)
	if err != nil {
		return nil, nil, err
	}
	folder := path.Base(dir)
	if dir == "." {
		folder = ""
	}
	parsed, err := skill.Parse(folder, raw)
	if err != nil {
		return nil, nil, err
	}
	if len(names) > 0 && !slices.Contains(names, parsed.Name) {
		return nil, nil, nil
	}
	s := &baked{lockedSkill{parsed.Name, c.address, c.hash, dir, map[string]string{}}, map[string][]byte{}, map[string]fs.FileMode{}}
	folded := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.entries)) {
		rel, within := strings.CutPrefix(name, dir+"/")
		if dir == "." {
			rel, within = name, true
		}
		entry := c.entries[name]
		if !within || entry.Mode == filemode.Dir {
			continue
		}
		if other, there := folded[strings.ToLower(rel)]; there {
			return nil, nil, fmt.Errorf("%s and %s differ by case only", other, rel)
		}
		folded[strings.ToLower(rel)] = rel
		switch {
		case !safe(rel):
			return nil, nil, fmt.Errorf("%q cannot be written on every system", rel)
		case len(s.Files) == maxFiles:
			return nil, nil, fmt.Errorf("more than %d files", maxFiles)
		}
		data, err := c.read(name, skill.MaxFile)
		if err != nil {
			return nil, nil, err
		}
		s.contents[rel], s.Files[rel], s.modes[rel] = data, skill.Digest(data), 0o644
		if entry.Mode == filemode.Executable {
			s.modes[rel] = 0o755
		}
	}
	return s, parsed.Warnings, nil
}

// checkAll reports whether skills can be in one folder, and in a Go file if embedded is set.
func checkAll(list []*baked, embedded bool) error {
	total := 0
	at := map[string]*baked{}
	for _, s := range list {
		if other := at[s.Name]; other != nil {
			return fmt.Errorf("the skill %q is in %s of %s and in %s of %s; select one of them by skills or plugins", s.Name, other.Path, other.Address, s.Path, s.Address)
		}
		at[s.Name] = s
		for name, data := range s.contents {
			total += len(data)
			if embedded && (path.Base(name) == "go.mod" || strings.ContainsAny(name, "\"*<>?`|")) {
				return fmt.Errorf("the skill %q has the file %q, which Go cannot embed; leave package out", s.Name, name)
			}
		}
	}
	if total > maxTotal {
		return fmt.Errorf("the skills have more than %d MiB", maxTotal>>20)
	}
	if len(list) == 0 {
		return errors.New("no skills were found")
	}
	return nil
}
