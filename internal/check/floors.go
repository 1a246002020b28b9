package main

import (
	"fmt"
	"go/parser"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// floor is a group of packages and the floors that they may import. Tests are exempt: an example of a low package
// may well use a high one.
type floor struct {
	name  string
	dirs  []string // each with all directories below it; * stands for one name
	above []string // names of the floors that may be imported
}

// everything, as the only floor above, permits any import.
const everything = "*"

// floors lists the floors. The first match wins. Packages below one directory of a floor, such as a store and its
// internals, may import each other.
var floors = []floor{
	{"loop", []string{"internal/turn"}, []string{"nouns", "leaves", "driver", "contract", "settings"}},
	{"settings", []string{"engine/settings"}, []string{"nouns", "leaves", "driver", "store", "contract"}},
	// Packages of tests, which no product code imports.
	{"proof", []string{"internal/torture", "internal/released", "cmd/cairn/internal/crosshost", "internal/scale", "internal/testclock", "internal/testenv", "internal/provider/providertest", "host/hosttest", "model/modeltest", "store/storetest", "memory/memorytest", "traces/otlptest"}, []string{everything}},
	{"leaves", []string{"internal/*"}, []string{"nouns", "leaves", "driver"}},
	{"driver", []string{"store/driver"}, []string{"nouns", "leaves"}},
	{"plans", []string{"store/plan"}, []string{"nouns", "leaves", "driver"}},
	{"shared", []string{"store/backend"}, []string{"nouns", "leaves", "driver", "plans"}},
	{"models", []string{"model/open"}, []string{"nouns", "leaves", "backends"}},
	{"backends", []string{"store/*", "model/*"}, []string{"nouns", "leaves", "driver", "store", "plans", "shared"}},
	{"workers", []string{"cloudflare"}, []string{}},
	{"store", []string{"store"}, []string{"nouns", "leaves", "driver"}},
	{"engine", []string{"engine"}, []string{"nouns", "leaves", "driver", "store", "contract", "settings", "loop"}},
	{"exports", []string{"export"}, []string{"nouns", "leaves", "driver", "store", "engine"}},
	{"tests", []string{"cairntest"}, []string{"nouns", "leaves", "driver", "store", "backends", "settings", "loop", "engine"}},
	{"clients", []string{"client"}, []string{"nouns", "leaves"}},
	{"host loop", []string{"host/loop"}, []string{"nouns", "contract", "loop"}},
	{"hosts", []string{"host/*"}, []string{"nouns", "leaves", "driver", "store", "contract", "loop", "host loop", "engine"}},
	{"servers", []string{"server"}, []string{"nouns", "leaves", "driver", "store", "contract", "engine", "exports", "clients"}},
	{"consoles", []string{"console"}, []string{}},
	{"skills", []string{"skill"}, []string{"nouns", "leaves"}},
	{"memories", []string{"memory"}, []string{"nouns", "leaves", "driver", "store"}},
	{"traces", []string{"traces"}, []string{"nouns", "leaves", "driver", "store", "engine"}},
	{"workspaces", []string{"workspace"}, []string{"nouns", "leaves", "driver", "store"}},
	{"capabilities", []string{"mcp"}, []string{"nouns", "leaves", "driver", "store", "engine", "skills"}},
	{"contract", []string{"host"}, []string{"nouns"}},
	{"commands", []string{"cmd/*"}, []string{"nouns", "leaves", "driver", "store", "models", "backends", "engine", "exports", "clients", "contract", "host loop", "hosts", "servers", "consoles", "capabilities", "skills", "memories", "workspaces", "traces"}},
	{"top", []string{"bench", "examples"}, []string{everything}},
	{"nouns", []string{"."}, []string{"leaves"}},
}

// floorOf returns the floor of a package directory and the part of the directory that matched.
func floorOf(dir string) (f floor, unit string, ok bool) {
	parts := strings.Split(dir, "/")
	for _, f := range floors {
		for _, pattern := range f.dirs {
			n := strings.Count(pattern, "/") + 1
			if n > len(parts) || (pattern == ".") != (dir == ".") {
				continue
			}
			unit := path.Join(parts[:n]...)
			if match, _ := path.Match(pattern, unit); match {
				return f, unit, true
			}
		}
	}
	return floor{}, "", false
}

// checkFloors reports imports that go upwards, and packages without a floor.
func checkFloors(t *tree) ([]string, error) {
	packages, err := t.packages(parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var base string // path of the root module, which prefixes all other modules
	for _, m := range t.modules {
		if m.dir == "." {
			base = m.Module.Path
		}
	}
	var problems []string
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		from, unit, ok := floorOf(dir)
		if !ok {
			problems = append(problems, dir+": has no floor; give it one in internal/check/floors.go")
			continue
		}
		for _, file := range packages[dir] {
			if isTest(file.name) {
				continue
			}
			for _, spec := range file.ast.Imports {
				target, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					return nil, err
				}
				dir, ours := inside(base, target)
				if !ours {
					continue
				}
				to, toUnit, ok := floorOf(dir)
				if ok && (slices.Contains(from.above, everything) || slices.Contains(from.above, to.name) || unit == toUnit) {
					continue
				}
				problems = append(problems, fmt.Sprintf("%s:%d: %s (%s) must not import %s (%s)",
					file.name, file.line(spec.Pos()), path.Dir(file.name), from.name, dir, to.name))
			}
		}
	}
	return problems, nil
}

// inside returns the directory of an import path below base.
func inside(base, target string) (dir string, ok bool) {
	if target == base {
		return ".", true
	}
	return strings.CutPrefix(target, base+"/")
}
