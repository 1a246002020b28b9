package skillsync

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// maxManifest is the maximum size of a marketplace.json or plugin.json, in bytes.
const maxManifest = 1 << 20

// The files that describe marketplaces and plugins, by the tools that read them. All have the same fields for skills.
var (
	marketplaceFiles = []string{".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json", ".codex-plugin/marketplace.json", "marketplace.json"}
	pluginFiles      = []string{".claude-plugin/plugin.json", ".codex-plugin/plugin.json", ".cursor-plugin/plugin.json", "plugin.json"}
)

// refused are the parts of a plugin that are never taken, by their keys in plugin.json, with the places in the plugin's
// folder where they are without a key.
var refused = []struct {
	key    string
	places []string
}{
	{"hooks", []string{"hooks"}}, {"commands", []string{"commands"}}, {"agents", []string{"agents"}},
	{"mcpServers", []string{".mcp.json"}}, {"lspServers", []string{".lsp.json"}}, {"outputStyles", []string{"output-styles"}},
}

// marketplace is a list of plugins. Fields other than these are ignored, of a plugin too.
type marketplace struct {
	Plugins []json.RawMessage `json:"plugins"`
}

// plugin is a plugin of a marketplace, or a plugin's own description.
type plugin struct {
	Name   string          `json:"name"`
	Source json.RawMessage `json:"source"`
	Skills json.RawMessage `json:"skills"`

	fields map[string]json.RawMessage
}

// pluginSource is where a plugin is from.
type pluginSource struct {
	Source string `json:"source"` // local, github, url, git or git-subdir
	Path   string `json:"path"`
	Repo   string `json:"repo"`
	URL    string `json:"url"`
	Ref    string `json:"ref"`
	SHA    string `json:"sha"`
}

// find returns the first of some files that a folder of the commit has; empty for none.
func (c *commit) find(dir string, names []string) string {
	for _, name := range names {
		if file := path.Join(dir, name); c.has(file) {
			return file
		}
	}
	return ""
}

// plugins returns the plugins of a marketplace in the order of its file: those with the names, or all.
func (c *commit) plugins(names []string) (list []*plugin, err error) {
	file := c.find(".", marketplaceFiles)
	if file == "" {
		return nil, fmt.Errorf("no %s", strings.Join(marketplaceFiles, ", "))
	}
	raw, err := c.read(file, maxManifest)
	if err != nil {
		return nil, err
	}
	var market marketplace
	if err := json.Unmarshal(raw, &market); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var have []string
	for i, raw := range market.Plugins {
		p, err := decodePlugin(raw)
		if err != nil || p.Name == "" {
			return nil, errors.Join(fmt.Errorf("%s: plugins[%d]: must be an object with a name", file, i), err)
		}
		have = append(have, p.Name)
		if len(names) == 0 || slices.Contains(names, p.Name) {
			list = append(list, p)
		}
	}
	for _, name := range names {
		if !slices.Contains(have, name) {
			return nil, fmt.Errorf("%s: no plugin %q; there are: %s", file, name, strings.Join(have, ", "))
		}
	}
	return list, nil
}

func decodePlugin(raw json.RawMessage) (*plugin, error) {
	p := &plugin{}
	return p, errors.Join(json.Unmarshal(raw, p), json.Unmarshal(raw, &p.fields))
}

// at returns where a plugin is: its folder in the marketplace's repository, or in another one.
func (p *plugin) at(market string) (address, ref, dir string, err error) {
	var s pluginSource
	if json.Unmarshal(p.Source, &s.Path) == nil {
		s.Source = "local"
	} else if err := json.Unmarshal(p.Source, &s); err != nil {
		return "", "", "", errors.New("source: must be a path or an object")
	}
	if s.SHA != "" {
		s.Ref = s.SHA
	}
	if dir, err = inner(".", s.Path); err != nil {
		return "", "", "", fmt.Errorf("source: %w", err)
	}
	switch s.Source {
	case "local":
		return "", "", dir, nil
	case "github":
		if strings.Count(s.Repo, "/") != 1 {
			return "", "", "", fmt.Errorf("source.repo: %q is not owner/name", s.Repo)
		}
		return "https://github.com/" + s.Repo + ".git", s.Ref, dir, nil
	case "url", "git", "git-subdir":
		theirs, err := scheme(s.URL)
		if err != nil {
			return "", "", "", fmt.Errorf("source.url: %w", err)
		}
		if own, _ := scheme(market); theirs != own && theirs != "https" {
			return "", "", "", fmt.Errorf("source.url: must begin with https://, as the marketplace is another server's: %s", s.URL)
		}
		return s.URL, s.Ref, dir, nil
	}
	return "", "", "", fmt.Errorf("source.source: %q is not supported: must be local, github, url, git or git-subdir", s.Source)
}

// inner returns a path below a folder of a repository.
func inner(dir, name string) (string, error) {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/")
	if name == "" || name == "." {
		return dir, nil
	}
	if !safe(name) {
		return "", fmt.Errorf("%q is not a path within the plugin", name)
	}
	return path.Join(dir, name), nil
}

// skillDirs returns the folders of a plugin that have skills, and a line for each part that is refused.
func (c *commit) skillDirs(dir string, entry *plugin) (dirs, notes []string, err error) {
	if !c.isDir(dir) {
		return nil, nil, fmt.Errorf("source: no folder %s", dir)
	}
	own := &plugin{}
	if file := c.find(dir, pluginFiles); file != "" {
		raw, err := c.read(file, maxManifest)
		if err != nil {
			return nil, nil, err
		}
		if own, err = decodePlugin(raw); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	for _, part := range refused {
		_, declared := own.fields[part.key]
		_, listed := entry.fields[part.key]
		there := slices.ContainsFunc(part.places, func(place string) bool { return c.has(path.Join(dir, place)) })
		if declared || listed || there {
			notes = append(notes, fmt.Sprintf("plugin %s: %s refused: only skills are taken", entry.Name, part.key))
		}
	}
	names, given, err := paths(entry.Skills, own.Skills)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		at, err := inner(dir, name)
		if err != nil {
			return nil, nil, fmt.Errorf("skills: %w", err)
		}
		if !c.isDir(at) {
			return nil, nil, fmt.Errorf("skills: no folder %s", at)
		}
		dirs = append(dirs, at)
	}
	if usual := path.Join(dir, "skills"); !given && c.isDir(usual) {
		dirs = append(dirs, usual)
	}
	return dirs, notes, nil
}

// paths returns the paths in fields that are a text or a list of texts, and whether there is such a field.
func paths(fields ...json.RawMessage) (list []string, given bool, err error) {
	for _, raw := range fields {
		var one string
		var more []string
		switch {
		case len(raw) == 0 || string(raw) == "null":
			continue
		case json.Unmarshal(raw, &one) == nil:
			more = []string{one}
		case json.Unmarshal(raw, &more) != nil:
			return nil, false, errors.New("skills: must be a path or a list of paths")
		}
		given = true
		list = append(list, more...)
	}
	return list, given, nil
}
