// Package released proves that a store written by a release is readable by every later one. A release command writes
// fixtures of the stores: the data of sessions that are at rest, suspended, crashed, archived and deleted, and the JSON
// that they are exported as. The tests of each store read every fixture back: they restore the data, bring it up to date,
// compare the export, import it, answer what waits, and complete each session.
//
//	func TestReleased(t *testing.T) {
//		released.Run(t, released.Store{Name: "mystore", …})
//	}
package released

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/cairn-agents/cairn/store/driver"
)

var (
	root   = flag.String("released.root", filepath.Join("..", ".."), "the repository that has the fixtures")
	write  = flag.String("released.write", "", "write the fixture of this version, and read no other")
	source = flag.String("released.source", "", "what identifies the source of the version")
)

// Store is a kind of store with fixtures.
type Store struct {
	// Name is the name of its package, whose directory below store has the fixtures.
	Name string
	// File is the name of the file with the data in a fixture.
	File string
	// Schema lists the migrations that this build knows.
	Schema []driver.Migration
	// Open opens a new, empty store, which is closed when the test ends.
	Open func(testing.TB) driver.Store
	// Save returns all that a store has, for File. It may close the store.
	Save func(testing.TB, driver.Store) []byte
	// Restore makes a new store of what Save returned in a build that knew these migrations, and opens it as users do,
	// which brings it up to date. It is closed when the test ends.
	Restore func(tb testing.TB, data []byte, schema []driver.Migration) driver.Store
}

// The files of a fixture, beside that of its Store.
const (
	// manifestFile holds a [manifest].
	manifestFile = "manifest.json"
	// expectedFile holds what reading the store must yield, a [line] each.
	expectedFile = "expected.jsonl"
)

// manifest says what wrote a fixture.
type manifest struct {
	// Source identifies the source of the build.
	Source string `json:"source"`
	// Schema lists the migrations that the build knew.
	Schema []driver.Migration `json:"schema"`
}

// line is a piece of what reading a store must yield.
type line struct {
	// Session is the root of Part, or of Removed, which is restored first.
	Session string          `json:"session,omitempty"`
	Part    json.RawMessage `json:"part,omitempty"`
	Removed json.RawMessage `json:"removed,omitempty"`
	// Record is a record of the namespace [namespace].
	Record json.RawMessage `json:"record,omitempty"`
	// Memory is a scope of memories with its entries.
	Memory json.RawMessage `json:"memory,omitempty"`
	// Blobs are an owner of blobs and the bytes of its blobs by their keys.
	Blobs json.RawMessage `json:"blobs,omitempty"`
	// Usage is a row of usage, or all sums of usage by their keys.
	Usage json.RawMessage `json:"usage,omitempty"`
}

// Run reads the fixtures of every released version, and one that it writes by itself. With the flag -released.write it
// writes the fixture of that version instead, and reads that.
func Run(t *testing.T, s Store) {
	t.Parallel()
	dir := filepath.Join(*root, "store", s.Name, "testdata", "released")
	if *write != "" {
		at := filepath.Join(dir, *write)
		s.write(t, at)
		s.read(t, *write, at)
		return
	}
	versions, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, version := range versions {
		t.Run(version.Name(), func(t *testing.T) {
			t.Parallel()
			s.read(t, version.Name(), filepath.Join(dir, version.Name()))
		})
	}
	t.Run("this build", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "fixture")
		s.write(t, dir)
		s.read(t, "this build", dir)
	})
}

// write writes a fixture, in place of the one that is there.
func (s Store) write(t *testing.T, dir string) {
	st := s.Open(t)
	play(t, st)
	var expected bytes.Buffer
	for _, l := range export(t, st) {
		raw := encode(t, l)
		expected.Write(append(raw, '\n'))
	}
	remove(t, st)
	head, err := json.MarshalIndent(manifest{*source, s.Schema}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		s.File: s.Save(t, st), expectedFile: expected.Bytes(), manifestFile: append(head, '\n'),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// read restores a fixture and checks all that is promised of it.
func (s Store) read(t *testing.T, version, dir string) {
	file := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	var from manifest
	if err := json.Unmarshal(file(manifestFile), &from); err != nil {
		t.Fatal(err)
	}
	if err := Unchanged(version, from.Schema, s.Schema); err != nil {
		t.Fatal(err)
	}
	var expected []line
	lines := bufio.NewScanner(bytes.NewReader(file(expectedFile)))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		expected = append(expected, l)
	}
	if lines.Err() != nil || len(expected) == 0 {
		t.Fatalf("%s has %d lines: %v", expectedFile, len(expected), lines.Err())
	}
	st := s.Restore(t, file(s.File), from.Schema)
	compare(t, st, expected)
	compareImported(t, s.Open(t), expected)
	complete(t, st)
}

func encode(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
