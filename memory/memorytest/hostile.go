package memorytest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn/memory"
)

// hostileTexts adds and searches texts that are syntax to a store, or long, or of other scripts.
func hostileTexts(h *harness) {
	texts := []string{`" OR 1=1 --`, `NEAR(a b) AND NOT c*`, `'; DROP TABLE sessions; --`, `a:b ^c {d} (e) "f`, "tab\tnewline\nreturn\r", `\`, `%_`,
		"👩‍👩‍👧‍👦 family", "日本語のテキスト", "עברית and English", "e\u0301 combining", "\u202eright to left", "\x01\x02control", "a\x01b",
		strings.Repeat("x", 2000), strings.Repeat("word ", 400), strings.Repeat("é", 2000), "#0123456789abcdef", "İstanbul ẞ", "０１２"}
	for i, text := range texts {
		id := fmt.Sprint("e", i)
		e := fact(id, text)
		e.Entity, e.Keys = memory.Cut(text, 40), []string{memory.Cut(text, 60)}
		h.add(e)
		got, err := h.m.Get(h.Context(), h.scope, id)
		h.must(err)
		if got.Text != text {
			h.Fatalf("text %q came back as %q", text, got.Text)
		}
		if len(memory.English().Terms(text)) > 0 {
			if hits := h.search(memory.Query{Text: text, Limit: 100}); !slices.Contains(hits, id) {
				h.Fatalf("%q is not found by itself", text)
			}
		}
		if got := h.list(memory.ListQuery{Entity: e.Entity}); !slices.Contains(got, id) {
			h.Fatalf("%q is not listed by its entity: %q", text, got)
		}
	}
	h.search(memory.Query{Text: strings.Repeat("word 👩 \" ", 100_000)})
	h.search(memory.Query{})
	if _, err := h.m.Search(h.Context(), h.scope, memory.Query{Text: "a\x00b"}); err == nil {
		h.Fatal("a query with NUL has no error")
	}
	for i := range texts {
		_, err := h.m.Forget(h.Context(), h.scope, fmt.Sprint("e", i))
		h.must(err)
	}
	if n := h.rows(); n > 1 {
		h.Fatalf("%d rows left", n)
	}
}

// identifiers finds each of many texts that are alike but for a number.
func identifiers(h *harness) {
	const n = 60
	var list []memory.Entry
	number := func(i int) string { return fmt.Sprintf("ORD-%d-%c", 10_000+i*37, 'A'+i%26) }
	for i := range n {
		list = append(list, fact(fmt.Sprint(i), "Order "+number(i)+" was sent to the customer"))
	}
	h.add(list...)
	for i := range n {
		if got := h.search(memory.Query{Text: "Where is order " + number(i) + "?"}); got[0] != fmt.Sprint(i) {
			h.Fatalf("order %s: the first hit is %s", number(i), got[0])
		}
	}
}

func vectors(h *harness) {
	// Texts about pets share a direction that their words do not.
	e := &Embedder{Name: "pets", Vector: func(text string) []float32 {
		text = strings.ToLower(text)
		for _, pet := range []string{"dog", "cat", "hamster", "animal"} {
			if strings.Contains(text, pet) {
				return []float32{1, 0.1, 0}
			}
		}
		return []float32{0, 0.1 * float32(len(text)%5), 1}
	}}
	h.m = h.memory(&memory.Options{Embedder: e})
	for i := range 40 {
		h.add(fact(fmt.Sprint("x", i), fmt.Sprint("Something else, number ", i)))
	}
	h.add(fact("dog", "Rex is a dog"), fact("cat", "Tom is a cat"), fact("num", "The animal house has number 7"))
	h.wantText("animal", "num") // by terms, before there are vectors
	n, err := h.m.Embed(h.Context(), h.scope)
	h.must(err)
	if n != 43 || e.Texts.Load() != 44 {
		h.Fatalf("%d vectors made from %d texts", n, e.Texts.Load())
	}
	if got := h.search(memory.Query{Text: "animal", Limit: 3}); got[0] != "num" || !slices.Contains(got, "dog") || !slices.Contains(got, "cat") {
		h.Fatalf("found %q", got)
	}
	if got := h.search(memory.Query{Text: "number 7", Limit: 3}); got[0] != "num" && got[0] != "x7" {
		h.Fatalf("found %q", got)
	}
	sources, err := h.m.Sources(h.Context(), h.scope)
	h.must(err)
	if sources[0].Embedded != 43 {
		h.Fatalf("sources %+v", sources)
	}
	_, err = h.m.Redact(h.Context(), h.scope, "dog")
	h.must(err)
	_, err = h.m.Forget(h.Context(), h.scope, "cat")
	h.must(err)
	if got := h.search(memory.Query{Text: "hamster", Limit: 1}); !slices.Equal(got, []string{"num"}) {
		h.Fatalf("found %q after forgetting", got)
	}
	n, err = h.m.Embed(h.Context(), h.scope)
	h.must(err)
	if n != 0 {
		h.Fatalf("%d vectors made again", n)
	}
	h.add(fact("new", "A hamster"))
	if n, err = h.m.Embed(h.Context(), h.scope); err != nil || n != 1 {
		h.Fatalf("%d vectors made, error %v", n, err)
	}
}

func vectorsOfAnotherModel(h *harness) {
	h.m = h.memory(&memory.Options{Embedder: Words(8)})
	for i := range 20 {
		h.add(fact(fmt.Sprint(i), fmt.Sprint("entry number ", i)))
	}
	_, err := h.m.Embed(h.Context(), h.scope)
	h.must(err)
	before := h.rows()
	other := Words(64)
	other.Name = "more words"
	h.m = h.memory(&memory.Options{Embedder: other})
	h.wantHits(memory.Query{Text: "entry 7", Limit: 1}, "7")
	n, err := h.m.Embed(h.Context(), h.scope)
	h.must(err)
	if n != 20 || h.rows() != before {
		h.Fatalf("%d vectors made, %d rows instead of %d", n, h.rows(), before)
	}
	h.wantHits(memory.Query{Text: "entry 7", Limit: 1}, "7")
}

func embedderFails(h *harness) {
	failed := errors.New("no such model")
	e := Words(8)
	h.m = h.memory(&memory.Options{Embedder: e})
	h.add(fact("f", "Ann has a dog"))
	e.Err = func() error { return failed }
	if _, err := h.m.Embed(h.Context(), h.scope); !errors.Is(err, failed) {
		h.Fatalf("error %v", err)
	}
	h.wantText("dog", "f")
	e.Err, e.Vector = nil, func(string) []float32 { return nil }
	if _, err := h.m.Embed(h.Context(), h.scope); err == nil {
		h.Fatal("an empty vector has no error")
	}
	h.wantText("dog", "f")
}
