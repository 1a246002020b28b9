package main

import (
	"fmt"
	"regexp"
	"strings"
)

// changelog is in the form of https://keepachangelog.com: a section of each version, the newest first.
const changelog = "CHANGELOG.md"

// semver has the grammar of https://semver.org without build metadata, which the go command refuses, and with the v.
var semver = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?$`)

func validVersion(version string) bool { return semver.MatchString(version) }

func wrongVersion(version string) error {
	return fmt.Errorf("-version: %q is not a version such as v0.1.0 or v0.1.0-rc.1", version)
}

// heading is that of a version: ## [0.1.0] - 2026-12-01.
var heading = regexp.MustCompile(`^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?$`)

// checkChangelog reports whether the changelog's newest version is this one, dated and with an entry, and nothing is
// left in its section of unreleased changes.
func checkChangelog(text, version string) error {
	want := strings.TrimPrefix(version, "v")
	section, date, entries := "", "", map[string]int{}
	newest := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := heading.FindStringSubmatch(line); m != nil {
			section = m[1]
			if newest == "" && section != "Unreleased" {
				newest, date = section, m[2]
			}
		} else if strings.HasPrefix(line, "- ") {
			entries[section]++
		}
	}
	switch {
	case newest != want:
		return fmt.Errorf("%s: the newest version is %q, not %s: move what is unreleased to a section ## [%s] - date", changelog, newest, want, want)
	case date == "":
		return fmt.Errorf("%s: the section of %s has no date: ## [%s] - 2006-01-02", changelog, want, want)
	case entries[want] == 0:
		return fmt.Errorf("%s: the section of %s has no entry", changelog, want)
	case entries["Unreleased"] > 0:
		return fmt.Errorf("%s: %d entries are in the section Unreleased: move them to ## [%s]", changelog, entries["Unreleased"], want)
	}
	return nil
}
