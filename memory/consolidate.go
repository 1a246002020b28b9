package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// ConsolidateInstructions are the instructions for a model that merges facts.
const ConsolidateInstructions = `You keep the long-term memory of an assistant. You are given facts with their ids, by the person or thing that they are about. Merge facts that say the same, and facts that are parts of one statement. Return JSON: {"merged": [...]}, an empty list if nothing can be merged. An item has:
- "ids": the ids of the facts that it replaces, at least two, all about the same person or thing;
- "text": one sentence that says all that is true of them, and can be understood by itself;
- "attribute": the property that it states, in one or two words;
- "keys": other names of the person or thing, and one question that the text answers.
Where facts contradict each other, the newest is true. Add nothing that they do not say. Leave out facts that stay as they are. Return nothing but the JSON.`

// maxConsolidated limits how many facts the model is shown.
const maxConsolidated = 100

// merged is a fact as a model returns it, with the facts that it replaces.
type merged struct {
	IDs       []string `json:"ids"`
	Text      string   `json:"text"`
	Attribute string   `json:"attribute"`
	Keys      []string `json:"keys"`
}

// consolidate has facts of a scope merged, once a day. The facts that it merges stay as earlier versions. If two processes
// do it at the same time, what the slower one finds is dropped.
func (m *Memory) consolidate(ctx context.Context, scope Scope, turn *cairn.EndedTurn) error {
	var last, now time.Time
	err := m.view(ctx, scope, func(t *tx) error {
		last, now = time.UnixMicro(t.head.Consolidated), t.now
		return nil
	})
	if err != nil || sameDay(last, now) {
		return err
	}
	facts, err := m.mergeable(ctx, scope, last)
	if err != nil {
		return err
	}
	var list []merged
	if len(facts) > 0 {
		cost := m.dailyCost(turn)
		if over, err := cost.reached(ctx); over || err != nil {
			return err
		}
		x := m.opts.Agent.Extract
		answer, usage, err := turn.Ask(ctx, x.Model, &cairn.Request{SessionID: turn.Session.ID, System: ConsolidateInstructions,
			Messages: []cairn.Message{cairn.User(cairn.TextPart(consolidatePrompt(facts)))}})
		cost.add(ctx, usage, m.opts.Logger)
		if err != nil {
			return err
		}
		if list, err = parseMerged(answer); err != nil { // another call would cost as much and may fail as well
			m.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "memory: no facts merged", slog.String("session", turn.Session.ID), slog.Any("error", err))
		}
	}
	added, err := m.addMerged(ctx, scope, turn, now, m.mergedFacts(turn, scope, facts, list))
	for i := range added {
		turn.Saved(added[i].ID, added[i].Text)
	}
	return err
}

func sameDay(a, b time.Time) bool {
	return a.UTC().Format(time.DateOnly) == b.UTC().Format(time.DateOnly)
}

// mergeable returns the current facts about each entity that has several of them, one of them stored at a time or later, ordered
// by entity. Facts that come from results of tools are left out: a merged fact would hide where they come from.
func (m *Memory) mergeable(ctx context.Context, scope Scope, after time.Time) ([]Entry, error) {
	var entities []string // the newest first
	of, news := map[string][]Entry{}, map[string]bool{}
	for e, err := range m.All(ctx, scope, ListQuery{Kind: Fact, Current: true, State: Active}) {
		if err != nil {
			return nil, err
		}
		name := fold(e.Entity)
		if name == "" || e.Source.Kind == ToolReturned {
			continue
		}
		if of[name] == nil {
			entities = append(entities, name)
		}
		of[name] = append(of[name], *e)
		news[name] = news[name] || !e.StoredAt.Before(after)
	}
	var list []Entry
	for _, name := range entities {
		if facts := of[name]; len(facts) > 1 && news[name] && len(list) < maxConsolidated-1 {
			list = append(list, facts[:min(len(facts), maxConsolidated-len(list))]...)
		}
	}
	return list, nil
}

// consolidatePrompt is the message to the model that merges facts.
func consolidatePrompt(facts []Entry) string {
	var b strings.Builder
	entity := ""
	for i := range facts {
		if name := fold(facts[i].Entity); name != entity {
			entity = name
			fmt.Fprintf(&b, "About %s:\n", facts[i].Entity)
		}
		fmt.Fprintf(&b, "- %s (%s): %s\n", facts[i].ID, cmp.Or(facts[i].Attribute, "-"), line(&facts[i]))
	}
	return b.String()
}

// parseMerged reads the answer of a model, which may have text around the JSON.
func parseMerged(answer string) ([]merged, error) {
	var reply struct {
		Merged []merged `json:"merged"`
	}
	err := decodeAnswer(answer, &reply)
	return reply.Merged, err
}

// decodeAnswer decodes the JSON object in the answer of a model.
func decodeAnswer(answer string, into any) error {
	from, to := strings.IndexByte(answer, '{'), strings.LastIndexByte(answer, '}')
	if from < 0 || to < from {
		return cairn.Errorf(cairn.ErrModelReply, "the model returned no JSON")
	}
	if err := json.Unmarshal([]byte(answer[from:to+1]), into); err != nil {
		return cairn.Errorf(cairn.ErrModelReply, "the model returned malformed JSON: %w", err)
	}
	return nil
}

// mergedFacts returns the entries of merged facts. Those that do not replace at least two of the facts that the model was
// shown, about one entity and not replaced by an earlier item, are left out.
func (m *Memory) mergedFacts(turn *cairn.EndedTurn, scope Scope, facts []Entry, list []merged) []Entry {
	shown := map[string]*Entry{}
	for i := range facts {
		shown[facts[i].ID] = &facts[i]
	}
	var out []Entry
	for _, item := range list {
		text := Cut(strings.TrimSpace(item.Text), m.opts.MaxCharacters)
		replaced := slices.Compact(slices.Sorted(slices.Values(item.IDs)))
		if text == "" || len(replaced) < 2 || len(out) == maxBatch {
			continue
		}
		first := shown[replaced[0]]
		if slices.ContainsFunc(replaced, func(id string) bool {
			return shown[id] == nil || fold(shown[id].Entity) != fold(first.Entity)
		}) {
			continue
		}
		e := Entry{ID: ids.Derive("mem", append([]string{"merged", string(scope.Kind), scope.Name, text}, replaced...)...),
			Kind: Fact, Text: text, Entity: first.Entity, Attribute: clip(item.Attribute), Keys: keysOf(item.Keys), Supersedes: replaced,
			Source: Source{Kind: AgentInferred, Session: turn.Session.ID, Turn: turn.Run.Turn}}
		for _, id := range replaced {
			if at := shown[id].ValidFrom; at.After(e.ValidFrom) {
				e.ValidFrom = at
			}
			e.Importance = max(e.Importance, shown[id].Importance)
			delete(shown, id)
		}
		out = append(out, e)
	}
	return out
}

// keysOf returns those of a model's keys that an entry can have.
func keysOf(keys []string) (list []string) {
	for _, key := range keys {
		if key = clip(key); key != "" && len(list) < MaxKeys {
			list = append(list, key)
		}
	}
	return list
}

// addMerged adds merged facts, whose parts have not changed since, and notes that the scope was consolidated at a time.
func (m *Memory) addMerged(ctx context.Context, scope Scope, turn *cairn.EndedTurn, now time.Time, entries []Entry) (added []Entry, err error) {
	err = m.update(ctx, scope, func(t *tx) error {
		added = nil
		if err := exists(ctx, turn); err != nil {
			return err
		}
		if t.version <= 0 || sameDay(time.UnixMicro(t.head.Consolidated), now) {
			return nil
		}
		t.head.Consolidated, t.dirty[keyHead] = micros(now), true
		for _, e := range entries {
			if same, err := t.unchanged(e.Supersedes); err != nil || !same {
				if err != nil {
					return err
				}
				continue
			}
			d, err := t.add("merged", e)
			if err != nil {
				return err
			}
			d.Merged = true
			t.save(d)
			added = append(added, d.Entry)
		}
		return nil
	})
	return added, err
}

// unchanged reports whether entries are there, in use, and the newest of their versions.
func (t *tx) unchanged(ids []string) (bool, error) {
	for _, id := range ids {
		n, err := t.number(id)
		if err != nil || n == 0 {
			return false, err
		}
		d, err := t.doc(n)
		if err != nil || d == nil || d.State != Active {
			return false, err
		}
		if newest, err := t.current(n); err != nil || newest != n {
			return false, err
		}
	}
	return true, nil
}
