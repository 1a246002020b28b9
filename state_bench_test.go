package cairn_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/ops"
)

type item struct {
	ID    string   `json:"id"`
	Name  string   `json:"name"`
	Price float64  `json:"price"`
	Tags  []string `json:"tags,omitempty"`
}

type shop struct {
	Visits int               `json:"visits"`
	Items  []item            `json:"items"`
	Notes  map[string]string `json:"notes"`
	Last   *item             `json:"last,omitempty"`
}

// shopOf returns a state of about 25 KB.
func shopOf() shop {
	s := shop{Notes: map[string]string{}}
	for i := range 170 {
		s.Items = append(s.Items, item{ID: fmt.Sprintf("item-%04d", i), Name: fmt.Sprintf("thing number %d, with some words", i), Price: float64(i) / 4, Tags: []string{"red", "small"}})
		s.Notes[fmt.Sprintf("note-%04d", i)] = "a few words of a note that was taken"
	}
	return s
}

// held is a define.Env whose state is a document, like that of a tool's call.
type held struct {
	define.Env
	mu  sync.Mutex
	raw json.RawMessage
	ops []cairn.Op
}

func (h *held) State() (json.RawMessage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.raw, nil
}

func (h *held) Change(before, after json.RawMessage) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	list, err := ops.Diff(before, after)
	if err != nil || len(list) == 0 {
		return err
	}
	raw, err := ops.Fold(h.raw, list)
	h.raw, h.ops = raw, list
	return err
}

// BenchmarkUpdateState makes a small change to a state of 25 KB, as a tool does; each call sees the previous one's
// writes.
func BenchmarkUpdateState(b *testing.B) {
	raw, err := json.Marshal(shopOf())
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*shop)
	}{
		{"count", func(s *shop) { s.Visits++ }},
		{"member", func(s *shop) { s.Items[70].Price++ }},
		{"nothing", func(*shop) {}},
	} {
		b.Run(c.name, func(b *testing.B) {
			step := define.NewStep(cairn.Step{}, &held{raw: raw})
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if err := cairn.UpdateState(step, c.change); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("json", func(b *testing.B) { // what decoding it once costs
		b.ReportAllocs()
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			var s shop
			if err := json.Unmarshal(raw, &s); err != nil {
				b.Fatal(err)
			}
		}
	})
}
