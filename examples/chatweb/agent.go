package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

var agent = &cairn.Agent{Name: "concierge", Model: model, Tools: []cairn.Tool{weather, locate, refund, book}}

type place struct {
	City string `json:"city"`
}

type payment struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

type nothing struct{}

var (
	weather = cairn.Func("weather", "The weather of a city.", func(_ context.Context, _ *cairn.Call, in place) (string, error) {
		return "Sunny in " + in.City, nil
	})
	locate = cairn.ClientTool[nothing, place]("locate", "Where the user is. The page answers it.")
	refund = cairn.Func("refund", "Refunds a payment.", func(_ context.Context, _ *cairn.Call, in payment) (string, error) {
		return fmt.Sprintf("refunded %d cents of order %s", in.Cents, in.Order), nil
	}, cairn.RequireApproval())
	book = cairn.Func("book", "Books a table.", func(ctx context.Context, call *cairn.Call, _ nothing) (string, error) {
		var day string
		if err := call.Ask(ctx, "For which day?", nil, &day); err != nil {
			return "", err
		}
		return "booked for " + day, nil
	})
)

// hill is a picture like one that a model generates.
var hill = cairn.File{Name: "hill.png", MediaType: "image/png", Data: draw()}

func draw() []byte {
	picture := image.NewGray(image.Rect(0, 0, 160, 90))
	for i := range picture.Pix {
		x, y := i%160, i/160
		if picture.Pix[i] = 240; y > 20+(x-80)*(x-80)/100 {
			picture.Pix[i] = 120
		}
	}
	var b bytes.Buffer
	png.Encode(&b, picture) // cannot fail in memory
	return b.Bytes()
}

// model stands in for a model that needs a key. It answers by words in the user's message.
var model = scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
	last := r.Messages[len(r.Messages)-1]
	if last.Role == cairn.RoleTool {
		return scripted.Text("Done: " + string(last.ToolResults()[0].Output))
	}
	said := strings.ToLower(last.Text())
	for _, reply := range []struct {
		word string
		step scripted.Step
	}{
		{"story", scripted.Text("Once upon a time " + strings.Repeat("there was a stone on a hill, and ", 20) + "the end.").Pace(25 * time.Millisecond)},
		{"explore", scripted.Reply(scripted.Text(strings.Repeat("Looking around. ", 80)).Pace(25*time.Millisecond), scripted.Call("weather", place{"Oslo"}))},
		{"weather", scripted.Call("weather", place{"Oslo"})},
		{"where", scripted.Call("locate", nothing{})},
		{"refund", scripted.Reply(scripted.Text("Let me refund that. "), scripted.Call("refund", payment{"A-17", 9900}))},
		{"book", scripted.Call("book", nothing{})},
		{"draw", scripted.Reply(scripted.Text("Here is the hill."), scripted.Chunk(cairn.Chunk{Type: cairn.ChunkFile, File: &hill}))},
	} {
		if strings.Contains(said, reply.word) {
			return reply.step
		}
	}
	return scripted.Text("You said: " + last.Text())
})
