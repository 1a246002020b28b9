package backend

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

func TestMigrationsAreNumberedWithoutGaps(t *testing.T) {
	files := fstest.MapFS{
		"sql/0002_more.sql":  {Data: []byte("-- More.\n-- min_build: 1\ntwo")},
		"sql/0001_first.sql": {Data: []byte("one")},
	}
	list, err := Migrations(files, "sql")
	if err != nil || len(list) != 2 || list[0].Text != "one" || list[0].Name != "first" || list[0].MinBuild != 1 ||
		list[1].Version != 2 || list[1].MinBuild != 1 || list[1].Fingerprint != Fingerprint("two") {
		t.Errorf("%+v, %v", list, err)
	}
	for _, least := range []string{"0", "3", "x"} {
		files["sql/0002_more.sql"] = &fstest.MapFile{Data: []byte("-- min_build: " + least + "\ntwo")}
		if _, err := Migrations(files, "sql"); err == nil || !strings.Contains(err.Error(), "min_build") {
			t.Errorf("min_build %s of migration 2: %v", least, err)
		}
	}
	delete(files, "sql/0002_more.sql")
	files["sql/0004_last.sql"] = &fstest.MapFile{Data: []byte("four")}
	if list, err := Migrations(files, "sql"); err == nil {
		t.Errorf("%+v with a gap", list)
	}
}

func TestFingerprintIgnoresCommentsAndWhiteSpace(t *testing.T) {
	text := "CREATE TABLE a (b TEXT DEFAULT '-- no  comment')"
	for _, same := range []string{
		"-- A table.\n" + text,
		"CREATE  TABLE a\n\t(b /* the\n column */ TEXT DEFAULT '-- no  comment') -- the end",
	} {
		if Fingerprint(same) != Fingerprint(text) {
			t.Errorf("another fingerprint for %q", same)
		}
	}
	for _, other := range []string{
		"CREATE TABLE a (b TEXT DEFAULT '-- no comment')",
		"CREATE TABLE a (b TEXT DEFAULT '')",
		"CREATE TABLE a (bTEXT DEFAULT '-- no  comment')",
		"CREATE TABLE a (b TEXT DEFAULT '-- no  comment', c TEXT)",
		"",
	} {
		if Fingerprint(other) == Fingerprint(text) {
			t.Errorf("the same fingerprint for %q", other)
		}
	}
}

// recorded returns the record of migrations one to n of a schema, each as fingerprint/min_build.
func recorded(list ...string) (all []driver.Migration) {
	for i, text := range list {
		fingerprint, least, _ := strings.Cut(text, "/")
		m := driver.Migration{Version: i + 1, Fingerprint: fingerprint}
		fmt.Sscan(least, &m.MinBuild)
		all = append(all, m)
	}
	return all
}

func TestPendingMigrations(t *testing.T) {
	var schema Schema
	for _, m := range recorded("a/1", "b/1", "c/3") {
		schema = append(schema, Migration{Migration: m})
	}
	for _, c := range []struct {
		name    string
		applied []driver.Migration
		pending int
		says    string // of the error; empty if there is none
	}{
		{"new store", nil, 3, ""},
		{"older store", recorded("a/1"), 2, ""},
		{"same version", recorded("a/1", "b/1", "c/3"), 0, ""},
		{"newer store for this build", recorded("a/1", "b/1", "c/3", "d/3"), 0, ""},
		{"two newer migrations for this build", recorded("a/1", "b/1", "c/3", "d/2", "e/3"), 0, ""},
		{"newer store for newer builds", recorded("a/1", "b/1", "c/3", "d/4"), 0, "requires a build that supports version 4, and this one supports up to 3"},
		{"second newer migration for newer builds", recorded("a/1", "b/1", "c/3", "d/3", "e/5"), 0, "migration 5 requires a build"},
		{"newer migration before one for this build", recorded("a/1", "b/1", "c/3", "d/4", "e/3"), 0, "migration 4 requires a build"},
		{"newer store that does not say", recorded("a/1", "b/1", "c/3", "d"), 0, "requires a build that supports version 4"},
		{"changed last migration", recorded("a/1", "b/1", "x/3"), 0, "made by an unreleased build (its migration 3 has fingerprint x, this build's has c): export it"},
		{"changed first migration of an older store", recorded("x/1"), 0, "made by an unreleased build (its migration 1"},
		{"changed migration of a newer store", recorded("a/1", "x/1", "c/3", "d/1"), 0, "made by an unreleased build (its migration 2"},
		{"no fingerprint", recorded(""), 0, "made by an unreleased build (its migration 1 has no fingerprint"},
		{"gap", recorded("a/1", "b/1")[1:], 0, "records migration 2, want 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pending, err := schema.Pending("the file", c.applied)
			switch {
			case c.says == "" && (err != nil || len(pending) != c.pending):
				t.Errorf("%d pending, %v, want %d", len(pending), err, c.pending)
			case c.says != "" && (!errors.Is(err, cairn.ErrSchema) || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "the file ")):
				t.Errorf("error %v, want a schema error that says %q", err, c.says)
			}
		})
	}
}
