package memory_test

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/memory/memorytest"
)

const simulatedDimensions = 96

// directions remembers vectors of texts, which all simulated embedders share.
type directions map[string][]float64

func (d directions) of(text string) []float64 {
	v := d[text]
	if v == nil {
		v = direction(text)
		d[text] = v
	}
	return v
}

// direction returns a vector that depends on a text only, in any direction.
func direction(text string) []float64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	rnd := rand.New(rand.NewPCG(h.Sum64(), recallSeed))
	v := make([]float64, simulatedDimensions)
	for i := range v {
		v[i] = rnd.NormFloat64() / math.Sqrt(simulatedDimensions)
	}
	return v
}

func addTo(v, other []float64, weight float64) {
	for i := range v {
		v[i] += weight * other[i]
	}
}

func floats(v []float64) []float32 {
	out := make([]float32, len(v))
	for i := range v {
		out[i] = float32(v[i])
	}
	return out
}

// simulated returns an embedder that knows the answers: a question's vector is noise with a part of the vectors of its
// evidence, and half of that of the turns beside it. It knows nothing of words. A part of 0 is pure noise.
func simulated(d directions, users []*user, part float64) *memorytest.Embedder {
	vectors := map[string][]float32{}
	for _, u := range users {
		at := map[string]int{}
		for i := range u.turns {
			at[u.turns[i].ID] = i
			text := u.turns[i].Speaker + ": " + u.turns[i].Text
			vectors[text] = floats(d.of(u.scope.Name + text))
		}
		for _, q := range u.questions {
			v := slices.Clone(d.of(u.scope.Name + "?" + q.text))
			for _, id := range q.evidence {
				for beside := -1; beside <= 1; beside++ {
					i := at[id] + beside
					if i < 0 || i >= len(u.turns) || u.turns[i].Source.Session != u.turns[at[id]].Source.Session {
						continue
					}
					weight := part
					if beside != 0 {
						weight /= 2
					}
					addTo(v, d.of(u.scope.Name+u.turns[i].Speaker+": "+u.turns[i].Text), weight/math.Sqrt(float64(len(q.evidence))))
				}
			}
			vectors[q.text] = floats(v)
		}
	}
	return &memorytest.Embedder{Name: "simulated", Vector: func(text string) []float32 { return vectors[text] }}
}

// hashed returns an embedder of hashed runs of three to five characters: a weak one that needs no model.
func hashed() *memorytest.Embedder {
	const dimensions = 256
	return &memorytest.Embedder{Name: "hashed", Vector: func(text string) []float32 {
		v := make([]float32, dimensions)
		for n := 3; n <= 5; n++ {
			for i := 0; i+n <= len(text); i++ {
				h := fnv.New32a()
				h.Write([]byte(text[i : i+n]))
				if sum := h.Sum32(); sum>>31 == 0 {
					v[sum%dimensions]++
				} else {
					v[sum%dimensions]--
				}
			}
		}
		v[0] += 1e-3 // no text is without a direction
		return v
	}}
}

// comparer has the cosines of each question and all turns of its user, which two rankings use.
type comparer struct {
	e     *memorytest.Embedder
	turns map[*user][][]float32
	found map[string][]float64 // by user and question
}

func newComparer(users []*user, e *memorytest.Embedder) *comparer {
	c := &comparer{e: e, turns: map[*user][][]float32{}, found: map[string][]float64{}}
	for _, u := range users {
		for i := range u.turns {
			c.turns[u] = append(c.turns[u], normal(e.Vector(u.turns[i].Speaker+": "+u.turns[i].Text)))
		}
	}
	return c
}

// normal returns a vector of length 1 with the same direction.
func normal(v []float32) []float32 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	out := make([]float32, len(v))
	for i := range v {
		out[i] = float32(float64(v[i]) / math.Sqrt(sum))
	}
	return out
}

func (c *comparer) cosines(u *user, q question) []float64 {
	key := u.scope.Name + "?" + q.text
	if out := c.found[key]; out != nil {
		return out
	}
	a := normal(c.e.Vector(q.text))
	out := make([]float64, len(u.turns))
	for i, b := range c.turns[u] {
		var sum float32
		for j := range a {
			sum += a[j] * b[j]
		}
		out[i] = float64(sum)
	}
	c.found[key] = out
	return out
}

// similarityFirst ranks as a published memory does: the eighty most similar turns above a threshold, by the mean of the
// similarity and a sigmoid of BM25. A turn that is not similar is never found.
func similarityFirst(indexes map[*user]*plain, c *comparer) ranking {
	return func(u *user, q question) []string {
		cos, bm := c.cosines(u, q), indexes[u].scores(q.text)
		sorted := slices.Sorted(slices.Values(cos))
		threshold := max(0.1, sorted[max(0, len(sorted)-80)])
		words := len(memory.English().Terms(q.text))
		middle := []float64{5, 5, 5, 7, 7, 9, 9, 10, 10, 12}[min(words, 9)]
		scores := make([]float64, len(cos))
		for i := range cos {
			if cos[i] >= threshold {
				scores[i] = (cos[i] + 1/(1+math.Exp(-0.7*(bm[i]-middle)))) / 2
			}
		}
		return best(u, scores)
	}
}

// TestRecallWithVectors compares searches with and without vectors. Users are fewer than in TestRecall, since vectors take
// time.
func TestRecallWithVectors(t *testing.T) {
	t.Parallel()
	var users []*user
	indexes := map[*user]*plain{}
	for i := range max(3, recallUsers()/5) {
		u := newUser(i)
		users = append(users, u)
		indexes[u] = newPlain(u)
	}
	known := directions{}
	text := measure(users, searched(t, users, nil))
	t.Logf("text\n%s", text)
	for _, c := range []struct {
		name   string
		e      *memorytest.Embedder
		worse  float64 // than text at 5, at most, over all
		better bool    // it must not be worse in any class
	}{
		{"noise", simulated(known, users, 0), 0.01, false},
		{"simulated, weak", simulated(known, users, 0.20), 0, true},
		{"simulated, middling", simulated(known, users, 0.26), 0, true},
		{"simulated, good", simulated(known, users, 0.33), 0, true},
		{"hashed", hashed(), 1, false},
	} {
		compare := newComparer(users, c.e)
		alone := measure(users, func(u *user, q question) []string { return best(u, compare.cosines(u, q)) })["all"]
		reference := measure(users, similarityFirst(indexes, compare))["all"]
		fused := measure(users, searched(t, users, &memory.Options{Embedder: c.e}))
		t.Logf("%s: alone hit@5 %.3f, similarity first %.3f\n%s", c.name, alone.rate(alone.five), reference.rate(reference.five), fused)
		if f, base := fused["all"], text["all"]; f.rate(f.five) < base.rate(base.five)-c.worse {
			t.Errorf("%s: hit@5 %.3f, by text %.3f", c.name, f.rate(f.five), base.rate(base.five))
		}
		if !c.better {
			continue
		}
		if alone.rate(alone.five) < 0.28 {
			t.Errorf("%s finds %.3f alone, less than 0.28", c.name, alone.rate(alone.five))
		}
		for class, f := range fused {
			if base := text[class]; f.five < base.five {
				t.Errorf("%s: hit@5 of %s is %.3f, by text %.3f", c.name, class, f.rate(f.five), base.rate(base.five))
			}
		}
	}
}
