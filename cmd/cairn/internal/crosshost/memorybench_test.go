package crosshost

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/memory"
)

// zipfText returns texts of words as frequent as those of a language.
func zipfText(seed uint64) func(words int) string {
	rnd := rand.New(rand.NewPCG(seed, 1))
	zipf := rand.NewZipf(rnd, 1.07, 4, 50_000)
	return func(words int) string {
		list := make([]string, words)
		for i := range list {
			list[i] = fmt.Sprintf("w%dx", zipf.Uint64())
		}
		return strings.Join(list, " ")
	}
}

// fill adds memories of 8 to 25 words to a scope, in sessions of thirty.
func fill(b *testing.B, m *memory.Memory, scope memory.Scope, memories int) {
	b.Helper()
	text, rnd := zipfText(uint64(memories)), rand.New(rand.NewPCG(7, 7))
	list := make([]memory.Entry, 0, 100)
	for i := range memories {
		list = append(list, memory.Entry{Kind: memory.Said, Text: text(8 + rnd.IntN(18)), Speaker: []string{"Ann", "Bob"}[i%2],
			Source: memory.Source{Kind: memory.UserSaid, Session: fmt.Sprint("s", i/30), Position: i % 30}})
		if len(list) == cap(list) || i == memories-1 {
			if _, err := m.Add(b.Context(), scope, list...); err != nil {
				b.Fatal(err)
			}
			list = list[:0]
		}
	}
}

// BenchmarkMemorySearch measures searches of 5 and 20 words in one scope, and in one of a hundred scopes. p50-µs is the
// median.
func BenchmarkMemorySearch(b *testing.B) {
	for _, s := range memoryStores {
		for _, c := range []struct {
			name             string
			scopes, memories int
		}{{"1k", 1, 1000}, {"10k", 1, 10_000}, {"100k", 1, 100_000}, {"100x1k", 100, 1000}} {
			b.Run(s.name+"/"+c.name, func(b *testing.B) {
				m, err := memory.New(s.open(b), &memory.Options{MaxEntries: -1})
				if err != nil {
					b.Fatal(err)
				}
				started := time.Now()
				for i := range c.scopes {
					fill(b, m, memory.User(fmt.Sprint(i)), c.memories)
				}
				each := time.Since(started) / time.Duration(c.scopes*c.memories)
				for _, words := range []int{5, 20} {
					b.Run(fmt.Sprint(words, "words"), func(b *testing.B) {
						query := zipfText(99)
						var took []time.Duration
						for i := 0; b.Loop(); i++ {
							began := time.Now()
							if _, err := m.Search(b.Context(), memory.User(fmt.Sprint(i%c.scopes)), memory.Query{Text: query(words)}); err != nil {
								b.Fatal(err)
							}
							took = append(took, time.Since(began))
						}
						slices.Sort(took)
						b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
						b.ReportMetric(float64(each.Microseconds()), "add-µs")
					})
				}
			})
		}
	}
}
