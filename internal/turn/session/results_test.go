package session

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/store/driver"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// kept changes a session's results by a script: "+a1" puts an entry of the tool a, and "a1" uses it. At most two
// entries are kept. It returns the keys, least recently used first.
func kept(r *Results, words ...string) string {
	for _, w := range words {
		key, put := strings.CutPrefix(w, "+")
		if put {
			r.put(driver.CacheEntry{Key: key, Tool: key[:1], ExpiresAt: noon.Add(time.Hour)}, 2, noon)
		} else {
			r.use(key, noon)
		}
	}
	list := slices.SortedFunc(maps.Values(r.entries), func(a, b driver.CacheEntry) int { return a.UsedAt.Compare(b.UsedAt) })
	var keys []string
	for _, e := range list {
		keys = append(keys, e.Key)
	}
	return strings.Join(keys, " ")
}

// written returns the writes that the store has to make.
func written(r *Results) string {
	puts, drops := r.Writes()
	var words []string
	for _, e := range puts {
		words = append(words, "+"+e.Key)
	}
	for _, key := range drops {
		words = append(words, "-"+key)
	}
	return strings.Join(words, " ")
}

func TestResultsKeepTheMostRecentlyUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, words string // before is written already
		want, written string
	}{
		"one":                           {"", "+a1", "a1", "+a1"},
		"as many as fit":                {"", "+a1 +a2", "a1 a2", "+a1 +a2"},
		"one more, not yet written":     {"", "+a1 +a2 +a3", "a2 a3", "+a2 +a3"},
		"one more":                      {"+a1 +a2", "+a3", "a2 a3", "+a3 -a1"},
		"one more after a use":          {"+a1 +a2", "a1 +a3", "a1 a3", "+a1 +a3 -a2"},
		"one more, of another tool":     {"+a1 +a2", "+b1", "a2 b1", "+b1 -a1"},
		"one of each of three tools":    {"", "+a1 +b1 +c1", "b1 c1", "+b1 +c1"},
		"use of the latest":             {"+a1 +a2", "a2", "a1 a2", ""},
		"use of the latest of its tool": {"+a1 +b1", "a1", "b1 a1", "+a1"},
		"use of another":                {"+a1 +a2", "a1", "a2 a1", "+a1"},
		"use of what is not there":      {"+a1", "a2", "a1", ""},
		"once more":                     {"+a1 +a2", "+a1", "a2 a1", "+a1"},
		"dropped and put again":         {"+a1 +a2", "+a3 +a1", "a3 a1", "+a1 +a3 -a2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r Results
			kept(&r, strings.Fields(c.before)...)
			r.changed = nil
			if got := kept(&r, strings.Fields(c.words)...); got != c.want {
				t.Errorf("kept are %q, want %q", got, c.want)
			}
			if got := written(&r); got != c.written {
				t.Errorf("the store is told %q, want %q", got, c.written)
			}
		})
	}
}

func TestResultsAreGoodForATime(t *testing.T) {
	t.Parallel()
	r := newResults([]driver.CacheEntry{
		{Key: "a1", Tool: "a", UsedAt: noon, ExpiresAt: noon.Add(time.Minute)},
		{Key: "b1", Tool: "b", UsedAt: noon, ExpiresAt: noon.Add(time.Hour)}})
	for after, want := range map[time.Duration]bool{0: true, time.Minute - 1: true, time.Minute: false, time.Hour: false} {
		if _, got := r.Get("a1", noon.Add(after)); got != want {
			t.Errorf("after %s: %t, want %t", after, got, want)
		}
	}
	// Expired entries are dropped at the next put, whichever tool they belong to.
	r.put(driver.CacheEntry{Key: "b2", Tool: "b", ExpiresAt: noon.Add(time.Hour)}, 2, noon.Add(time.Minute))
	if got, want := written(&r), "+b2 -a1"; got != want {
		t.Errorf("the store is told %q, want %q", got, want)
	}
}

// After each commit, the store has what is in memory, and so does another process, whatever happened between commits.
func TestResultsAndTheStoreAgree(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var r Results
	stored := map[string]driver.CacheEntry{}
	now := noon
	for range 2000 {
		for range random.IntN(6) {
			tool := string("abc"[random.IntN(3)])
			key := fmt.Sprint(tool, random.IntN(6))
			if random.IntN(2) == 0 {
				r.put(driver.CacheEntry{Key: key, Tool: tool, ExpiresAt: now.Add(time.Duration(random.IntN(5)) * time.Minute)}, 1+random.IntN(3), now)
			} else {
				r.use(key, now)
			}
			now = now.Add(time.Duration(random.IntN(60)) * time.Second)
		}
		puts, drops := r.Writes()
		for _, e := range puts {
			stored[e.Key] = e
		}
		for _, key := range drops {
			if _, ok := stored[key]; !ok {
				t.Fatalf("%s is dropped, but was never stored", key)
			}
			delete(stored, key)
		}
		r.changed = nil
		if !maps.Equal(keysAndTimes(stored), keysAndTimes(r.entries)) {
			t.Fatalf("the store has %v, there is %v", stored, r.entries)
		}
		if random.IntN(10) == 0 {
			r = newResults(slices.Collect(maps.Values(stored)))
		}
	}
}

func keysAndTimes(entries map[string]driver.CacheEntry) map[string]time.Time {
	times := map[string]time.Time{}
	for key, e := range entries {
		times[key] = e.UsedAt
	}
	return times
}
