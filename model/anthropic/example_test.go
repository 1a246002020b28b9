package anthropic_test

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/anthropic"
	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
)

func ExampleModel() {
	server := anthropictest.NewServer(anthropictest.Content(
		anthropictest.Part{Thinking: "A greeting."}, anthropictest.Part{Text: "Hello there."}))
	defer server.Close()

	model := anthropic.Model("claude-sonnet-5", &anthropic.Options{BaseURL: server.BaseURL}) // nil asks Anthropic itself
	req := &cairn.Request{Messages: []cairn.Message{cairn.User(cairn.TextPart("Hi!"))}}
	for chunk, err := range model.Stream(context.Background(), req) {
		switch {
		case err != nil:
			fmt.Println(err)
		case chunk.Type == cairn.ChunkReasoning:
			fmt.Printf("thinks %q\n", chunk.Text)
		case chunk.Type == cairn.ChunkText:
			fmt.Printf("%q\n", chunk.Text)
		case chunk.Type == cairn.ChunkFinish:
			fmt.Println(chunk.FinishReason)
		}
	}
	// Output:
	// thinks "A "
	// thinks "greeting."
	// "Hello "
	// "there."
	// end
}
