package skillsync

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// lockVersion is the version of the format of lock files.
const lockVersion = 1

// lock is the content of a lock file.
type lock struct {
	Version int            `json:"version"`
	Package string         `json:"package,omitempty"`
	Sources []lockedSource `json:"sources"`
	Skills  []lockedSkill  `json:"skills"`
}

// lockedSource is a source as it was declared, with what it was resolved to.
type lockedSource struct {
	Source
	Commit string `json:"commit"`
	// Plugins are the repositories of a marketplace's plugins.
	Repositories []repository `json:"repositories,omitempty"`
}

// repository is a commit of a repository.
type repository struct {
	Address string `json:"address"`
	Ref     string `json:"ref,omitempty"`
	Commit  string `json:"commit"`
}

// lockedSkill is a skill with its files.
type lockedSkill struct {
	Name string `json:"name"`
	// Address, Commit and Path are where the skill is from.
	Address string `json:"address"`
	Commit  string `json:"commit"`
	Path    string `json:"path"`
	// Files are the digests of the files, as skill.Digest returns them, by their paths in the skill's folder.
	Files map[string]string `json:"files"`
}

// lockName returns the name of the lock file of a file.
func lockName(file string) string {
	return strings.TrimSuffix(file, filepath.Ext(file)) + ".lock"
}

// readLock reads the lock file of a file; nil if there is none.
func readLock(file string) (*lock, error) {
	name := lockName(file)
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l := &lock{}
	if err := json.Unmarshal(raw, l); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if l.Version != lockVersion {
		return nil, fmt.Errorf("%s: version %d, this program knows version %d", name, l.Version, lockVersion)
	}
	for _, s := range l.Skills { // their folders are compared and removed
		if !filepath.IsLocal(s.Name) || strings.ContainsAny(s.Name, `/\`) || s.Name == "." {
			return nil, fmt.Errorf("%s: %q is not the name of a skill", name, s.Name)
		}
		for file := range s.Files {
			if !safe(file) {
				return nil, fmt.Errorf("%s: skill %s: %q is not a path within its folder", name, s.Name, file)
			}
		}
	}
	return l, nil
}

// write writes the lock file of a file.
func (l *lock) write(file string) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(l); err != nil {
		return err
	}
	name := lockName(file)
	if err := os.WriteFile(name+".new", text.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// source returns the entry of a source that is declared like this; nil if there is none.
func (l *lock) source(s *Source) *lockedSource {
	if l == nil {
		return nil
	}
	for i := range l.Sources {
		if l.Sources[i].equal(s) {
			return &l.Sources[i]
		}
	}
	return nil
}

// pinned returns the commit of a plugin's repository, empty if there is none.
func (s *lockedSource) pinned(address, ref string) string {
	if s == nil {
		return ""
	}
	for _, r := range s.Repositories {
		if r.Address == address && r.Ref == ref {
			return r.Commit
		}
	}
	return ""
}
