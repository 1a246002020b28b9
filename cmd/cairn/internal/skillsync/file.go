// Package skillsync copies skills from git repositories and plugin marketplaces into a folder, with a lock file that pins
// every commit and the digest of every file. Afterwards the skills are plain files: an agent reads them with skill.FS,
// without a network.
package skillsync

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// File is a file that declares skills, such as skills.yaml.
type File struct {
	// Into is the folder for the skills, relative to the file. Each skill becomes a folder in it, of its own name.
	Into string `yaml:"into"`
	// Package is the name of a Go package. If it is set, the folder also has a file skills.go, which embeds the skills.
	Package string `yaml:"package"`
	// Sources are where the skills are from.
	Sources []Source `yaml:"sources"`
}

// Source is a git repository with skills, or with a plugin marketplace.
type Source struct {
	// Git is the address of a repository with skills. Marketplace is that of a repository with a marketplace.json. A source
	// has one of them.
	Git         string `yaml:"git" json:"git,omitempty"`
	Marketplace string `yaml:"marketplace" json:"marketplace,omitempty"`
	// Ref is a tag, a branch or a commit; empty means the default branch.
	Ref string `yaml:"ref" json:"ref,omitempty"`
	// Path is the folder with the skills in a Git repository; empty means all of it.
	Path string `yaml:"path" json:"path,omitempty"`
	// Plugins are the plugins of a Marketplace whose skills are taken; empty means all.
	Plugins []string `yaml:"plugins" json:"plugins,omitempty"`
	// Skills are the names of the skills that are taken; empty means all.
	Skills []string `yaml:"skills" json:"skills,omitempty"`
}

// address is the address of the source's repository.
func (s *Source) address() string { return s.Git + s.Marketplace }

func (s *Source) equal(o *Source) bool {
	return s.Git == o.Git && s.Marketplace == o.Marketplace && s.Ref == o.Ref && s.Path == o.Path &&
		slices.Equal(s.Plugins, o.Plugins) && slices.Equal(s.Skills, o.Skills)
}

var goName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// Read reads a file that declares skills. The error names the field at fault.
func Read(name string) (*File, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, raw)
}

// Parse reads the text of a file that declares skills: see [Read].
func Parse(name string, raw []byte) (*File, error) {
	f := &File{}
	if err := yaml.Load(raw, f, yaml.WithKnownFields()); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

func (f *File) check() error {
	switch into := filepath.ToSlash(f.Into); {
	case into == "":
		return errors.New("into: is missing: the folder for the skills")
	case !filepath.IsLocal(f.Into) || filepath.Clean(f.Into) == ".":
		return fmt.Errorf("into: must be a folder below that of the file, got %q", f.Into)
	case f.Package != "" && !goName.MatchString(f.Package):
		return fmt.Errorf("package: %q is not the name of a Go package", f.Package)
	case len(f.Sources) == 0:
		return errors.New("sources: is empty")
	}
	for i := range f.Sources {
		if err := f.Sources[i].check(); err != nil {
			return fmt.Errorf("sources[%d]%w", i, err)
		}
	}
	return nil
}

func (s *Source) check() error {
	switch {
	case (s.Git == "") == (s.Marketplace == ""):
		return errors.New(": must have either git or marketplace")
	case s.Marketplace != "" && s.Path != "":
		return errors.New(".path: is for git sources")
	case s.Git != "" && len(s.Plugins) > 0:
		return errors.New(".plugins: is for marketplaces")
	case s.Path != "" && !fs.ValidPath(s.Path):
		return fmt.Errorf(".path: %q is not a path within the repository", s.Path)
	}
	field := ".git"
	if s.Marketplace != "" {
		field = ".marketplace"
	}
	if _, err := scheme(s.address()); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

// scpLike matches an address such as git@github.com:owner/name.
var scpLike = regexp.MustCompile(`^[\w.-]+@[\w.-]+:[^:]+$`)

// scheme returns the scheme of a repository's address.
func scheme(address string) (string, error) {
	if scpLike.MatchString(address) {
		return "ssh", nil
	}
	u, err := url.Parse(address)
	if err != nil { // its text may contain a password
		return "", errors.New("must be a URL")
	}
	if _, secret := u.User.Password(); secret {
		return "", errors.New("must not contain a password")
	}
	switch u.Scheme {
	case "https", "http", "ssh", "file":
		return u.Scheme, nil
	}
	return "", fmt.Errorf("must begin with https://, ssh://, http:// or file://, got %q", strings.SplitN(address, ":", 2)[0])
}
