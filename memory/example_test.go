package memory_test

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/store/memstore"
)

func ExampleNew() {
	ctx := context.Background()
	m, err := memory.New(memstore.New(nil), nil)
	if err != nil {
		panic(err)
	}
	ann := memory.User("ann")
	bySupport := memory.Source{Kind: memory.Application}
	facts, err := m.Add(ctx, ann,
		memory.Entry{Text: "Ann lives in Bonn.", Entity: "Ann", Attribute: "home", Source: bySupport},
		memory.Entry{Text: "Ann is allergic to nuts.", Entity: "Ann", Attribute: "allergy", Source: bySupport})
	if err != nil {
		panic(err)
	}
	if _, err := m.Correct(ctx, ann, facts[0].ID, memory.Entry{Text: "Ann moved to Rome."}); err != nil {
		panic(err)
	}
	hits, err := m.Search(ctx, ann, memory.Query{Text: "Which city does Ann live in?", Limit: 1})
	if err != nil {
		panic(err)
	}
	for _, hit := range hits {
		fmt.Println(hit.Text, "version", hit.Version)
	}
	// Output: Ann moved to Rome. version 2
}

func ExampleNewHTTPEmbedder() {
	e, err := memory.NewHTTPEmbedder("https://api.openai.com/v1", "text-embedding-3-small", &memory.HTTPEmbedderOptions{Key: "the key", Dimensions: 512})
	if err != nil {
		panic(err)
	}
	m, err := memory.New(memstore.New(nil), &memory.Options{Embedder: e})
	if err != nil {
		panic(err)
	}
	fmt.Println(m.Options().Embedder.Model())
	// Output: text-embedding-3-small/512
}
