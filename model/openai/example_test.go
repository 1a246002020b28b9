package openai_test

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/openai"
	"github.com/cairn-agents/cairn/model/openai/openaitest"
)

func ExampleModel() {
	server := openaitest.NewServer(openaitest.Text("Hello there."))
	defer server.Close()

	model := openai.Model("gpt-5", &openai.Options{BaseURL: server.BaseURL}) // nil asks OpenAI itself
	req := &cairn.Request{Messages: []cairn.Message{cairn.User(cairn.TextPart("Hi!"))}}
	for chunk, err := range model.Stream(context.Background(), req) {
		switch {
		case err != nil:
			fmt.Println(err)
		case chunk.Type == cairn.ChunkText:
			fmt.Printf("%q\n", chunk.Text)
		case chunk.Type == cairn.ChunkFinish:
			fmt.Println(chunk.FinishReason)
		}
	}
	// Output:
	// "Hello "
	// "there."
	// end
}
