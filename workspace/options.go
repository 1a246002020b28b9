package workspace

import (
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
)

// Options tune a Workspace. nil and the zero value mean the defaults.
type Options struct {
	// Tools are the tools that agents get, by the part of their name that follows "workspace_", such as "read" and "shell".
	// nil means all that the provider supports, except "run", which is there if Interpreters are set.
	Tools []string
	// Interpreters are the programs that "run" may run code with, such as "python3": see [Interpreters]. New fails if a
	// command cannot find one.
	Interpreters []string
	// Manifest describes a new session's workspace, and the environment of commands.
	Manifest Manifest
	// Limits are the limits of the tools.
	Limits Limits
	// Approve are regular expressions: a person approves each command that one matches, before it runs. A model can write
	// a command in many ways, so this catches mistakes, not attacks: the sandbox confines commands.
	Approve []string
	// ToolOptions are options for the tools, by name as in Tools, such as [cairn.RequireApproval].
	ToolOptions map[string][]cairn.ToolOption
	// Logger gets warnings; nil discards them.
	Logger *slog.Logger
}

// Manifest describes a workspace independently of its provider.
type Manifest struct {
	// Files are the contents of files by path.
	Files map[string]string `json:"files,omitempty"`
	// FS has further files, such as an embed.FS; nil means none.
	FS fs.FS `json:"-"`
	// Repositories are git repositories, which this process clones with git when the first turn of a session begins.
	Repositories []Repository `json:"repositories,omitempty"`
	// Mounts are directories of the machine that commands see. They are not part of the workspace: snapshots leave them out.
	Mounts []Mount `json:"mounts,omitempty"`
	// Environment are the names of variables of this process that commands get. They get no others, except for Variables.
	Environment []string `json:"environment,omitempty"`
	// Variables are variables that commands get, by name.
	Variables map[string]string `json:"variables,omitempty"`
}

// Repository is a git repository in a workspace.
type Repository struct {
	// URL is the address that git clones, or the path of a directory.
	URL string `json:"url"`
	// Revision is a branch or tag; empty means the default branch.
	Revision string `json:"revision,omitempty"`
	// Path is where the working tree is.
	Path string `json:"path"`
	// Depth is the number of commits of the history; 0 means all.
	Depth int `json:"depth,omitempty"`
}

// Mount is a directory of the machine that commands see.
type Mount struct {
	// Source is its absolute path on the machine, and Target the one that commands see; empty means the same.
	Source string `json:"source"`
	Target string `json:"target,omitempty"`
	// Writable lets commands change it. A rewind does not undo such changes.
	Writable bool `json:"writable,omitempty"`
}

// check returns an ErrInvalid error that names the field.
func (m *Manifest) check(info Info) error {
	for _, p := range slices.Sorted(maps.Keys(m.Files)) {
		if err := checkPath(p); err != nil {
			return cairn.Invalid("manifest.files", "%v", err)
		}
	}
	for _, r := range m.Repositories {
		switch {
		case r.URL == "" || strings.HasPrefix(r.URL, "-"):
			return cairn.Invalid("manifest.repositories", "url %q is not an address", r.URL)
		case strings.HasPrefix(r.Revision, "-"):
			return cairn.Invalid("manifest.repositories", "revision %q begins with a hyphen", r.Revision)
		case r.Depth < 0:
			return cairn.Invalid("manifest.repositories", "depth is negative")
		}
		if err := checkPath(r.Path); err != nil {
			return cairn.Invalid("manifest.repositories", "%v", err)
		}
	}
	if !info.Commands() && len(m.Mounts)+len(m.Environment)+len(m.Variables) > 0 {
		return cairn.Invalid("manifest", "mounts, environment and variables are for commands, which the provider %q does not run", info.Name)
	}
	for _, mount := range m.Mounts {
		if err := mount.check(info); err != nil {
			return err
		}
	}
	for _, name := range append(slices.Clone(m.Environment), slices.Collect(maps.Keys(m.Variables))...) {
		if !variable.MatchString(name) {
			return cairn.Invalid("manifest.environment", "%q is not the name of a variable", name)
		}
	}
	return nil
}

func (m Mount) check(info Info) error {
	for _, p := range []string{m.Source, m.target()} {
		if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, ":\x00") || slices.Contains(strings.Split(p, "/"), "..") {
			return cairn.Invalid("manifest.mounts", "%q is not an absolute path", p)
		}
	}
	if t := m.target() + "/"; t == "//" || strings.HasPrefix(t, info.Root+"/") {
		return cairn.Invalid("manifest.mounts", "target %q is not beside the workspace", m.target())
	}
	if _, err := os.Stat(m.Source); err != nil {
		return cairn.Invalid("manifest.mounts", "%v", err)
	}
	return nil
}

func (m Mount) target() string {
	if m.Target == "" {
		return m.Source
	}
	return m.Target
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// environment returns the variables of commands.
func (m *Manifest) environment() []string {
	env := maps.Clone(m.Variables)
	if env == nil {
		env = map[string]string{}
	}
	for _, name := range m.Environment {
		if value, ok := os.LookupEnv(name); ok {
			if _, set := env[name]; !set {
				env[name] = value
			}
		}
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
