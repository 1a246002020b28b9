package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/skillsync"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/model/open"
)

// top is the root of the repository.
const top = "../.."

// sample is a block of a document: commands of a shell, or a configuration file in YAML.
type sample struct {
	file   string
	line   int // of the first line
	yaml   bool
	lines  []string
	reason string // why it is not run; empty if it is
}

func (s *sample) String() string { return fmt.Sprintf("%s:%d", s.file, s.line) }

var (
	notRun   = regexp.MustCompile(`^<!-- not run: (.+) -->$`)
	fence    = regexp.MustCompile("^```(\\w*)")
	codeSpan = regexp.MustCompile("`(?:go run \\./cmd/)?(cairn [a-z][^`]*)`")
)

// languages are the names of what a sample is in, by the names that a fence may have.
var languages = map[string]string{"sh": "sh", "bash": "sh", "shell": "sh", "console": "sh", "yaml": "yaml", "yml": "yaml"}

// samples returns the indented blocks of a document, and those that are marked as commands or YAML. A comment on a line
// before a block, <!-- not run: REASON -->, excludes it.
func samples(t *testing.T, file string) (list []*sample) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, file))
	if err != nil {
		t.Fatal(err)
	}
	var now *sample // the block under way; nil outside of blocks, and in blocks of other languages
	language, fenced, reason, before := "", false, "", ""
	begin := func(line int) {
		now = &sample{file: file, line: line, yaml: language == "yaml", reason: reason}
		list, reason = append(list, now), ""
	}
	for i, line := range strings.Split(string(text), "\n") {
		indented := strings.HasPrefix(line, "    ")
		switch m := fence.FindStringSubmatch(line); {
		case m != nil && fenced:
			fenced, now = false, nil
		case m != nil:
			fenced, language = true, languages[m[1]]
			if language != "" {
				begin(i + 2)
			}
		case fenced && now != nil:
			now.lines = append(now.lines, line)
		case fenced:
		case indented && now != nil:
			now.lines = append(now.lines, line[4:])
		case indented && before == "":
			language = "sh"
			begin(i + 1)
			now.lines = append(now.lines, line[4:])
		case notRun.MatchString(line):
			reason = notRun.FindStringSubmatch(line)[1]
		default:
			now = nil
		}
		before = line
	}
	return list
}

func documents(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range list {
		list[i] = "docs/" + filepath.Base(file)
	}
	return append(list, "README.md", "SECURITY.md", "CONTRIBUTING.md")
}

// shellLine is a command line of a document: commands that are joined by | or &&, each with its arguments.
type shellLine struct {
	at       string
	text     string
	commands [][]string
}

// shellLines returns the command lines of a sample. If lines begin with "$ ", the others are what the commands print.
func (s *sample) shellLines() (list []shellLine) {
	session := slices.ContainsFunc(s.lines, func(line string) bool { return strings.HasPrefix(line, "$ ") })
	var text string
	for i, line := range s.lines {
		command := strings.HasPrefix(line, "$ ")
		if session && !command {
			continue
		}
		text += strings.TrimPrefix(line, "$ ")
		if whole, more := strings.CutSuffix(text, "\\"); more {
			text = whole
			continue
		}
		if commands := words(text); len(commands) > 0 {
			list = append(list, shellLine{fmt.Sprintf("%s:%d", s.file, s.line+i), text, commands})
		}
		text = ""
	}
	return list
}

// words splits a command line into commands and their words, as a shell does for what documents contain: quotes,
// comments, |, && and parentheses.
func words(line string) (list [][]string) {
	var command []string
	var word strings.Builder
	inside, quote := false, rune(0)
	endWord := func() {
		if inside {
			command = append(command, word.String())
		}
		word.Reset()
		inside = false
	}
	end := func() {
		endWord()
		if len(command) > 0 {
			list = append(list, command)
		}
		command = nil
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inside = r, true
		case r == '#' && !inside:
			end()
			return list
		case r == ' ' || r == '\t':
			endWord()
		case r == '|' || r == '&' || r == ';' || r == '(' || r == ')':
			end()
		default:
			inside = true
			word.WriteRune(r)
		}
	}
	end()
	return list
}

var assignment = regexp.MustCompile(`^[A-Z_]+=`)

// ofCairn returns the arguments of a command that runs cairn.
func ofCairn(command []string) (args []string, ok bool) {
	for len(command) > 0 && assignment.MatchString(command[0]) {
		command = command[1:]
	}
	switch {
	case len(command) > 0 && command[0] == "cairn":
		return command[1:], true
	case len(command) > 2 && command[0] == "go" && command[1] == "run" && command[2] == "./cmd/cairn":
		return command[3:], true
	}
	return nil, false
}

// leftOut matches the errors about arguments that are missing.
var leftOut = regexp.MustCompile(`^expected |^missing flags: |: expected .* got "EOL"`)

// parse reports what is wrong with a command line of cairn. A fragment, as in running text, may leave out arguments.
func parse(args []string, fragment bool) error {
	var out bytes.Buffer
	parser, err := newParser(&cli.App{Env: map[string]string{}, Stdin: &out, Stdout: &out, Stderr: &out})
	if err != nil {
		return err
	}
	_, err = parser.Parse(args)
	if err != nil && fragment && leftOut.MatchString(err.Error()) {
		return nil
	}
	return err
}

// check reports what is wrong with a command in a directory, and returns the directory of those after it.
func check(dir string, command []string) (next string, err error) {
	if args, ok := ofCairn(command); ok {
		return dir, parse(args, false)
	}
	for len(command) > 0 && assignment.MatchString(command[0]) {
		command = command[1:]
	}
	if len(command) == 0 {
		return dir, nil
	}
	exists := func(path ...string) error {
		_, err := os.Stat(filepath.Join(append([]string{top, dir}, path...)...))
		return err
	}
	switch program := command[0]; program {
	case "cd":
		return filepath.Join(dir, command[1]), exists(command[1])
	case "make":
		makefile, err := os.ReadFile(filepath.Join(top, "Makefile"))
		if err == nil && !bytes.Contains(makefile, []byte("\n"+command[1]+": ##")) {
			err = fmt.Errorf("no target %q", command[1])
		}
		return dir, err
	case "go":
		return dir, checkGo(command[1:], exists)
	case "echo", "export", "npm", "curl":
		return dir, nil
	default:
		return dir, fmt.Errorf("this test does not know the program %q: put <!-- not run: REASON --> before the block", program)
	}
}

// checkGo checks that what a go command names is in the repository.
func checkGo(args []string, exists func(path ...string) error) error {
	for _, arg := range args[1:] {
		switch module, ours := strings.CutPrefix(arg, "github.com/cairn-agents/cairn"); {
		case args[0] == "get" && !ours:
			return fmt.Errorf("%s is not a module of Cairn", arg)
		case args[0] == "get":
			if err := exists(module, "go.mod"); err != nil {
				return err
			}
		case strings.HasPrefix(arg, "./"):
			if err := exists(strings.TrimSuffix(arg, "...")); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestCommandsInDocuments parses each command line of the documents, and performs those of cairn that need no server and
// end by themselves. Sessions named session-1 and demo exist.
func TestCommandsInDocuments(t *testing.T) {
	t.Parallel()
	parsed, performed := 0, 0
	for _, file := range documents(t) {
		for _, s := range samples(t, file) {
			if s.yaml || s.reason != "" {
				continue
			}
			b := newBench(t)
			for _, args := range [][]string{{"demo"}, {"demo", "--session", "session-1", "--user", "ada"}} {
				if _, stderr, code := b.run("Order 43 is late\n", args...); code != 0 {
					t.Fatal(stderr)
				}
			}
			for _, line := range s.shellLines() {
				dir := ""
				for i, command := range line.commands {
					var err error
					if dir, err = check(dir, command); err != nil {
						t.Errorf("%s: %s: %v", line.at, line.text, err)
						break
					}
					parsed++
					args, ours := ofCairn(command)
					if !ours || !endsByItself(args) {
						continue
					}
					stdin := ""
					if i > 0 && line.commands[i-1][0] == "echo" {
						stdin = line.commands[i-1][1] + "\n"
					}
					if args[0] == "erase" {
						args = append(args, "--yes") // a person is asked at a terminal
					}
					performed++
					if stdout, stderr, code := b.run(stdin, args...); code != 0 {
						t.Errorf("%s: %s: exit code %d: %s%s", line.at, line.text, code, stdout, stderr)
					}
				}
			}
		}
	}
	if parsed < 40 || performed < 10 {
		t.Errorf("only %d commands were found, and %d performed", parsed, performed)
	}
}

// endsByItself reports whether a command needs neither a server nor a call that waits, and ends.
func endsByItself(args []string) bool {
	command := strings.Join(args[:min(2, len(args))], " ")
	serves := args[0] == "serve" || args[0] == "chat" || args[0] == "work" && command != "work status"
	remote := slices.ContainsFunc(args, func(arg string) bool {
		return strings.Contains(arg, "://") || arg == "--host" || arg == "--model" || strings.HasPrefix(arg, "dbos:")
	})
	return !serves && !remote && command != "inbox approve"
}

// TestCommandsInText parses the command lines in running text, which may leave out arguments.
func TestCommandsInText(t *testing.T) {
	t.Parallel()
	found := 0
	for _, file := range documents(t) {
		text, err := os.ReadFile(filepath.Join(top, file))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
				found++
				if err := parse(words(m[1])[0][1:], true); err != nil {
					t.Errorf("%s:%d: %s: %v", file, i+1, m[1], err)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d were found", found)
	}
}

var variable = regexp.MustCompile(`\$\{([A-Z_]+)\}`)

// TestFilesInDocuments loads each configuration file of the documents, and opens none of what it names.
func TestFilesInDocuments(t *testing.T) {
	t.Parallel()
	found := 0
	for _, file := range documents(t) {
		for _, s := range samples(t, file) {
			if !s.yaml || s.reason != "" {
				continue
			}
			found++
			text := strings.Join(s.lines, "\n")
			if strings.HasPrefix(text, "into:") { // of cairn skills sync
				if _, err := skillsync.Parse(s.String(), []byte(text)); err != nil {
					t.Error(err)
				}
				continue
			}
			env := map[string]string{}
			for _, m := range variable.FindAllStringSubmatch(text, -1) {
				env[m[1]] = strings.Repeat("0123456789abcdef", 2)
			}
			c, err := config.Parse(s.String(), []byte(text), env, open.Providers())
			if err == nil && c.Store != "memory" {
				_, err = stores.Parse("store", c.Store)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	if found < 2 {
		t.Errorf("only %d were found", found)
	}
}

// The rules of the two tests above find what they are for.
func TestWrongSamplesAreFound(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"cairn sessions lst", "cairn demo --stor x", "cairn migrate up extra", "go run ./cmd/cairn serve", "A=b cairn inbox approve", "echo a | cairn work --speed 1",
		"make dinner", "cd nowhere", "go run ./examples/none", "go get github.com/cairn-agents/cairn/none", "temporal operator",
	} {
		var err error
		dir := ""
		for _, command := range words(line) {
			var e error
			dir, e = check(dir, command)
			err = errors.Join(err, e)
		}
		if err == nil {
			t.Errorf("nothing is wrong with %s", line)
		}
	}
	want := [][]string{{"A=b c", "d", "x|y"}, {"e", ""}}
	if got := words(`"A=b c" d 'x|y' | e "" # f`); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, want %q", got, want)
	}
}
