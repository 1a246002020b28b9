package skillsync

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn/skill"
)

// goFile is the name of the Go file that embeds the skills.
const goFile = "skills.go"

// Report is what a sync has done.
type Report struct {
	// Changed reports whether anything was written. If not, nothing was fetched either, unless by Update.
	Changed bool
	// Skills are the names of the skills, sorted.
	Skills []string
	// Notes are mistakes in skills, and parts of plugins that were refused.
	Notes []string
}

// Sync makes the folder of a file have the skills that it declares. Commits are those of the lock file. A source that
// the lock file does not have, or every source if update is set, gets the commit that its ref names now. If folder, file
// and lock file agree, nothing is fetched. After an error nothing has changed, unless the error is one of writing.
func Sync(ctx context.Context, name string, update bool) (*Report, error) {
	f, err := Read(name)
	if err != nil {
		return nil, err
	}
	old, err := readLock(name)
	if err != nil {
		return nil, err
	}
	if old != nil && !update {
		differences, err := f.compare(name, old)
		if err != nil {
			return nil, err
		}
		if len(differences) == 0 {
			return &Report{Skills: old.names()}, nil
		}
	}
	next := &lock{Version: lockVersion, Package: f.Package}
	report := &Report{Changed: true}
	var list []*baked
	for i := range f.Sources {
		pinned := old.source(&f.Sources[i])
		if update {
			pinned = nil
		}
		locked, skills, notes, err := take(ctx, &f.Sources[i], pinned)
		if err != nil {
			return nil, fmt.Errorf("sources[%d]: %s: %w", i, f.Sources[i].address(), err)
		}
		next.Sources = append(next.Sources, *locked)
		list, report.Notes = append(list, skills...), append(report.Notes, notes...)
	}
	if err := checkAll(list, f.Package != ""); err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b *baked) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range list {
		next.Skills = append(next.Skills, s.lockedSkill)
	}
	report.Skills = next.names()
	if err := f.write(name, old, next, list); err != nil {
		return nil, err
	}
	return report, next.write(name)
}

func (l *lock) names() (list []string) {
	for _, s := range l.Skills {
		list = append(list, s.Name)
	}
	return list
}

// take fetches a source and returns its skills.
func take(ctx context.Context, s *Source, pinned *lockedSource) (locked *lockedSource, list []*baked, notes []string, err error) {
	dir, remove, err := tempDir()
	if err != nil {
		return nil, nil, nil, err
	}
	defer remove()
	hash := ""
	if pinned != nil {
		hash = pinned.Commit
	}
	at, err := fetch(ctx, dir, s.address(), s.Ref, hash)
	if err != nil {
		return nil, nil, nil, err
	}
	locked = &lockedSource{Source: *s, Commit: at.hash}
	if s.Git != "" {
		list, notes, err = at.collect(cmp.Or(s.Path, "."), s.Skills)
	} else {
		list, notes, err = takePlugins(ctx, at, locked, pinned)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	for _, name := range s.Skills {
		if !slices.ContainsFunc(list, func(b *baked) bool { return b.Name == name }) {
			return nil, nil, nil, fmt.Errorf("skills: no skill %q", name)
		}
	}
	return locked, list, notes, nil
}

// takePlugins returns the skills of the plugins of a marketplace.
func takePlugins(ctx context.Context, market *commit, locked, pinned *lockedSource) (list []*baked, notes []string, err error) {
	plugins, err := market.plugins(locked.Plugins)
	if err != nil {
		return nil, nil, err
	}
	taken := map[string]bool{} // folders, which several plugins may name
	for _, p := range plugins {
		skills, more, err := takePlugin(ctx, market, p, locked, pinned, taken)
		if err != nil {
			return nil, nil, fmt.Errorf("plugin %s: %w", p.Name, err)
		}
		list, notes = append(list, skills...), append(notes, more...)
	}
	return list, notes, nil
}

func takePlugin(ctx context.Context, at *commit, p *plugin, locked, pinned *lockedSource, taken map[string]bool) (list []*baked, notes []string, err error) {
	address, ref, dir, err := p.at(at.address)
	if err != nil {
		return nil, nil, err
	}
	if address != "" {
		objects, remove, err := tempDir()
		if err != nil {
			return nil, nil, err
		}
		defer remove()
		if at, err = fetch(ctx, objects, address, ref, pinned.pinned(address, ref)); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", address, err)
		}
		if r := (repository{address, ref, at.hash}); !slices.Contains(locked.Repositories, r) {
			locked.Repositories = append(locked.Repositories, r)
		}
	}
	dirs, notes, err := at.skillDirs(dir, p)
	if err != nil {
		return nil, nil, err
	}
	for _, dir := range dirs {
		skills, more, err := at.collect(dir, locked.Skills)
		if err != nil {
			return nil, nil, err
		}
		for _, s := range skills {
			if key := s.Address + " " + s.Commit + " " + s.Path; !taken[key] {
				taken[key] = true
				list = append(list, s)
			}
		}
		notes = append(notes, more...)
	}
	return list, notes, nil
}

// Check returns what differs between a file, its lock file and its folder, a line each. It needs no network.
func Check(name string) ([]string, error) {
	f, err := Read(name)
	if err != nil {
		return nil, err
	}
	l, err := readLock(name)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return []string{lockName(name) + ": is missing"}, nil
	}
	return f.compare(name, l)
}

func (f *File) compare(name string, l *lock) (differences []string, err error) {
	differ := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	for i := range f.Sources {
		if l.source(&f.Sources[i]) == nil {
			differ("%s: sources[%d]: is not in the lock file as it is declared", name, i)
		}
	}
	if len(l.Sources) > len(f.Sources) {
		differ("%s: has sources that %s has not", lockName(name), name)
	}
	into := filepath.Join(filepath.Dir(name), f.Into)
	root, err := os.OpenRoot(into)
	if errors.Is(err, fs.ErrNotExist) {
		differ("%s: is missing", into)
		return differences, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, s := range l.Skills {
		more, err := s.compare(root)
		if err != nil {
			return nil, err
		}
		for _, line := range more {
			differ("%s", filepath.Join(into, line))
		}
	}
	text := f.goText(l.names())
	have, err := root.ReadFile(goFile)
	switch generated := bytes.HasPrefix(have, []byte(header)); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case text == nil && generated:
		differ("%s: is not declared any more", filepath.Join(into, goFile))
	case text != nil && err != nil:
		differ("%s: is missing", filepath.Join(into, goFile))
	case text != nil && !bytes.Equal(have, text):
		differ("%s: differs", filepath.Join(into, goFile))
	}
	return differences, nil
}

// compare returns what differs between the skill and its folder.
func (s *lockedSkill) compare(root *os.Root) (differences []string, err error) {
	if info, err := root.Lstat(s.Name); err == nil && !info.IsDir() {
		return []string{s.Name + ": is not a folder"}, nil
	}
	seen := map[string]bool{}
	err = fs.WalkDir(root.FS(), s.Name, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel := strings.TrimPrefix(name, s.Name+"/")
		want, known := s.Files[rel]
		seen[rel] = true
		switch {
		case !known:
			differences = append(differences, name+": is not in the lock file")
			return nil
		case !e.Type().IsRegular():
			differences = append(differences, name+": is not a regular file")
			return nil
		}
		raw, err := root.ReadFile(name)
		if err == nil && skill.Digest(raw) != want {
			differences = append(differences, name+": differs")
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, rel := range slices.Sorted(maps.Keys(s.Files)) {
		if !seen[rel] {
			differences = append(differences, path.Join(s.Name, rel)+": is missing")
		}
	}
	return differences, nil
}

// write makes the folder have the skills. It removes those that an older lock file has, and touches nothing else.
func (f *File) write(name string, old, next *lock, list []*baked) error {
	into := filepath.Join(filepath.Dir(name), f.Into)
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer root.Close()
	text := f.goText(next.names())
	if have, err := root.ReadFile(goFile); err == nil && text != nil && !bytes.HasPrefix(have, []byte(header)) {
		return fmt.Errorf("%s: was not written by cairn skills sync: remove it, or leave package out", filepath.Join(into, goFile))
	} else if err == nil && bytes.HasPrefix(have, []byte(header)) && text == nil {
		if err := root.Remove(goFile); err != nil {
			return err
		}
	}
	var ours []string
	if old != nil {
		ours = old.names()
	}
	for _, s := range list {
		if _, err := root.Lstat(s.Name); err == nil && !slices.Contains(ours, s.Name) {
			return fmt.Errorf("%s: is there already, and not by the lock file: remove it", filepath.Join(into, s.Name))
		}
	}
	for _, name := range ours {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	for _, s := range list {
		for _, rel := range slices.Sorted(maps.Keys(s.contents)) {
			at := path.Join(s.Name, rel)
			if err := root.MkdirAll(path.Dir(at), 0o755); err != nil {
				return err
			}
			if err := root.WriteFile(at, s.contents[rel], s.modes[rel]); err != nil {
				return err
			}
		}
	}
	if text == nil {
		return nil
	}
	return root.WriteFile(goFile, text, 0o644)
}

const header = "// Code generated by cairn skills sync. DO NOT EDIT.\n"

// goText returns the Go file for skills; nil if the file declares no package.
func (f *File) goText(names []string) []byte {
	if f.Package == "" {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n// Package %s has skills.\npackage %s\n\nimport \"embed\"\n\n// Files has a folder for each skill, for skill.FS.\n//\n", header, f.Package, f.Package)
	for _, name := range names {
		fmt.Fprintf(&b, "//go:embed all:%s\n", name)
	}
	b.WriteString("var Files embed.FS\n")
	return b.Bytes()
}
