package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sound is a small tree in which every check passes.
func sound(t *testing.T) map[string]string {
	return map[string]string{
		"go.mod":  "module example.test/house\n\ngo 1.26\n",
		"go.work": "go 1.26\n\nuse .\n\nuse ./store/disk\n",
		"house.go": `// Package house is the ground floor.
package house

import "example.test/house/internal/words"

// House has a name.
type House struct{ Name string }

// New returns a house.
func New() House { return House{words.Name} }
`,
		"house_test.go": `package house_test

import (
	"fmt"

	"example.test/house"
	"example.test/house/engine"
)

func ExampleNew() {
	h := house.New()
	if engine.Lit(h) {
		fmt.Println("lit")
	}
	// Output: lit
}
`,
		"internal/words/words.go": "// Package words is a leaf.\npackage words\n\n// Name is a name.\nconst Name = \"house\"\n",
		"internal/turn/turn.go":   "// Package turn is the loop.\npackage turn\n\n// Steps is a number.\nconst Steps = 1\n",
		"internal/ring/a.go":      "// Package ring is a cycle of files.\npackage ring\n\n// A is one of a ring.\nfunc A() { B() }\n",
		"internal/ring/b.go":      "package ring\n\n// B is one of a ring.\nfunc B() { C() }\n",
		"internal/ring/c.go":      "package ring\n\n// C is one of a ring.\nfunc C() { D() }\n",
		"internal/ring/d.go":      "package ring\n\n// D is one of a ring.\nfunc D() { E() }\n",
		"internal/ring/e.go":      "package ring\n\n// E is one of a ring.\nfunc E() { A() }\n",
		"internal/ring/f.go":      "package ring\n\n// F is one of a ring.\nfunc F() { A() }\n",
		"store/store.go":          "// Package store has contracts.\npackage store\n\nimport _ \"example.test/house\"\n",
		"engine/engine.go": `// Package engine is above the ground.
package engine

import (
	"example.test/house"
	"example.test/house/internal/turn"
)

// Lit reports whether the lights are on.
func Lit(house.House) bool { return turn.Steps > 0 }
`,
		"engine/engine_test.go": `package engine_test

import (
	"testing"

	"example.test/house"
	"example.test/house/engine"
)

func BenchmarkLit(b *testing.B) {
	for b.Loop() {
		engine.Lit(house.House{})
	}
}
`,
		allocationsFile:                    "# What lights allocate.\nBenchmarkLit 0 0\n",
		"cairntest/house.go":               "// Package cairntest is for tests.\npackage cairntest\n\nimport \"testing\"\n\n// New takes a test, which no example has.\nfunc New(testing.TB) {}\n",
		"store/disk/go.mod":                "module example.test/house/store/disk\n\ngo 1.26\n\nrequire example.test/house v0.0.0\n\nreplace example.test/house => ../..\n",
		"store/disk/disk.go":               "// Package disk is a store.\npackage disk\n\nimport _ \"example.test/house/store\"\n",
		"store/disk/disk_internals.go":     "package disk\n\nimport _ \"example.test/house/store/disk/internal/page\"\n",
		"store/disk/internal/page/page.go": "// Package page belongs to disk.\npackage page\n",
		"cmd/house/main.go":                "// Command house is at the top.\npackage main\n\nimport _ \"example.test/house/engine\"\n\nfunc main() {}\n",
		"staticcheck.conf":                 file(t, "../../staticcheck.conf"),
		"tools/go.mod":                     file(t, "../../tools/go.mod"),
		"tools/go.sum":                     file(t, "../../tools/go.sum"),
		requirementsFile:                   "# Dependencies\n\n| In | Module | Why |\n| --- | --- | --- |\n| `tools` | `honnef.co/go/tools` | finds mistakes |\n",
		"README.md": "# House\n\n## A good start, isn't it?\n\n[start](#a-good-start-isnt-it), [up](docs/GUIDE.md#use), [store](store/), `[no](link)`, [out](https://example.test/x)\n\n" +
			"```\n[no](link)\n```\n\n## Twice\n\n## Twice\n\n[top](/docs/GUIDE.md), [second](#twice-1)\n",
		"llms.txt": "# House\n\n> A house.\n\n- [guide](docs/GUIDE.md): how to live in it\n",
		"logo.png": "\x89PNG\x00TO" + "DO",
		"docs/GUIDE.md": "# Guide\n## Use\n[readme](../README.md#house)\n\n" +
			"<!-- code: house_test.go#ExampleNew -->\n```go\nh := house.New()\nif engine.Lit(h) {\n\tfmt.Println(\"lit\")\n}\n```\n\n" +
			"<!-- code: house.go#House -->\n```go\ntype House struct{ Name string }\n```\n\n" +
			"<!-- code: internal/turn/turn.go -->\n```go\n// Package turn is the loop.\npackage turn\n\n// Steps is a number.\nconst Steps = 1\n```\n\n" +
			"<!-- code: engine/engine.go#Lit() house.go#New() -->\n```go\nfunc Lit(house.House) bool\nfunc New() House\n```\n",
	}
}

func file(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// build writes the files to a directory and opens it as a tree.
func build(t *testing.T, files map[string]string) *tree {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		full := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := newTree(root, slices.Collect(maps.Keys(files)))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func named(t *testing.T, name string) check {
	t.Helper()
	i := slices.IndexFunc(checks, func(c check) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("unknown check %q", name)
	}
	return checks[i]
}

func TestSoundHousePassesEveryCheck(t *testing.T) {
	t.Parallel()
	tr := build(t, sound(t))
	for _, c := range checks {
		if problems, err := c.run(tr); err != nil || len(problems) > 0 {
			t.Errorf("%s: %v %q", c.name, err, problems)
		}
	}
}

// change adds one fault to the sound tree: it replaces old with new in a file, or the file as a whole.
type change struct{ file, old, new string }

var faults = []struct {
	name  string
	check string
	change
	want string
}{
	{"unformatted", "format", change{"engine/engine.go", "func Lit(house.House)", "func  Lit(house.House)"}, "engine/engine.go: not formatted"},
	{"unparsable", "format", change{"engine/engine.go", "func Lit(", "func Lit{"}, "engine/engine.go:10:9: "},

	{"promise", "words", change{"engine/engine.go", "", "// TO" + "DO: more\npackage engine\n"}, `engine/engine.go:1: "TO` + `DO" promises`},
	{"promise in a doc", "words", change{"README.md", "# House", "# House FIX" + "ME"}, "README.md:1: "},
	{"machine path", "words", change{"README.md", "# House", "# House\ncd /wo" + "rk/main"}, "README.md:2: "},
	{"temporary path", "words", change{"run.sh", "", "cat \"/tm" + "p/x\"\n"}, "run.sh:1: "},
	{"home of a user", "words", change{"run.sh", "", "/Use" + "rs/me/x\n"}, "run.sh:1: "},
	{"Go registry", "words", change{"Makefile", "", "GOPROXY=https://proxy.go" + "lang.org\n"}, "Makefile:1: "},
	{"npm registry", "words", change{"package.json", "", "https://registry.np" + "mjs.org/x\n"}, "package.json:1: "},
	{"Debian's host", "words", change{"run.sh", "", "deb.deb" + "ian.org\n"}, "run.sh:1: "},

	{"word of no glossary", "words", change{"engine/engine.go", "", "package engine // who" + "ever reads\n"}, `engine/engine.go:1: "who` + `ever": docs/GLOSSARY.md`},
	{"word of no glossary in a text", "words", change{"engine/words.go", "", "package engine\n\nconst text = `one\nwho" + "ever`\n"}, `engine/words.go:4: "who` + `ever": docs/GLOSSARY.md`},
	{"wooden text", "words", change{"engine/words.go", "", "package engine\n\nconst text = \"x: there is n" + "o \\\"y\\\"\"\n"}, `engine/words.go:3: "there is n` + `o": write`},
	{"wooden text, after longer", "words", change{"engine/words.go", "", "package engine\n\nconst text = \"is no longer, is n" + "o list\"\n"}, `engine/words.go:3: "is n` + `o list": write`},
	{"wooden piece of a text", "words", change{"engine/words.go", "", "package engine\n\nconst text = \"x\" +\n\t\"comes tw" + "ice\"\n"}, `engine/words.go:4: "comes tw` + `ice": write`},
	{"word of no glossary in a doc", "words", change{"README.md", "# House", "# House that t" + "ells"}, "README.md:1: "},

	{"phrase", "phrases", change{"README.md", "# House", "# House\n\nA hut is\nno house."}, `README.md:3: "hut is no house": write "is not a"`},
	{"phrase of a type", "phrases", change{"house.go", "House has a name.", "House is what\n// people live in."}, `house.go:6: "is what people": write the noun`},
	{"phrase of a field", "phrases", change{"house.go", "{ Name string }", "{\n\tName string // those of a house\n}"}, `house.go:8: "those of": write the noun again`},
	{"link to nothing", "links", change{"README.md", "docs/GUIDE.md#use", "docs/MANUAL.md"}, "README.md:5: link docs/MANUAL.md: no such file"},
	{"link out of the house", "links", change{"README.md", "docs/GUIDE.md#use", "../GUIDE.md"}, "README.md:5: link ../GUIDE.md: no such file"},
	{"link to the start of a name", "links", change{"README.md", "(store/)", "(sto)"}, "README.md:5: link sto: no such file"},
	{"heading of another file", "links", change{"README.md", "#use", "#misuse"}, "README.md:5: link docs/GUIDE.md#misuse: no such heading"},
	{"heading of this file", "links", change{"README.md", "## A good start", "## A bad start"}, "README.md:5: link #a-good-start-isnt-it: no such heading"},
	{"heading in a code block", "links", change{"docs/GUIDE.md", "## Use", "```\n## Use\n```"}, "no such heading"},
	{"link from the top", "links", change{"README.md", "(/docs/", "(/doc/"}, "link /doc/GUIDE.md: no such file"},
	{"repeated heading", "links", change{"README.md", "#twice-1", "#twice-2"}, "link #twice-2: no such heading"},
	{"link of the list for models", "links", change{"llms.txt", "GUIDE.md", "MANUAL.md"}, "llms.txt:5: link docs/MANUAL.md: no such file"},
	{"reference", "links", change{"docs/GUIDE.md", "[readme](../README.md#house)", "[readme]: README.md"}, "docs/GUIDE.md:3: link README.md: no such file"},
	{"image", "links", change{"docs/GUIDE.md", "[readme](../README.md#house)", `<img src="cat.png">`}, "docs/GUIDE.md:3: link cat.png: no such file"},

	{"stale example", "docs", change{"docs/GUIDE.md", "house.New()", "house.Old()"}, "docs/GUIDE.md:5: the block differs"},
	{"stale declaration", "docs", change{"docs/GUIDE.md", "Name string", "Name int"}, "docs/GUIDE.md:13: the block differs"},
	{"stale file", "docs", change{"internal/turn/turn.go", "1", "2"}, "docs/GUIDE.md:18: the block differs"},
	{"stale signature", "docs", change{"engine/engine.go", "Lit(house.House)", "Lit(h house.House)"}, "docs/GUIDE.md:27: the block differs"},
	{"signature of no function", "docs", change{"docs/GUIDE.md", "house.go#House -->", "house.go#House() -->"}, "docs/GUIDE.md:13: house.go#House is not a function"},
	{"Go without a mark", "docs", change{"docs/GUIDE.md", "<!-- code: house.go#House -->", ""}, "docs/GUIDE.md:14: Go without a mark"},
	{"mark of no file", "docs", change{"docs/GUIDE.md", "house_test.go#", "hut_test.go#"}, "docs/GUIDE.md:5: hut_test.go: no such file"},
	{"mark of no declaration", "docs", change{"docs/GUIDE.md", "#ExampleNew", "#ExampleOld"}, "docs/GUIDE.md:5: house_test.go does not declare ExampleOld"},
	{"mark without a block", "docs", change{"docs/GUIDE.md", "-->\n```go\nh :=", "-->\n```text\nh :="}, "docs/GUIDE.md:5: no Go block follows"},

	{"noun imports engine", "floors", change{"house.go", "internal/words", "engine"}, "house.go:4: . (nouns) must not import engine (engine)"},
	{"loop imports engine", "floors", change{"internal/turn/turn.go", "", "package turn\n\nimport _ \"example.test/house/engine\"\n"}, "internal/turn (loop) must not import engine (engine)"},
	{"loop imports host", "floors", change{"internal/turn/turn.go", "", "package turn\n\nimport _ \"example.test/house/host/far\"\n"}, "must not import host/far (hosts)"},
	{"leaf imports loop", "floors", change{"internal/words/words.go", "", "package words\n\nimport _ \"example.test/house/internal/turn\"\n"}, "internal/words (leaves) must not import internal/turn (loop)"},
	{"vague file", "words", change{"engine/owed.go", "", "package engine\n"}, `"owed.go": a file or directory is named after what is in it`},
	{"vague function", "words", change{"engine/extra.go", "", "package engine\n\nfunc givenUp() {}\n"}, `engine/extra.go:3: "givenUp": name it with the field's word`},
	{"vague test", "words", change{"engine/extra_test.go", "", "package engine\n\nimport \"testing\"\n\nfunc TestReaderIsTold(*testing.T) {}\n"}, `"TestReaderIsTold": name it`},
	{"store imports engine", "floors", change{"store/disk/disk.go", "house/store", "house/engine"}, "store/disk/disk.go:4: store/disk (backends) must not import engine (engine)"},
	{"store imports loop", "floors", change{"store/disk/disk.go", "house/store", "house/internal/turn"}, "must not import internal/turn (loop)"},
	{"store imports its neighbour", "floors", change{"store/disk/disk.go", "house/store", "house/store/mem"}, "must not import store/mem (backends)"},
	{"contract imports backend", "floors", change{"store/store.go", "house\"", "house/store/disk\""}, "store (store) must not import store/disk (backends)"},
	{"model imports engine", "floors", change{"model/far/far.go", "", "package far\n\nimport _ \"example.test/house/engine\"\n"}, "model/far (backends) must not import engine"},
	{"engine imports host", "floors", change{"engine/engine.go", "house/internal/turn", "house/host/far"}, "engine (engine) must not import host/far (hosts)"},
	{"server imports command", "floors", change{"server/server.go", "", "package server\n\nimport _ \"example.test/house/cmd/x\"\n"}, "server (servers) must not import cmd/x (commands)"},
	{"engine imports a package of tests", "floors", change{"engine/engine.go", "house/internal/turn", "house/internal/testclock"}, "engine (engine) must not import internal/testclock (proof)"},
	{"command imports a package of tests", "floors", change{"cmd/house/main.go", "house/engine", "house/internal/testclock"}, "cmd/house (commands) must not import internal/testclock (proof)"},
	{"no floor", "floors", change{"attic/attic.go", "", "package attic\n"}, "attic: has no floor"},

	{"six files", "cycles", change{"internal/ring/e.go", "A()", "F()"}, "internal/ring: 6 files form a cycle, more than 5: a.go b.go c.go d.go e.go f.go"},

	{"sleep in a test", "sleeps", change{"engine/engine_test.go", "", sleeping("", 1)}, "engine/engine_test.go:6: sleeps without a comment"},
	{"sleep by another name", "sleeps", change{"engine/engine_test.go", "", strings.NewReplacer(`"time"`, `clock "time"`, "time.", "clock.").Replace(sleeping("", 1))}, "engine/engine_test.go:6: sleeps without"},
	{"sleep by a timer", "sleeps", change{"engine/engine_test.go", "", strings.NewReplacer("\ttime.", "\t<-time.", "Sleep", "After").Replace(sleeping("", 1))}, "engine/engine_test.go:6: sleeps without"},
	{"sleep behind a comment of another line", "sleeps", change{"engine/engine_test.go", "", strings.Replace(sleeping("", 1), "{", "{ // sleeps", 1)}, "engine/engine_test.go:6: sleeps without"},
	{"sleep in a package for tests", "sleeps", change{"store/storetest/wait.go", "", strings.Replace(sleeping("", 1), "engine_test", "storetest", 1)}, "store/storetest/wait.go:6: sleeps without"},
	{"sleep in a package of the proof", "sleeps", change{"internal/torture/wait.go", "", strings.Replace(sleeping("", 1), "engine_test", "torture", 1)}, "internal/torture/wait.go:6: sleeps without"},
	{"many sleeps", "sleeps", change{"engine/engine_test.go", "", sleeping(" // a reason", 61)}, "tests sleep in 61 lines, more than 60"},

	{"no example", "examples", change{"house_test.go", "ExampleNew()", "ExampleHouse()"}, "house.go:10: New has no example that runs"},
	{"example that does not run", "examples", change{"house_test.go", "\t// Output: lit\n", ""}, "house.go:10: New has no example that runs"},
	{"no example of Open", "examples", change{"store/disk/open.go", "", "package disk\n\nfunc OpenAll() {}\n\nfunc Opening() {}\n"}, "OpenAll has no example that runs"},
	{"no example though it takes no test first", "examples", change{"cairntest/house.go", "New(testing.TB)", "New(int, testing.TB)"}, "cairntest/house.go:7: New has no example that runs"},
	{"no example of a listed one", "examples", change{"model/openai/m.go", "", "package openai\n\nfunc Model() {}\n"}, "model/openai/m.go:3: Model has no example that runs"},

	{"module outside the workspace", "workspace", change{"go.work", "use ./store/disk\n", ""}, "module store/disk is not listed"},

	{"module of others inside the workspace", "workspace", change{"go.work", "use .\n", "use .\n\nuse ./bench\n"}, "module bench is listed"},

	{"unlisted requirement", "requirements", change{"go.mod", "go 1.26\n", "go 1.26\n\nrequire example.test/dep v1.0.0\n"}, "go.mod: example.test/dep is not listed"},
	{"unlisted indirect requirement of the root", "requirements", change{"go.mod", "go 1.26\n", "go 1.26\n\nrequire example.test/dep v1.0.0 // indirect\n"}, "go.mod: example.test/dep is not listed"},
	{"unlisted requirement of another module", "requirements", change{"store/disk/go.mod", "require ", "require example.test/dep v1.0.0\n\nrequire "}, "store/disk/go.mod: example.test/dep is not listed"},
	{"unlisted tool", "requirements", change{requirementsFile, "| `tools` | `honnef.co/go/tools` | finds mistakes |\n", ""}, "tools/go.mod: honnef.co/go/tools is not listed"},
	{"listed but not required", "requirements", change{requirementsFile, "| `tools`", "| `.` | `example.test/old` | once |\n| `tools`"}, "module . does not require example.test/old"},
	{"listed twice", "requirements", change{requirementsFile, "| `tools`", "| `tools` | `honnef.co/go/tools` | again |\n| `tools`"}, "listed twice"},
	{"no reason", "requirements", change{requirementsFile, "finds mistakes", " "}, "has no reason"},

	{"untidy", "tidy", change{"store/disk/disk.go", "import _ \"example.test/house/store\"\n", ""}, "store/disk: go mod tidy -diff: "},
	{"builds in the workspace only", "build", change{"store/disk/go.mod", "", "module example.test/house/store/disk\n\ngo 1.26\n"}, "store/disk: go build"},
	{"does not build", "build", change{"engine/engine.go", "> 0", "> true"}, "engine/engine.go:10"},
	{"other allocations", "allocations", change{allocationsFile, "0 0", "100 0"}, "engine: BenchmarkLit: 0 allocations, 100 are accepted"},

	{"vet", "vet", change{"engine/engine.go", "return turn.Steps > 0", "for {}; return turn.Steps > 0"}, "unreachable code"},
	{"vet of a test", "vet", change{"house_test.go", "fmt.Println(\"lit\")", "fmt.Printf(\"%d\", \"lit\")"}, "Printf format %d"},
	{"staticcheck", "staticcheck", change{"engine/engine.go", "// Lit", "func unused() {}\n\n// Lit"}, "func unused is unused"},
	{"comment of another name", "staticcheck", change{"house.go", "// New returns", "// Made returns"}, "comment on exported function New"},
}

// sleeping is a file of tests that sleeps in n lines, each with a comment.
func sleeping(comment string, n int) string {
	return "package engine_test\n\nimport \"time\"\n\nfunc rest() {\n" + strings.Repeat("\ttime."+"Sleep(time.Second)"+comment+"\n", n) + "}\n"
}

func TestSleepsWithReasons(t *testing.T) {
	t.Parallel()
	above := strings.Replace(sleeping("", 1), "\ttime.", "\t// a reason\n\ttime.", 1)
	for name, text := range map[string]string{"on the line": sleeping(" // a reason", 60), "above": above, "a function that does not test": ""} {
		files := sound(t)
		files["engine/engine_test.go"] = text
		if text == "" {
			delete(files, "engine/engine_test.go")
			files["engine/rest.go"] = strings.Replace(sleeping("", 1), "engine_test", "engine", 1)
		}
		if problems, err := checkSleeps(build(t, files)); err != nil || len(problems) > 0 {
			t.Errorf("%s: %v %q", name, err, problems)
		}
	}
}

func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.check+": "+f.name, func(t *testing.T) {
			t.Parallel()
			files := sound(t)
			if f.old == "" {
				files[f.file] = f.new
			} else {
				changed := strings.Replace(files[f.file], f.old, f.new, 1)
				if changed == files[f.file] {
					t.Fatalf("%s does not contain %q", f.file, f.old)
				}
				files[f.file] = changed
			}
			problems, err := named(t, f.check).run(build(t, files))
			if err != nil {
				t.Fatal(err)
			}
			if len(problems) != 1 || !strings.Contains(problems[0], f.want) {
				t.Errorf("got %q, want one problem with %q", problems, f.want)
			}
		})
	}
}

func TestTwoVersionsOfOneRequirement(t *testing.T) {
	t.Parallel()
	files := sound(t)
	files["store/disk/go.mod"] += "\nrequire honnef.co/go/tools v0.1.0\n"
	files[requirementsFile] += "| `store/disk` | `honnef.co/go/tools` | an old one |\n"
	problems, err := checkRequirements(build(t, files))
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0], "honnef.co/go/tools is v0.") {
		t.Errorf("got %v %q, want one problem", err, problems)
	}
}

func TestEveryCheckHasAFault(t *testing.T) {
	t.Parallel()
	for _, c := range checks {
		found := false
		for _, f := range faults {
			found = found || f.check == c.name
		}
		if !found {
			t.Errorf("no fault shows that %s can fail", c.name)
		}
	}
}

func TestRunReportsAllAndFails(t *testing.T) {
	t.Parallel()
	list := []check{
		{"bad", func(*tree) ([]string, error) { return []string{"first", "second\nline"}, nil }},
		{"good", func(*tree) ([]string, error) { return nil, nil }},
		{"broken", func(*tree) ([]string, error) { return nil, errors.New("no answer") }},
	}
	var out bytes.Buffer
	err := run(&out, nil, list, nil)
	if err == nil || err.Error() != "failed: bad, broken" {
		t.Errorf("run: %v", err)
	}
	for _, want := range []string{"FAIL  bad", "      first\n      second\n      line\n", "ok    good", "FAIL  broken", "      no answer\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	if err := run(&out, nil, list, []string{"good"}); err != nil {
		t.Errorf("run of one good check: %v", err)
	}
	if err := run(&out, nil, list, []string{"goood"}); err == nil {
		t.Error("run of an unknown check succeeded")
	}
}

func TestUpdateCopiesCodeIntoDocs(t *testing.T) {
	t.Parallel()
	files := sound(t)
	want := files["docs/GUIDE.md"]
	files["docs/GUIDE.md"] = strings.NewReplacer("house.New()", "house.Old()", "const Steps = 1\n", "").Replace(want)
	tr := build(t, files)
	if err := updateCode(tr); err != nil {
		t.Fatal(err)
	}
	if got := file(t, tr.path("docs/GUIDE.md")); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestUpdateLeavesADocWithAWrongMark(t *testing.T) {
	t.Parallel()
	files := sound(t)
	files["docs/GUIDE.md"] = strings.NewReplacer("house.New()", "house.Old()", "house.go#House", "house.go#Hut").Replace(files["docs/GUIDE.md"])
	tr := build(t, files)
	if err := updateCode(tr); err == nil || !strings.Contains(err.Error(), "house.go does not declare Hut") {
		t.Errorf("update: %v", err)
	}
	if got := file(t, tr.path("docs/GUIDE.md")); got != files["docs/GUIDE.md"] {
		t.Errorf("the doc was changed:\n%s", got)
	}
}

func TestTidyMakesModulesTidy(t *testing.T) {
	t.Parallel()
	files := sound(t)
	files["store/disk/disk.go"] = "package disk\n"
	files["store/disk/disk_internals.go"] = "package disk\n"
	tr := build(t, files)
	if err := tidy(tr); err != nil {
		t.Fatal(err)
	}
	if problems, err := checkTidy(tr); err != nil || len(problems) > 0 {
		t.Errorf("after tidy: %v %q", err, problems)
	}

	files["store/disk/disk.go"] = "package disk\n\nimport _ \"example.test/house/cellar\"\n"
	if err := tidy(build(t, files)); err == nil {
		t.Error("tidy of a module that imports what is not there succeeded")
	}
}

func TestOnePathForTwoModules(t *testing.T) {
	t.Parallel()
	root := build(t, map[string]string{"go.mod": "module example.test/house\n", "twin/go.mod": "module example.test/hut\n"}).root
	if err := os.WriteFile(filepath.Join(root, "twin/go.mod"), []byte("module example.test/house\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := newTree(root, []string{"go.mod", "twin/go.mod"}); err == nil {
		t.Error("two modules of one path were accepted")
	}
	if _, err := newTree(root, []string{"README.md"}); err == nil {
		t.Error("a tree without a module was accepted")
	}
}

func TestTreeIsWhatGitTracksOrWould(t *testing.T) {
	t.Parallel()
	root := build(t, map[string]string{
		"go.mod": "module example.test/house\n", ".gitignore": "*.db\n", "a.go": "", "a.db": "", "gone.go": "",
		"z/go.mod": "module example.test/house/z\n", "y/go.mod": "module example.test/house/y\n\nrequire example.test/house/z v0.0.0\n",
	}).root
	for _, args := range [][]string{{"init", "-q"}, {"add", "gone.go"}} {
		if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if err := os.Remove(filepath.Join(root, "gone.go")); err != nil {
		t.Fatal(err)
	}
	tr, err := openTree(root)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{".gitignore", "a.go", "go.mod", "y/go.mod", "z/go.mod"}; !slices.Equal(tr.files, want) {
		t.Errorf("files: %q, want %q", tr.files, want)
	}
	var dirs []string
	for _, m := range tr.modules {
		dirs = append(dirs, m.dir)
	}
	if want := []string{".", "z", "y"}; !slices.Equal(dirs, want) {
		t.Errorf("modules: %q, want %q: each after those it requires", dirs, want)
	}
}

func TestAllocations(t *testing.T) {
	t.Parallel()
	accepted, err := parseAllocations("# a comment\nBenchmarkA 100 1000\nBenchmarkB 10 200\n")
	if err != nil {
		t.Fatal(err)
	}
	for out, want := range map[string]string{
		"BenchmarkA \t 200 \t 5 ns/op\t 1040 B/op\t 102 allocs/op\nBenchmarkB 200 5 ns/op 456 B/op 8 allocs/op\nPASS\n": "",
		"BenchmarkA 200 5 ns/op 1000 B/op 103 allocs/op\nBenchmarkB 200 5 ns/op 200 B/op 10 allocs/op\n":                "BenchmarkA: 103 allocations, 100 are accepted (+3.0 %)",
		"BenchmarkA 200 5 ns/op 1000 B/op 90 allocs/op\nBenchmarkB 200 5 ns/op 200 B/op 10 allocs/op\n":                 "BenchmarkA: 90 allocations, 100 are accepted (-10.0 %)",
		"BenchmarkA 200 5 ns/op 1000 B/op 100 allocs/op\nBenchmarkB 200 5 ns/op 500 B/op 10 allocs/op\n":                "BenchmarkB: 500 bytes, 200 are accepted (+150.0 %)",
	} {
		found := readBenchmarks(out)
		got := strings.Join(compareAllocations(accepted, []allocations{found["BenchmarkA"], found["BenchmarkB"]}), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%q is reported as %q, want %q", out, got, want)
		}
	}
	for _, text := range []string{"", "# nothing\n", "BenchmarkA 1\n", "BenchmarkA one 2\n"} {
		if list, err := parseAllocations(text); err == nil {
			t.Errorf("%q is read as %+v", text, list)
		}
	}
}
