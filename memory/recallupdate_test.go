package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/store/memstore"
)

// attribute is a property of a person, with the wordings of statements and questions about it. %s is the person, then the
// value.
type attribute struct {
	name      string
	names     []string // other names of it
	texts     []string
	questions []string
}

var attributes = []attribute{
	{"home", []string{"address", "city"}, []string{"%s lives in %s", "%s moved to %s", "%s has found a flat in %s", "%s settled down in %s", "%s calls %s home"},
		[]string{"Where does %s live now?", "Which city is %s's home?", "What is the address of %s?"}},
	{"job", []string{"profession", "living"}, []string{"%s works as a %s", "%s was hired as a %s", "%s has become a %s", "%s earns money as a %s", "%s got a post as %s"},
		[]string{"What is the job of %s?", "What does %s do for a living?", "What is %s's profession?"}},
	{"pet", []string{"animal", "companion"}, []string{"%s has a pet called %s", "%s adopted %s from the shelter", "%s walks %s each morning", "%s feeds %s", "%s brought %s home"},
		[]string{"Which animal does %s keep?", "What is the name of %s's pet?", "Which companion does %s have?"}},
	{"drink", []string{"beverage", "favourite"}, []string{"%s likes %s best", "%s switched to %s", "%s orders %s these days", "%s cannot do without %s", "%s asks for %s"},
		[]string{"What does %s like to drink?", "What is %s's favourite beverage?", "Which drink does %s order?"}},
	{"car", []string{"vehicle", "wheels"}, []string{"%s drives a %s", "%s bought a %s", "%s parks a %s outside", "%s got the keys of a %s", "%s now has a %s"},
		[]string{"Which car does %s drive?", "What is %s's vehicle?", "What wheels does %s have?"}},
}

// updates is a set of facts that were updated one to four times.
type updates struct {
	facts     [][]memory.Entry // versions, the newest last
	questions []string
}

// newUpdates makes 500 facts about 100 people. Hinted entries have the attribute, two other names of it and a likely
// question, as one who extracts facts can add them.
func newUpdates(hinted bool) *updates {
	g := &generator{Rand: rand.New(rand.NewPCG(recallSeed, 1<<40))}
	u := &updates{}
	for p := range 100 {
		person := g.word() + fmt.Sprint(string(rune('a'+p%26)))
		for _, a := range attributes {
			var versions []memory.Entry
			wording := g.Perm(len(a.texts))
			for v := range 2 + g.IntN(4) {
				e := memory.Entry{ID: fmt.Sprintf("%s-%s-%d", person, a.name, v), Text: fmt.Sprintf(a.texts[wording[v]], person, g.word()), Entity: person,
					Source: memory.Source{Kind: memory.AgentInferred}, ValidFrom: time.Date(2020+v, 1, 1+p%28, 0, 0, 0, 0, time.UTC)}
				if hinted {
					q := a.questions[g.IntN(len(a.questions))]
					e.Attribute = a.name
					e.Keys = append([]string{fmt.Sprintf(q, person)}, a.names...)
				}
				versions = append(versions, e)
			}
			u.facts = append(u.facts, versions)
			u.questions = append(u.questions, fmt.Sprintf(a.questions[g.IntN(len(a.questions))], person))
		}
	}
	return u
}

// TestRecallOfUpdates asks for facts that were updated. Each version supersedes the one before, except for lost links.
func TestRecallOfUpdates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		hinted      bool
		lost        float64
		first, five float64 // at least
		stale       float64 // at most
	}{
		{"links", false, 0, 0, 0, 0},
		{"links and hints", true, 0, 0.93, 0.97, 0},
		{"5 % of links lost", true, 0.05, 0, 0, 1},
		{"no links", true, 1, 0, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, err := memory.New(memstore.New(nil), nil)
			if err != nil {
				t.Fatal(err)
			}
			scope, u := memory.User("ann"), newUpdates(c.hinted)
			rnd := rand.New(rand.NewPCG(recallSeed, 2))
			for _, versions := range u.facts {
				for v := range versions {
					if v > 0 && rnd.Float64() >= c.lost {
						versions[v].Supersedes = []string{versions[v-1].ID}
					}
				}
				if _, err := m.Add(t.Context(), scope, versions...); err != nil {
					t.Fatal(err)
				}
			}
			first, five, stale := 0.0, 0.0, 0.0
			for i, text := range u.questions {
				hits, err := m.Search(context.Background(), scope, memory.Query{Text: text, Limit: 5})
				if err != nil {
					t.Fatal(err)
				}
				newest := u.facts[i][len(u.facts[i])-1].ID
				of := newest[:strings.LastIndex(newest, "-")]
				for n := range hits {
					switch {
					case hits[n].ID == newest:
						five++
						if n == 0 {
							first++
						}
					case n == 0 && strings.HasPrefix(hits[n].ID, of+"-"):
						stale++
					}
				}
			}
			n := float64(len(u.questions))
			t.Logf("newest first %.3f, newest in 5 %.3f, stale first %.3f", first/n, five/n, stale/n)
			if first/n < c.first || five/n < c.five || stale/n > c.stale {
				t.Errorf("newest first %.3f, in 5 %.3f, stale first %.3f; want %.2f, %.2f, at most %.2f", first/n, five/n, stale/n, c.first, c.five, c.stale)
			}
		})
	}
}

// TestRecallOfNothing compares how much of a query the hits cover, for questions with and without an answer. Cover says
// which of two questions has one, better than chance.
func TestRecallOfNothing(t *testing.T) {
	t.Parallel()
	m, err := memory.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	var answered, nothing []float64
	for i := range 5 {
		u := newUser(i)
		for part := range slices.Chunk(u.turns, 100) {
			if _, err := m.Add(t.Context(), u.scope, part...); err != nil {
				t.Fatal(err)
			}
		}
		for _, q := range u.questions {
			hits, err := m.Search(t.Context(), u.scope, memory.Query{Text: q.text, Limit: 5, Explain: true})
			if err != nil {
				t.Fatal(err)
			}
			cover := 0.0
			for _, h := range hits {
				cover = max(cover, h.Explain.Cover)
			}
			if q.class == "abstention" {
				nothing = append(nothing, cover)
			} else {
				answered = append(answered, cover)
			}
		}
	}
	right := 0.0
	for _, a := range answered {
		for _, b := range nothing {
			switch {
			case a > b:
				right++
			case a == b:
				right += 0.5
			}
		}
	}
	auc := right / float64(len(answered)*len(nothing))
	if auc <= 0.5 {
		t.Errorf("AUC %.3f is no better than chance", auc)
	}
	t.Logf("cover of %d answered and %d other questions: AUC %.3f", len(answered), len(nothing), auc)
}
