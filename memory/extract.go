package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store/driver"
)

// ExtractInstructions are the default instructions for a model that extracts facts.
const ExtractInstructions = `You keep the long-term memory of an assistant. You are given what was said in one turn of a conversation, and the facts that the memory has about it. Return the new facts as JSON: {"facts": [...]}, an empty list if the turn has no new fact. A fact has:
- "text": a sentence that can be understood by itself, with names instead of pronouns and dates instead of words such as yesterday;
- "entity": the person or thing that it is about;
- "attribute": the property that it states, in one or two words, such as home, diet or order;
- "keys": other names of the entity, and one question that the fact answers;
- "replaces": the id of the known fact that is no longer true because of it, if there is one;
- "by": "user" or "assistant", the speaker of it.
Keep what will matter in later conversations: facts about the user, their wishes, decisions and dates. Leave out what the memory has already, greetings, and general knowledge. Return nothing but the JSON.`

// extracted is a fact as a model returns it.
type extracted struct {
	Text      string   `json:"text"`
	Entity    string   `json:"entity"`
	Attribute string   `json:"attribute"`
	Keys      []string `json:"keys"`
	Replaces  string   `json:"replaces"`
	By        string   `json:"by"`
}

const (
	// maxFacts limits how many facts a turn may have.
	maxFacts = 20
	// knownFacts limits how many known facts the model is shown.
	knownFacts = 40
)

// extract has facts taken from the texts of a turn, unless that was done before. Texts that are quarantined are left out:
// what a stranger wrote makes no facts.
func (m *Memory) extract(ctx context.Context, scope Scope, turn *cairn.EndedTurn, said []Entry) error {
	said = slices.DeleteFunc(slices.Clone(said), func(e Entry) bool { return e.State == Quarantined })
	if !slices.ContainsFunc(said, func(e Entry) bool { return e.Source.Kind == UserSaid }) {
		return nil
	}
	_, err := m.Get(ctx, scope, factID(turn, 0))
	if !errors.Is(err, cairn.ErrNotFound) {
		return err
	}
	cost := m.dailyCost(turn)
	if over, err := cost.reached(ctx); over || err != nil {
		return err
	}
	known, err := m.knownFacts(ctx, scope, said)
	if err != nil {
		return fmt.Errorf("find known facts: %w", err)
	}
	x := m.opts.Agent.Extract
	answer, usage, err := turn.Ask(ctx, x.Model, &cairn.Request{SessionID: turn.Session.ID, System: cmp.Or(x.Instructions, ExtractInstructions),
		Messages: []cairn.Message{cairn.User(cairn.TextPart(extractPrompt(said, known)))}})
	cost.add(ctx, usage, m.opts.Logger)
	if err != nil {
		return fmt.Errorf("extract facts: %w", err)
	}
	facts, err := parseFacts(answer)
	if err != nil { // another call would cost as much and may fail as well
		m.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "memory: no facts extracted from turn", slog.String("session", turn.Session.ID),
			slog.String("turn", turn.ID), slog.Any("error", err))
		return nil
	}
	list := m.facts(turn, said, known, facts)
	if len(list) == 0 {
		return nil
	}
	if list, err = m.addLearned(ctx, scope, turn, list); err != nil {
		return fmt.Errorf("keep facts: %w", err)
	}
	for i := range list {
		turn.Saved(list[i].ID, list[i].Text)
	}
	return nil
}

// factID returns the id of the n-th fact of a turn. It does not depend on the fact, so that a turn is extracted from once.
func factID(turn *cairn.EndedTurn, n int) string {
	return ids.Derive("mem", turn.Session.ID, turn.Session.Incarnation, turn.ID, "fact", fmt.Sprint(n))
}

// knownFacts returns the current facts about the entities that texts name, and those that fit the texts.
func (m *Memory) knownFacts(ctx context.Context, scope Scope, said []Entry) ([]Entry, error) {
	var texts []string
	for i := range said {
		texts = append(texts, said[i].Text)
	}
	text := strings.Join(texts, "\n")
	hits, err := m.Search(ctx, scope, Query{Text: text, Kind: Fact, Limit: knownFacts})
	if err != nil {
		return nil, err
	}
	var list []Entry
	have := map[string]bool{}
	keep := func(e *Entry) {
		if !have[e.ID] && len(list) < knownFacts {
			have[e.ID] = true
			list = append(list, *e)
		}
	}
	var entities []string
	for i := range hits {
		if name := hits[i].Entity; name != "" && !slices.Contains(entities, name) {
			entities = append(entities, name)
		}
		keep(&hits[i].MemoryEntry)
	}
	named, err := m.named(ctx, scope, text)
	if err != nil {
		return nil, err
	}
	for _, name := range append(named, entities...) {
		page, err := m.List(ctx, scope, ListQuery{Entity: name, Kind: Fact, Current: true, State: Active, Limit: knownFacts / 2})
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			keep(&page.Items[i])
		}
	}
	return list, nil
}

// named returns the entities of a scope that a text names, of the first thousand.
func (m *Memory) named(ctx context.Context, scope Scope, text string) (list []string, err error) {
	page, err := m.Entities(ctx, scope, driver.PageQuery{Limit: 1000})
	if err != nil {
		return nil, err
	}
	text = " " + plain(text) + " "
	for i := range page.Items {
		if name := page.Items[i].Name; strings.Contains(text, " "+plain(name)+" ") && len(list) < 10 {
			list = append(list, name)
		}
	}
	return list, nil
}

// extractPrompt is the message to the model that extracts facts.
func extractPrompt(said, known []Entry) string {
	var b strings.Builder
	b.WriteString("Known facts:")
	if len(known) == 0 {
		b.WriteString(" none.")
	}
	for i := range known {
		fmt.Fprintf(&b, "\n- %s (%s, %s): %s", known[i].ID, cmp.Or(known[i].Entity, "-"), cmp.Or(known[i].Attribute, "-"), line(&known[i]))
	}
	b.WriteString("\n\nThe turn:")
	for i := range said {
		fmt.Fprintf(&b, "\n%s %s: %s", said[i].ValidFrom.UTC().Format("2006-01-02"), said[i].Speaker, said[i].Text)
	}
	return b.String()
}

// parseFacts reads the answer of a model, which may have text around the JSON.
func parseFacts(answer string) ([]extracted, error) {
	var reply struct {
		Facts []extracted `json:"facts"`
	}
	err := decodeAnswer(answer, &reply)
	return reply.Facts, err
}

// facts returns the entries of facts that are new. Parts of a fact that cannot be kept are left out.
func (m *Memory) facts(turn *cairn.EndedTurn, said, known []Entry, facts []extracted) []Entry {
	have := map[string]bool{}
	for i := range known {
		have[plain(known[i].Text)] = true
	}
	var list []Entry
	for _, f := range facts {
		text := Cut(strings.TrimSpace(f.Text), m.opts.MaxCharacters)
		if text == "" || have[plain(text)] || len(list) == maxFacts {
			continue
		}
		have[plain(text)] = true
		about := said[0]
		for _, e := range said {
			if (e.Source.Kind == UserSaid) == (f.By != "assistant") {
				about = e
			}
		}
		e := Entry{ID: factID(turn, len(list)), Kind: Fact, Text: text, Entity: clip(f.Entity), Attribute: clip(f.Attribute),
			Keys: keysOf(f.Keys), Source: about.Source, About: about.ID, ValidFrom: about.ValidFrom}
		if slices.ContainsFunc(known, func(k Entry) bool { return k.ID == f.Replaces }) {
			e.Supersedes = []string{f.Replaces}
		}
		list = append(list, e)
	}
	return list
}

// plain returns a text without the differences that make no other fact.
func plain(text string) string { return strings.Join(words(text), " ") }

// clip returns a name that an entry can have.
func clip(name string) string {
	name = strings.TrimSpace(name)
	for len(name) > maxName {
		name = Cut(name, len([]rune(name))-1)
	}
	return name
}
