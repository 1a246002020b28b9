package main

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// phrase is a turn of prose that has a plainer form every time. If its pattern has a group, the group is the
// phrase.
type phrase struct {
	pattern *regexp.Regexp
	fine    *regexp.Regexp // matches of the pattern that are plain already; nil for none
	write   string
}

// sentence matches the start of a sentence, of a cell of a table or of an item of a list.
const sentence = `(?:^|[.!?:|] )(?:(?:[-*]|\d+\.) )?(?:\*\*)?`

// beforeWhat matches prepositions and conjunctions that begin a clause with "what".
const beforeWhat = `after|as|at|behind|beside|beyond|by|except|for|from|in|into|of|on|than|to|with|without`

// spaced compiles a pattern, each space of which matches spaces and ends of lines.
func spaced(pattern string) *regexp.Regexp {
	return regexp.MustCompile(strings.ReplaceAll(pattern, " ", `\s+`))
}

var phrases = []phrase{
	{spaced(`\b(?:\w+ )?(?:is|are|was|were) (?:also )?no [a-z_]+`),
		spaced(`^(?i:there|which) |^what |no (?:longer|more|less|other|better|worse)\b`), `"is not a" or an active verb`},
	{spaced(`\b(?:\w+ )?(?:is|are|was|were) none\b`), spaced(`^(?i:there) `), "the noun again, with not"},
	{spaced(`(?i)\bthere (?:is|are|was|were) not\b`), nil, `"no" before the noun`},
	{spaced(`(?i)\bthose of\b`), nil, "the noun again"},
	{spaced(`(?i)\bthat which\b`), nil, "the noun"},
	{spaced(`(?i)\bof which\b`), nil, "a sentence of its own"},
	{spaced(`\b(?:is|are) not (?:one|ones) (?:of|that|to|which)\b`), nil, "the noun again"},
	{spaced(`\b(?:is|are|was|were) of (?:a|an|the|its|their|this|that|each|every|one|some|no)\b`), nil, "has, belongs to or applies to"},
	{spaced(sentence + `(Of (?:a|an|the|any|all|both|each|two|several|many|these|those) [^.|]*)`), nil, "the subject first"},
	{spaced(sentence + `(Whatever) `), nil, "the noun"},
	{spaced(sentence + `(What [^.!?|]*(?:[.!|]|$))`), spaced(`^What(?: \w+){0,3} ?\|$`), "the noun that the clause stands for"},
	{spaced(`\b((?:` + beforeWhat + `) what)\b`), nil, "the noun that the clause stands for"},
	{spaced(`\b(?:stands?|stood)\b`), nil, "is, is in, is listed in, remains or counts"},
	{spaced(`\bcomes? of\b`), nil, "follows from or is caused by"},
	{spaced(`\bknows? (?:nothing|not|of)\b`), nil, "does not have, does not depend on or contains no"},
}

// exception is a text of a file that keeps its phrases, and why.
type exception struct{ file, text, why string }

var exceptions = []exception{
	{"CONTRIBUTING.md", "Equal values are none.", "a sample of bad style"},
	{"CONTRIBUTING.md", "A URL with several addresses that are no cluster", "a sample of bad style"},
	{"CONTRIBUTING.md", "What an API does not accept in a schema stands in the descriptions.", "a sample of bad style"},
	{"CONTRIBUTING.md", "Whatever kills the process", "a sample of bad style"},
}

var (
	markup = regexp.MustCompile("`[^`]*`|\\]\\([^)]*\\)|<!--.*?-->")
	item   = regexp.MustCompile(`^ *(?:[-*]|\d+\.) |^\|`)
)

// paragraph is prose of consecutive lines, from the line of the file with an index.
type paragraph struct {
	line int
	text string
}

// paragraphs returns the paragraphs, items of lists and rows of tables of a Markdown text, without headings and blocks of
// code. Code within lines and targets of links are replaced by underscores.
func paragraphs(text string) (all []paragraph) {
	next := -1 // the line that continues the last paragraph
	outside(strings.Split(text, "\n"), func(i int, line string) {
		if heading.MatchString(line) {
			return
		}
		indented := strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")
		switch {
		case strings.TrimSpace(line) == "":
		case i == next && !item.MatchString(line):
			all[len(all)-1].text += "\n" + line
			next = i + 1
		case !indented || item.MatchString(line):
			all = append(all, paragraph{i, line})
			next = i + 1
		}
	})
	for i, p := range all {
		all[i].text = markup.ReplaceAllStringFunc(p.text, blank)
	}
	return all
}

// blank replaces each byte of a text by an underscore, except for the ends of lines.
func blank(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.Repeat("_", len(line))
	}
	return strings.Join(lines, "\n")
}

// phrasesOf returns those of some phrases that a paragraph of a file contains, as problems.
func phrasesOf(name string, p paragraph, phrases []phrase) (problems []string) {
	text := p.text
	for _, e := range exceptions {
		if e.file == name {
			text = strings.ReplaceAll(text, e.text, blank(e.text))
		}
	}
	for _, ph := range phrases {
		for _, m := range ph.pattern.FindAllStringSubmatchIndex(text, -1) {
			from, to := m[len(m)-2], m[len(m)-1]
			if found := text[from:to]; ph.fine == nil || !ph.fine.MatchString(found) {
				line := p.line + strings.Count(text[:from], "\n") + 1
				found = strings.Join(strings.Fields(found), " ")
				problems = append(problems, fmt.Sprintf("%s:%d: %q: write %s", name, line, found, ph.write))
			}
		}
	}
	return problems
}

// checkPhrases reports phrases in Markdown files and doc comments that have a plainer form, and exceptions that no file
// needs. It leaves out CHANGELOG.md, whose sections of released versions never change, and the glossary, which lists
// words to avoid.
func checkPhrases(t *tree) ([]string, error) {
	var problems []string
	names := t.withSuffix(".md")
	if t.exists(linkList) {
		names = append(names, linkList)
	}
	for _, name := range names {
		if base := path.Base(name); base == "CHANGELOG.md" || base == "GLOSSARY.md" {
			continue
		}
		text, err := t.read(name)
		if err != nil {
			return nil, err
		}
		for _, p := range paragraphs(text) {
			problems = append(problems, phrasesOf(name, p, phrases)...)
		}
		for _, e := range exceptions {
			if e.file == name && !strings.Contains(text, e.text) {
				problems = append(problems, fmt.Sprintf("%s: does not contain %q (%s): remove the exception", name, e.text, e.why))
			}
		}
	}
	inComments, err := commentPhrases(t)
	return append(problems, inComments...), err
}
