package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// module is a go.mod file, decoded from `go mod edit -json`.
type module struct {
	dir string

	Module  struct{ Path string }
	Require []requirement
	Tool    []struct{ Path string }
}

type requirement struct {
	Path     string
	Version  string
	Indirect bool
}

// requirementsFile lists every requirement with its reason.
const requirementsFile = "docs/DEPENDENCIES.md"

// comparing lists the modules that go.work omits because they require the systems that Cairn is compared with: a
// clone that builds and tests Cairn need not download those. Checks that would download them (tidy, build, vet,
// staticcheck) skip these modules unless -outside is given, as `make soak` does. All other checks always include
// them.
var comparing = []string{"bench"}

func findModules(t *tree) ([]module, error) {
	found := map[string]module{} // by module path
	for _, name := range t.withSuffix("go.mod") {
		if path.Base(name) != "go.mod" {
			continue
		}
		m := module{dir: path.Dir(name)}
		out, err := t.command(m.dir, "go", "mod", "edit", "-json")
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(out), &m); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if other, ok := found[m.Module.Path]; ok {
			return nil, fmt.Errorf("%s and %s are both module %s", other.dir, m.dir, m.Module.Path)
		}
		found[m.Module.Path] = m
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("go.mod not found in %s", t.root)
	}

	var order []module
	seen := map[string]bool{}
	var visit func(modulePath string)
	visit = func(modulePath string) {
		m, ours := found[modulePath]
		if !ours || seen[modulePath] {
			return
		}
		seen[modulePath] = true
		for _, r := range m.Require {
			visit(r.Path)
		}
		order = append(order, m)
	}
	for _, p := range slices.Sorted(maps.Keys(found)) {
		visit(p)
	}
	return order, nil
}

// command runs a command in a directory of the tree, outside the workspace, so that each module stands on its own
// go.mod. It returns the standard output; on failure the error contains both outputs.
func (t *tree) command(dir, name string, args ...string) (string, error) {
	return t.start("off", dir, name, args...)
}

// start is command with a value of GOWORK; with none the go command finds go.work.
func (t *tree) start(work, dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = t.path(dir)
	cmd.Env = append(os.Environ(), "GOWORK="+work)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %s: %w\n%s%s", dir, strings.Join(append([]string{path.Base(name)}, args...), " "),
			err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// owner returns the module that a file belongs to: the one whose directory is the longest prefix.
func (t *tree) owner(file string) module {
	var best module
	for _, m := range t.modules {
		inside := m.dir == "." || strings.HasPrefix(file, m.dir+"/")
		if inside && (best.dir == "" || best.dir == "." || len(m.dir) > len(best.dir)) {
			best = m
		}
	}
	return best
}

// codeModules returns the modules that hold Go files. A module without any only pins tools.
func (t *tree) codeModules() []module {
	holds := map[string]bool{}
	for _, f := range t.withSuffix(".go") {
		holds[t.owner(f).dir] = true
	}
	return slices.DeleteFunc(slices.Clone(t.modules), func(m module) bool { return !holds[m.dir] })
}

// inWorkspace removes the modules outside the workspace from a list, unless the tree includes them.
func (t *tree) inWorkspace(list []module) []module {
	if t.outside {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(m module) bool { return slices.Contains(comparing, m.dir) })
}

// patterns are the patterns that match every package of every module of the workspace.
func (t *tree) patterns() []string {
	var list []string
	for _, m := range t.codeModules() {
		if !slices.Contains(comparing, m.dir) {
			list = append(list, "./"+path.Join(m.dir, "..."))
		}
	}
	return list
}

// checkWorkspace reports modules that go.work should list but does not, and modules that it lists but should not.
func checkWorkspace(t *tree) ([]string, error) {
	out, err := t.command(".", "go", "work", "edit", "-json", "go.work")
	if err != nil {
		return nil, err
	}
	var work struct{ Use []struct{ DiskPath string } }
	if err := json.Unmarshal([]byte(out), &work); err != nil {
		return nil, err
	}
	var used []string
	for _, u := range work.Use {
		used = append(used, path.Clean(u.DiskPath))
	}
	var problems []string
	for _, m := range t.codeModules() {
		if !slices.Contains(used, m.dir) && !slices.Contains(comparing, m.dir) {
			problems = append(problems, fmt.Sprintf("go.work: module %s is not listed: go work use ./%s", m.dir, m.dir))
		}
	}
	for _, dir := range comparing {
		if slices.Contains(used, dir) {
			problems = append(problems, fmt.Sprintf("go.work: module %s is listed, so every clone downloads what it requires: go work edit -dropuse=./%s", dir, dir))
		}
	}
	return problems, nil
}

// named returns the requirements of m that need a reason. The root module must stay light, so all of its
// requirements do. In other modules the direct ones do, and those that provide a tool, which go.mod marks as
// indirect.
func (m module) named() []requirement {
	var out []requirement
	for _, r := range m.Require {
		tool := slices.ContainsFunc(m.Tool, func(t struct{ Path string }) bool {
			return t.Path == r.Path || strings.HasPrefix(t.Path, r.Path+"/")
		})
		if m.dir == "." || !r.Indirect || tool {
			out = append(out, r)
		}
	}
	return out
}

// checkRequirements compares the modules' requirements with the checked-in list, both ways. It also reports a
// requirement that two modules pin at different versions, because the workspace would then build one of them with
// another version than its go.mod specifies.
func checkRequirements(t *tree) ([]string, error) {
	text, err := t.read(requirementsFile)
	if err != nil {
		return nil, err
	}
	type key struct{ module, requirement string }
	reasons := map[key]string{}
	var problems []string
	for i, line := range strings.Split(text, "\n") {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || !strings.Contains(cells[0], "`") {
			continue
		}
		k := key{strings.Trim(cells[0], " `"), strings.Trim(cells[1], " `")}
		if _, twice := reasons[k]; twice {
			problems = append(problems, fmt.Sprintf("%s:%d: %s of module %s is listed twice", requirementsFile, i+1, k.requirement, k.module))
		}
		reasons[k] = strings.TrimSpace(cells[2])
	}

	ours := map[string]bool{}
	for _, m := range t.modules {
		ours[m.Module.Path] = true
	}
	pinned := map[string]requirement{}
	for _, m := range t.modules {
		for _, r := range m.named() {
			if ours[r.Path] {
				continue
			}
			k := key{m.dir, r.Path}
			switch reason, listed := reasons[k]; {
			case !listed:
				problems = append(problems, fmt.Sprintf("%s: %s is not listed in %s", path.Join(m.dir, "go.mod"), r.Path, requirementsFile))
			case reason == "":
				problems = append(problems, fmt.Sprintf("%s: %s of module %s has no reason", requirementsFile, r.Path, m.dir))
			}
			delete(reasons, k)
			if other, ok := pinned[r.Path]; ok && other.Version != r.Version {
				problems = append(problems, fmt.Sprintf("%s: %s is %s here and %s elsewhere", path.Join(m.dir, "go.mod"), r.Path, r.Version, other.Version))
			}
			pinned[r.Path] = r
		}
	}
	for k := range reasons {
		problems = append(problems, fmt.Sprintf("%s: module %s does not require %s", requirementsFile, k.module, k.requirement))
	}
	slices.Sort(problems)
	return problems, nil
}
