package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func readDocument(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFormOfDocuments holds the documents that others read by a program to their form, and two of them to a length that
// a newcomer reads.
func TestFormOfDocuments(t *testing.T) {
	t.Parallel()
	if list := readDocument(t, "llms.txt"); !regexp.MustCompile(`\A# [^\n]+\n\n> [^\n]+\n(?s:.*)\n## `).MatchString(list) {
		t.Error("llms.txt does not begin with a title and a summary") // https://llmstxt.org
	}
	if n := strings.Count(readDocument(t, "README.md"), "\n"); n > 220 {
		t.Errorf("README.md has %d lines", n)
	}
	if n := len(strings.Fields(readDocument(t, "docs/ARCHITECTURE.md"))); n > 5000 {
		t.Errorf("docs/ARCHITECTURE.md has %d words", n)
	}
}

// TestSkillsOfRepository has cairn skills validate check every skill of this repository.
func TestSkillsOfRepository(t *testing.T) {
	t.Parallel()
	list, err := exec.Command("git", "-C", top, "ls-files", "SKILL.md", "*/SKILL.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"skills", "validate"}
	for _, file := range strings.Fields(string(list)) {
		args = append(args, filepath.Join(top, filepath.Dir(file)))
	}
	if len(args) < 4 {
		t.Fatalf("only %q were found", args[2:])
	}
	if stdout, stderr, code := newBench(t).run("", args...); code != 0 || !strings.Contains(stdout, "no mistakes") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}
