package backend

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Schema is the list of migrations that a build knows, in order. Migration n is at index n-1.
type Schema []Migration

// Migration is one numbered script of a schema.
type Migration struct {
	driver.Migration
	Text string // SQL
}

// minBuild is the comment with which a script declares the lowest schema version that a build must know to use a store
// with this script applied. Without it that is the script's own number: builds that do not know the script are refused.
var minBuild = regexp.MustCompile(`(?m)^-- min_build: (\S+)$`)

// Migrations returns the numbered files of a directory, such as 0001_sessions.sql. Their numbers must have no gap.
func Migrations(files fs.FS, dir string) (Schema, error) {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, err
	}
	list := make(Schema, len(entries))
	for i, e := range entries {
		number, name, _ := strings.Cut(strings.TrimSuffix(e.Name(), ".sql"), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %q must have number %d", e.Name(), i+1)
		}
		text, err := fs.ReadFile(files, dir+"/"+e.Name())
		if err != nil {
			return nil, err
		}
		least := i + 1
		if found := minBuild.FindSubmatch(text); found != nil {
			if least, err = strconv.Atoi(string(found[1])); err != nil || least < 1 || least > i+1 {
				return nil, fmt.Errorf("migration %q: min_build %q must be a number from 1 to %d", e.Name(), found[1], i+1)
			}
		}
		list[i] = Migration{Text: string(text), Migration: driver.Migration{Version: i + 1, Name: name,
			Fingerprint: Fingerprint(string(text)), MinBuild: least}}
	}
	return list, nil
}

// Pending compares the migrations that a store records, in order, with the schema, and returns the migrations that it
// lacks. The error is ErrSchema, about the store named where, in two cases. A recorded fingerprint is missing or
// differs from the fingerprint of this number's migration: then the numbers say nothing about the tables. Or the store
// is newer, and one of the migrations that this build does not know needs a newer build.
func (s Schema) Pending(where string, applied []driver.Migration) (Schema, error) {
	for i, a := range applied {
		switch {
		case a.Version != i+1:
			return nil, cairn.Errorf(cairn.ErrSchema, "%s records migration %d, want %d", where, a.Version, i+1)
		case i < len(s) && a.Fingerprint != s[i].Fingerprint:
			was := "no fingerprint"
			if a.Fingerprint != "" {
				was = "fingerprint " + a.Fingerprint
			}
			return nil, cairn.Errorf(cairn.ErrSchema,
				"%s was made by an unreleased build (its migration %d has %s, this build's has %s): export it with that build and import it here",
				where, a.Version, was, s[i].Fingerprint)
		case i >= len(s) && (a.MinBuild > len(s) || a.MinBuild < 1):
			return nil, cairn.Errorf(cairn.ErrSchema, "%s has schema version %d; its migration %d requires a build that supports version %d, and this one supports up to %d: use a newer program",
				where, len(applied), a.Version, max(a.MinBuild, a.Version), len(s))
		}
	}
	return s[min(len(applied), len(s)):], nil
}

// Status lists the migrations of the schema, and recorded migrations that only a newer build knows.
func (s Schema) Status(applied []driver.Migration) []driver.Migration {
	list := make([]driver.Migration, 0, max(len(s), len(applied)))
	for i := range max(len(s), len(applied)) {
		switch {
		case i >= len(applied):
			list = append(list, s[i].Migration)
			continue
		case i >= len(s):
			list = append(list, applied[i])
		default:
			m := s[i].Migration
			m.AppliedAt, m.MinBuild = applied[i].AppliedAt, applied[i].MinBuild
			list = append(list, m)
		}
		list[i].Applied = true
	}
	return list
}

// Fingerprint identifies the text of a migration by 16 hexadecimal digits. Comments and white space do not count,
// except within quotes.
func Fingerprint(text string) string {
	var b strings.Builder
	space := false
	for len(text) > 0 {
		n := lexeme(text)
		word := text[:n]
		text = text[n:]
		if strings.HasPrefix(word, "--") || strings.HasPrefix(word, "/*") || strings.TrimSpace(word) == "" {
			space = true
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteString(word)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:8])
}

// lexeme returns the length of a comment, a quoted text or a single byte at the beginning of SQL.
func lexeme(text string) int {
	upTo := func(end string, from int) int {
		if n := strings.Index(text[from:], end); n >= 0 {
			return from + n + len(end)
		}
		return len(text)
	}
	switch {
	case strings.HasPrefix(text, "--"):
		return upTo("\n", 2)
	case strings.HasPrefix(text, "/*"):
		return upTo("*/", 2)
	case strings.HasPrefix(text, "$$"):
		return upTo("$$", 2)
	case text[0] == '\'' || text[0] == '"':
		return upTo(text[:1], 1)
	}
	return 1
}
