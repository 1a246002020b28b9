package memory_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/cairn-agents/cairn/memory"
)

// recallSeed is the seed of the set on which recall is measured.
const recallSeed = 20

// The set has the properties that decide searches of long conversations between two people: facts that are said in one
// turn, or asked for and answered in two; other turns with the same words, by the same person or the other one; questions
// that use some of the words and paraphrase others. Words are invented, so nothing is found by knowledge of a language.
// The figures below were chosen so that plain BM25 finds as many turns as in a public set.
const (
	sessionsOfUser = 20 // conversations of a user
	turnsOfSession = 26
	factsOfSession = 3
	topicsOfUser   = 16
	wordsOfTopic   = 14
	objectsOfUser  = 60 // words that facts of a user share
	pAnswered      = 0.35
	pSpread        = 0.15
	pKeep          = 0.35 // that a question has a word of its fact
	pOther         = 0.9  // that the other person says something with the same words
	pSame          = 0.8  // that the person does so elsewhere
	pTopic         = 0.5  // that a question has another word of the conversation's topic
)

// question asks for a fact. evidence has the ids of the turns that answer it.
type question struct {
	class    string
	text     string
	evidence []string
}

// user is a scope of the set.
type user struct {
	scope     memory.Scope
	turns     []memory.Entry
	questions []question
}

// generator makes users. Each depends on the seed and its number only.
type generator struct {
	*rand.Rand
	general []string
	u       *user
	objects []string
	people  [2]string
}

// word returns an invented word.
func (g *generator) word() string {
	var b strings.Builder
	for range 2 + g.IntN(2) {
		b.WriteByte("bdfgklmnprtvz"[g.IntN(13)])
		b.WriteByte("aeiou"[g.IntN(5)])
	}
	return b.String() + string("klmnrtx"[g.IntN(7)])
}

func (g *generator) words(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = g.word()
	}
	return list
}

func (g *generator) pick(list []string) string { return list[g.IntN(len(list))] }

func (g *generator) chance(p float64) bool { return g.Float64() < p }

// common returns a word that many turns have; few words are most of them.
func (g *generator) common() string {
	x := g.Float64()
	return g.general[int(x*x*x*float64(len(g.general)))]
}

var grammar = strings.Fields("the a and to of in is it that was for on with so we you my have but not")

// sentence mixes words with words of grammar and common ones.
func (g *generator) sentence(words []string, noise int) string {
	list := append([]string{}, words...)
	for range noise {
		list = append(list, g.common())
	}
	g.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	var out []string
	for _, w := range list {
		if g.chance(0.6) {
			out = append(out, g.pick(grammar))
		}
		out = append(out, w)
	}
	return strings.Join(out, " ") + "."
}

// planted is a fact with its words, its speaker and its turn.
type planted struct {
	words   []string
	topic   []string
	speaker string
	id      string
}

// newUser makes one user with all conversations.
func newUser(number int) *user {
	g := &generator{Rand: rand.New(rand.NewPCG(recallSeed, uint64(number)))}
	g.u = &user{scope: memory.User(fmt.Sprint("user ", number))}
	g.general, g.objects = g.words(220), g.words(objectsOfUser)
	g.people = [2]string{g.word(), g.word()}
	topics := make([][]string, topicsOfUser)
	for i := range topics {
		topics[i] = g.words(wordsOfTopic)
	}
	var facts []planted
	for s := range sessionsOfUser {
		facts = append(facts, g.session(s, topics[g.IntN(len(topics))])...)
	}
	for _, f := range facts {
		g.distract(f)
	}
	g.ask(facts)
	return g.u
}

// session adds a conversation about a topic, and plants facts in it.
func (g *generator) session(number int, topic []string) (facts []planted) {
	texts := make([]string, turnsOfSession)
	for i := range texts {
		var words []string
		for range g.IntN(4) {
			words = append(words, g.pick(topic))
		}
		texts[i] = g.sentence(words, 2+g.IntN(4))
		if g.chance(0.2) {
			texts[i] = strings.TrimSuffix(texts[i], ".") + "?"
		}
	}
	for n := range factsOfSession {
		at := 2 + n*(turnsOfSession/factsOfSession) + g.IntN(turnsOfSession/factsOfSession-3)
		f := planted{words: []string{g.pick(topic), g.pick(topic), g.pick(g.objects), g.pick(g.objects)}, topic: topic, speaker: g.people[at%2]}
		f.id = fmt.Sprintf("s%d-%d", number, at)
		switch x := g.Float64(); {
		case x < pAnswered: // the other person asks
			texts[at-1] = strings.TrimSuffix(g.sentence(f.words[:3], 1), ".") + "?"
			texts[at] = g.sentence([]string{f.words[3], g.word()}, 2)
		case x < pAnswered+pSpread: // said over several turns
			texts[at-1] = g.sentence(f.words[:2], 2)
			texts[at] = g.sentence(f.words[1:3], 2)
			texts[at+1] = g.sentence(f.words[3:], 2)
		default:
			texts[at] = g.sentence(f.words, 2+g.IntN(4))
		}
		facts = append(facts, f)
	}
	for i, text := range texts {
		g.u.turns = append(g.u.turns, memory.Entry{ID: fmt.Sprintf("s%d-%d", number, i), Kind: memory.Said, Text: text, Speaker: g.people[i%2],
			Source: memory.Source{Kind: memory.UserSaid, Session: fmt.Sprint("s", number), Position: i}})
	}
	return facts
}

// distract replaces turns that are no evidence by turns with words of a fact.
func (g *generator) distract(f planted) {
	for _, same := range [2]bool{false, true} {
		p := pOther
		if same {
			p = pSame
		}
		if !g.chance(p) {
			continue
		}
		for range 20 {
			t := &g.u.turns[g.IntN(len(g.u.turns))]
			if (t.Speaker == f.speaker) != same || t.ID == f.id || strings.HasPrefix(f.id, t.Source.Session+"-") != same {
				continue
			}
			words := append([]string{}, f.words...)
			g.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
			n := 2
			if !same {
				n = 2 + g.IntN(2)
			}
			t.Text = g.sentence(words[:n], 1+g.IntN(3))
			break
		}
	}
}

// ask adds questions about facts whose turns are still as they were.
func (g *generator) ask(facts []planted) {
	texts := map[string]string{}
	for _, t := range g.u.turns {
		texts[t.ID] = t.Text
	}
	facts = g.intact(facts, texts)
	for i, f := range facts {
		switch i % 4 {
		case 0, 1:
			g.question("single", "What about", f)
		case 2:
			g.question("temporal", "When was it that", f)
		default:
			g.question("multi", "What do both say about", f, facts[g.IntN(len(facts))])
		}
	}
	for range len(facts) / 8 {
		g.question("abstention", "What about", planted{words: []string{g.word(), g.common(), g.pick(g.objects), g.word()}, speaker: g.people[0]})
	}
}

// intact returns the facts whose last word is still in the place where it was planted, or near it.
func (g *generator) intact(facts []planted, texts map[string]string) (list []planted) {
	for _, f := range facts {
		if strings.Contains(texts[f.id], f.words[3]) || strings.Contains(texts[f.id], f.words[2]) {
			list = append(list, f)
		}
	}
	return list
}

func (g *generator) question(class, how string, facts ...planted) {
	q := question{class: class}
	words := []string{how, facts[0].speaker}
	for _, f := range facts {
		n := len(words)
		for _, w := range f.words {
			switch {
			case g.chance(pKeep):
				words = append(words, w)
			case g.chance(0.4): // a paraphrase
				words = append(words, g.word())
			}
		}
		if g.chance(pTopic) && len(f.topic) > 0 {
			words = append(words, g.pick(f.topic))
		}
		if len(words) == n {
			words = append(words, f.words[2])
		}
		if f.id != "" {
			q.evidence = append(q.evidence, f.id)
		}
	}
	q.text = strings.Join(words, " ") + "?"
	g.u.questions = append(g.u.questions, q)
}
