package openaichat_test

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/openaichat"
	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
)

func ExampleModel() {
	server := openaichattest.NewServer(openaichattest.Text("Hello there."))
	defer server.Close()

	model := openaichat.Model("gpt-5", &openaichat.Options{BaseURL: server.BaseURL}) // nil asks OpenAI itself
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
