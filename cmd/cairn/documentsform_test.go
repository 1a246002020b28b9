package main

import (
	"os"
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
	skill := readDocument(t, "docs/SKILL.md") // https://agentskills.io/specification
	front := regexp.MustCompile(`\A---\nname: ([^\n]+)\ndescription: ([^\n]+)\n---\n\n# `).FindStringSubmatch(skill)
	if front == nil {
		t.Fatal("docs/SKILL.md does not begin with the front matter of a skill")
	}
	if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(front[1]) || len(front[1]) > 64 {
		t.Errorf("%q is not a skill's name", front[1])
	}
	if len(front[2]) > 1024 || strings.Contains(front[2], ": ") {
		t.Errorf("the description has %d bytes, or a colon that YAML reads", len(front[2]))
	}
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
