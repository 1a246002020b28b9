package memory

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/cairn-agents/cairn/store/driver"
)

func FuzzPostings(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 250, 9, 1, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		want := map[uint32]int{}
		var raw []byte
		for ; len(ops) >= 3; ops = ops[3:] {
			n, count := (uint32(ops[0])<<8|uint32(ops[1]))%perPost, int(ops[2]%80)
			raw = setPosting(raw, n, count)
			if want[n] = min(count, maxCount); count == 0 {
				delete(want, n)
			}
		}
		term := queryTerm{}
		term.posts[0] = append(term.posts[0], entryOf(postKey('t', "term", 0), raw))
		if len(raw) != 2*len(want) {
			t.Fatalf("%d bytes for %d postings", len(raw), len(want))
		}
		for n := range uint32(perPost) {
			if got := term.countIn(0, n); got != want[n] {
				t.Fatalf("memory %d: %d, want %d", n, got, want[n])
			}
		}
	})
}

func FuzzRecords(f *testing.F) {
	f.Add(bytes.Repeat([]byte{1, 2, 3, 255}, 48))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := decodeChunk(raw)
		if err != nil {
			return
		}
		again, err := decodeChunk(c.encode())
		if err != nil {
			t.Fatal(err)
		}
		for i := range c {
			if c[i].live() && c[i] != again[i] {
				t.Fatalf("record %d: %+v, was %+v", i, again[i], c[i])
			}
		}
	})
}

func FuzzAnalyzers(f *testing.F) {
	for _, text := range []string{"The user's dogs’ running 4711", "東京タワー tower", "\xff\x00", "İ ẞ e\u0301", "don't ''x' '"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range []Analyzer{English(), Simple(), Bigrams()} {
			list := a.Terms(text)
			if !slices.Equal(list, a.Terms(text)) {
				t.Fatalf("%s: %q has different terms each time", a.Name(), text)
			}
			for _, term := range list {
				term = usable(term)
				if len(term) > maxTerm || !utf8.ValidString(term) || strings.ContainsFunc(term, unicode.IsControl) {
					t.Fatalf("%s: term %q", a.Name(), term)
				}
			}
		}
		if folded := fold(text); fold(folded) != folded && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsMark) {
			t.Fatalf("%q folds to %q, that to %q", text, folded, fold(folded))
		}
	})
}

func TestAnalyzers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a    Analyzer
		text string
		want string
	}{
		{English(), "Where did the user's dogs run, running since 2024?", "user dog run run sinc 2024"},
		{English(), "ORD-4711/B café", "ord 4711 b café"},
		{Simple(), "The Dogs don't", "the dogs don"},
		{Bigrams(), "東京タワーに go 大", "東京 京タ タワ ワー ーに go 大"},
		{Bigrams(), "ABC東京", "abc 東京"},
		{English(), "the of and", ""},
	} {
		if got := strings.Join(c.a.Terms(c.text), " "); got != c.want {
			t.Errorf("%s: %q has the terms %q, want %q", c.a.Name(), c.text, got, c.want)
		}
	}
	long := strings.Repeat("x", maxTerm+1)
	if a, b := usable(long), usable(long+"y"); a == b || len(a) > maxTerm {
		t.Errorf("long terms become %q and %q", a, b)
	}
}

func entryOf(key string, value []byte) driver.MemoryEntry {
	return driver.MemoryEntry{Key: key, Value: value, Size: len(value)}
}
