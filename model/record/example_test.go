package record_test

import (
	"context"
	"fmt"
	"io"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/record"
	"github.com/cairn-agents/cairn/model/scripted"
)

var hi = &cairn.Request{Messages: []cairn.Message{cairn.User(cairn.TextPart("Hi."))}}

func ExampleNew() {
	file := io.Discard // or that of os.Create
	model := record.New(scripted.New(scripted.Text("Hello.")), file)
	for chunk := range model.Stream(context.Background(), hi) {
		fmt.Print(chunk.Text)
	}
	// Output: Hello.
}

func ExampleOpen() {
	model, err := record.Open("testdata/hello.jsonl")
	if err != nil {
		fmt.Println(err)
		return
	}
	for chunk := range model.Stream(context.Background(), hi) {
		fmt.Print(chunk.Text)
	}
	// Output: Hello.
}
