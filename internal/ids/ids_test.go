package ids_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/internal/ids"
)

var shape = regexp.MustCompile(`^run_[a-z2-7]{26}$`)

func TestNew(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		id := ids.New("run")
		if !shape.MatchString(id) || seen[id] || ids.Check(id) != "" {
			t.Fatalf("identifier %q: seen before %v, %s", id, seen[id], ids.Check(id))
		}
		seen[id] = true
	}
}

func TestDerive(t *testing.T) {
	t.Parallel()
	if one, two := ids.Derive("run", "a", "b"), ids.Derive("run", "a", "b"); one != two || !shape.MatchString(one) {
		t.Fatalf("the same parts give %q and %q", one, two)
	}
	// Stored data depends on the derivation: it must never change.
	if got, want := ids.Derive("call", "session-1", "call-1"), "call_ctl7uue2xjqvo3jwcxwpgunrje"; got != want {
		t.Errorf("derived %q, want %q", got, want)
	}
	seen := map[string][]string{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"a", "b"}, {"ab"}, {"a", "", "b"}, {"b", "a"}, {"a", "b", ""}, {"1:a1:b"}, {"a1:b"}} {
		id := ids.Derive("run", parts...)
		if other, there := seen[id]; there {
			t.Errorf("%q and %q give the same identifier", parts, other)
		}
		seen[id] = parts
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "session-1", "a b", "é🜁", "a/b:c", strings.Repeat("x", ids.MaxLength)} {
		if problem := ids.Check(good); problem != "" {
			t.Errorf("%q %s", good, problem)
		}
	}
	for bad, want := range map[string]string{
		"":                                   "is empty",
		strings.Repeat("x", 1+ids.MaxLength): "is too large: 201 bytes (max 200)",
		strings.Repeat("é", 101):             "is too large: 202 bytes",
		"a\xff":                              "is not valid UTF-8",
		" a":                                 "begins or ends with white space",
		"a\u00a0":                            "begins or ends with white space",
		"a\n":                                "begins or ends with white space",
		"a\x00b":                             "contains a control character",
		"a\u0085b":                           "contains a control character",
		"a\x7fb":                             "contains a control character",
	} {
		if problem := ids.Check(bad); !strings.HasPrefix(problem, want) {
			t.Errorf("%q: %q, want %q", bad, problem, want)
		}
	}
}

func TestCheckPath(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "...", ".a", "a.", "a..b", "a/b", "a/.b/..c", "%2e%2e"} {
		if problem := ids.CheckPath(good); problem != "" {
			t.Errorf("%q %s", good, problem)
		}
	}
	for _, bad := range []string{"", ".", "..", "a/..", "../a", "a/./b", "a/../b", "/", "/a", "a/", "a//b", " a"} {
		if problem := ids.CheckPath(bad); problem == "" {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"", "a", " a", "\xff", "\x00", "é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if ids.Check(id) == "" && (id == "" || len(id) > ids.MaxLength || strings.ToValidUTF8(id, "") != id || strings.TrimSpace(id) != id || strings.ContainsAny(id, "\x00\n\r\t\x7f")) {
			t.Fatalf("%q was accepted", id)
		}
	})
}
