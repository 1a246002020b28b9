package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// ban is a pattern that no file may contain, and why. Patterns are spelt so that this file does not contain them.
type ban struct {
	pattern *regexp.Regexp
	why     string
	except  []string // names of files that are free of it
}

var bans = []ban{
	{regexp.MustCompile(`\b(?:TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`), "promises later work", nil},
	{regexp.MustCompile(`(?:^|[^\w.~/-])/(?:(?:work|root|home|Users)/|tmp/\w)`), "is a path of one machine", nil},
	{regexp.MustCompile(`\b(?:` + strings.Join([]string{
		`(?:proxy|sum)\.go` + `lang`, `registry\.(?:np` + `mjs|ya` + `rnpkg)`, `(?:deb|security)\.deb` + `ian`, `(?:static|index)\.cra` + `tes`,
		`py` + `pi`, `files\.python` + `hosted`,
	}, "|") + `)\.(?:org|com|io)\b`), "is the host of a package registry", []string{"go.sum", "go.work.sum"}},
}

// checkWords reports banned text in any file that is text.
func checkWords(t *tree) ([]string, error) {
	var problems []string
	for _, name := range t.files {
		text, err := t.read(name)
		if err != nil {
			return nil, err
		}
		if strings.Contains(text, "\x00") {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			for _, b := range bans {
				if found := b.pattern.FindString(line); found != "" && !slices.Contains(b.except, path.Base(name)) {
					problems = append(problems, fmt.Sprintf("%s:%d: %q %s", name, i+1, strings.TrimSpace(found), b.why))
				}
			}
		}
	}
	return problems, nil
}
