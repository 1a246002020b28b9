package memory_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/store/memstore"
)

// recallUsers is how many users the set has: 2,000 conversations in a soak, else a tenth.
func recallUsers() int {
	if os.Getenv("CAIRN_SOAK") != "" {
		return 100
	}
	return 10
}

// figures count how often the first piece of evidence was among the first hits.
type figures struct {
	n, first, five, ten, session int
	reciprocal                   float64
}

// results are figures by class; that of "all" leaves out abstention.
type results map[string]*figures

func (r results) add(class string, at, session int) {
	for _, name := range []string{class, "all"} {
		f := r[name]
		if f == nil {
			f = &figures{}
			r[name] = f
		}
		f.n++
		for _, x := range [...]struct {
			count *int
			is    bool
		}{{&f.first, at < 1}, {&f.five, at < 5}, {&f.ten, at < 10}, {&f.session, session < 5}} {
			if x.is {
				*x.count++
			}
		}
		f.reciprocal += 1 / float64(at+1)
	}
}

func (f *figures) rate(count int) float64 { return float64(count) / float64(max(1, f.n)) }

func (r results) String() string {
	var b strings.Builder
	for _, class := range []string{"all", "single", "multi", "temporal"} {
		if f := r[class]; f != nil {
			fmt.Fprintf(&b, "  %-9s n=%-5d hit@1 %.3f @5 %.3f @10 %.3f MRR %.3f session@5 %.3f\n", class, f.n, f.rate(f.first), f.rate(f.five), f.rate(f.ten),
				f.reciprocal/float64(f.n), f.rate(f.session))
		}
	}
	return b.String()
}

// never is the place of evidence that was not found.
const never = math.MaxInt32

// places returns the place of the first evidence in a ranking, and of its session among the sessions.
func places(q question, ranked []string) (at, session int) {
	at, session = never, never
	var sessions []string
	sessionOf := func(id string) string { s, _, _ := strings.Cut(id, "-"); return s }
	for i, id := range ranked {
		if at == never && slices.Contains(q.evidence, id) {
			at = i
		}
		for _, e := range q.evidence {
			if session == never && sessionOf(e) == sessionOf(id) {
				session = len(sessions)
				if n := slices.Index(sessions, sessionOf(id)); n >= 0 {
					session = n
				}
			}
		}
		if !slices.Contains(sessions, sessionOf(id)) {
			sessions = append(sessions, sessionOf(id))
		}
	}
	return at, session
}

// ranking returns the ids of turns for a question, best first.
type ranking func(u *user, q question) []string

// measure asks all questions.
func measure(users []*user, rank ranking) results {
	r := results{}
	for _, u := range users {
		for _, q := range u.questions {
			if len(q.evidence) > 0 {
				at, session := places(q, rank(u, q))
				r.add(q.class, at, session)
			}
		}
	}
	return r
}

// plain is an inverted index with BM25 (k1 1.2, b 0.75) over stems of speaker and text, without stop words.
type plain struct {
	docs   []map[string]int
	length []float64
	df     map[string]float64
	mean   float64
}

func newPlain(u *user) *plain {
	p := &plain{df: map[string]float64{}}
	for i := range u.turns {
		counts, n := map[string]int{}, 0.0
		for _, term := range memory.English().Terms(u.turns[i].Speaker + " " + u.turns[i].Text) {
			if counts[term] == 0 {
				p.df[term]++
			}
			counts[term]++
			n++
		}
		p.docs, p.length, p.mean = append(p.docs, counts), append(p.length, n), p.mean+n/float64(len(u.turns))
	}
	return p
}

func (p *plain) scores(text string) []float64 {
	out := make([]float64, len(p.docs))
	terms := memory.English().Terms(text)
	for i, doc := range p.docs {
		for _, term := range terms {
			if tf := float64(doc[term]); tf > 0 {
				out[i] += math.Log(1+(float64(len(p.docs))-p.df[term]+0.5)/(p.df[term]+0.5)) * tf * 2.2 / (tf + 1.2*(0.25+0.75*p.length[i]/p.mean))
			}
		}
	}
	return out
}

// best returns the ids of turns with a positive score, best first.
func best(u *user, scores []float64) []string {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	var ids []string
	for _, i := range order {
		if scores[i] > 0 {
			ids = append(ids, u.turns[i].ID)
		}
	}
	return ids
}

// searched ranks by a memory in a store of its own.
func searched(t *testing.T, users []*user, opts *memory.Options) ranking {
	m, err := memory.New(memstore.New(nil), opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range users {
		for part := range slices.Chunk(u.turns, 100) {
			if _, err := m.Add(t.Context(), u.scope, part...); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := m.Embed(t.Context(), u.scope); err != nil {
			t.Fatal(err)
		}
	}
	return func(u *user, q question) (ids []string) {
		hits, err := m.Search(context.Background(), u.scope, memory.Query{Text: q.text, Limit: 60})
		if err != nil {
			t.Fatal(err)
		}
		for i := range hits {
			ids = append(ids, hits[i].ID)
		}
		return ids
	}
}

func TestRecall(t *testing.T) {
	t.Parallel()
	var users []*user
	indexes := map[*user]*plain{}
	for i := range recallUsers() {
		u := newUser(i)
		users = append(users, u)
		indexes[u] = newPlain(u)
	}
	reference := measure(users, func(u *user, q question) []string { return best(u, indexes[u].scores(q.text)) })
	t.Logf("plain BM25\n%s", reference)
	all := reference["all"]
	if r := all.rate(all.five); r < 0.56 || r > 0.61 {
		t.Errorf("plain BM25 finds %.3f of the turns at 5: the set is not like the public one", r)
	}
	text := measure(users, searched(t, users, nil))
	t.Logf("search by text\n%s", text)
	all = text["all"]
	if turn, session := all.rate(all.five), all.rate(all.session); turn < 0.74 || session < 0.90 {
		t.Errorf("search by text finds %.3f of the turns and %.3f of the sessions at 5, want 0.74 and 0.90", turn, session)
	}
}
