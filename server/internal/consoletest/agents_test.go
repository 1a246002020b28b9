package consoletest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server/internal/notebook"
)

// named is a scripted model with a name that has a price.
type named struct {
	*scripted.Model
	name string
}

func (m named) Info() cairn.ModelInfo { return cairn.ModelInfo{Provider: "sample", Name: m.name} }

const refundSchema = `{"type": "object", "required": ["order", "amount", "reason"], "properties": {
	"order": {"type": "integer", "minimum": 1},
	"amount": {"type": "number", "exclusiveMinimum": 0, "maximum": 49.50, "description": "In EUR."},
	"reason": {"enum": ["broken", "missing", "late"]},
	"note": {"type": "string", "maxLength": 500, "title": "Note to user"},
	"notify": {"type": "boolean"},
	"pay": {"oneOf": [
		{"type": "object", "title": "Card", "required": ["kind", "last4"], "properties": {"kind": {"const": "card"}, "last4": {"type": "string", "minLength": 4}}},
		{"type": "object", "title": "Voucher", "required": ["kind", "code"], "properties": {"kind": {"const": "voucher"}, "code": {"type": "string"}}}]},
	"items": {"type": "array", "items": {"type": "string"}},
	"address": {"type": "object", "properties": {"street": {"type": "string"}, "day": {"type": "string", "format": "date"}}}}}`

const refundInput = `{"order": 42, "amount": 49.50, "reason": "broken", "note": "", "notify": true, "pay": {"kind": "card", "last4": "4242"}, "items": ["cup"], "address": {"street": "5 Elm Road", "day": "2026-11-27"}}`

// agents returns the agents of a site. Support remembers in book.
func agents(book *notebook.Memory) []*cairn.Agent {
	warehouse := &cairn.Agent{Name: "warehouse", Description: "Knows the stock.", Model: named{scripted.Func(stock), "small-4"},
		Tools: []cairn.Tool{raw("count_stock", `{"sand": 24, "clay": 3}`)}}
	return []*cairn.Agent{
		{Name: "support", Description: "Helps the customers of a shop.", Model: named{scripted.Func(support), "large-4"}, Memory: book, Tools: []cairn.Tool{
			cairn.Func("report", "Write a report.", func(ctx context.Context, c *cairn.Call, in struct {
				Name string `json:"name"`
			}) (string, error) {
				return "written", c.Publish(ctx, in.Name, "text/csv", strings.NewReader("order,price\n42,49.50\n"))
			}),
			cairn.Func("transfer", "Transfer money.", func(ctx context.Context, _ *cairn.Call, _ struct {
				To     string  `json:"to"`
				Amount float64 `json:"amount"`
			}) (string, error) {
				<-ctx.Done() // the bank does not answer
				return "", ctx.Err()
			}, cairn.Effectful()),
			raw("list_orders", `[{"order": 42, "item": "Espresso cups, set of 4"}, {"order": 48, "item": "Notebooks"}]`),
			raw("lookup_order", `{"item": "Espresso cups, set of 4", "price": "49.50 EUR", "delivered": "20 Nov 2026", "refunded": false}`),
			cairn.RawFunc("refund", "Refund an order.", json.RawMessage(refundSchema), echo, cairn.WaitAtMost(3*time.Hour),
				cairn.RequireApprovalIf(func(context.Context, *cairn.Call, map[string]any) (*cairn.Prompt, error) {
					return &cairn.Prompt{Text: "Refunds above 20.00 EUR need a person."}, nil
				})),
			cairn.RawFunc("close_account", "Close an account.", json.RawMessage(`{"type": "object"}`), echo, cairn.WaitAtMost(10*time.Minute), cairn.RequireApproval()),
			cairn.Func("which_colour", "Ask a person for the colour.", func(ctx context.Context, c *cairn.Call, _ struct{}) (string, error) {
				var answer struct {
					Colour string `json:"colour"`
				}
				err := c.Ask(ctx, "Which colour do the new cups have?", nil, &answer)
				return answer.Colour, err
			}),
			cairn.ClientTool[struct{}, any]("get_time", "What time it is."),
			cairn.RawFunc("send_gift", "Send a gift.", json.RawMessage(`{"type": "object"}`), echo, cairn.Effectful()),
		}, Models: map[string]cairn.Model{"small": named{scripted.Func(brief), "small-4"}}},
		{Name: "research", Description: "Looks things up in the catalogue.", Model: named{scripted.Func(research), "large-4"}, Tools: []cairn.Tool{
			raw("search_catalogue", `[{"id": "cup-112", "name": "Stoneware cup, sand, matt", "price": "11.90 EUR"}, {"id": "cup-127", "name": "Stoneware cup, clay, matt", "price": "12.40 EUR"}]`),
			cairn.SubAgent(warehouse),
		}},
	}
}

func raw(name, result string) cairn.Tool {
	return cairn.RawFunc(name, "Returns what there is.", json.RawMessage(`{"type": "object"}`), func(context.Context, *cairn.Call, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(result), nil
	})
}

func echo(_ context.Context, _ *cairn.Call, in json.RawMessage) (json.RawMessage, error) {
	return in, nil
}

// said returns the user's last message and how many results of tools follow it.
func said(r *cairn.Request) (text string, results []*cairn.ToolResult) {
	for i := range r.Messages {
		m := &r.Messages[i]
		if m.Role == cairn.RoleUser {
			text, results = m.Text(), nil
		}
		results = append(results, m.ToolResults()...)
	}
	return text, results
}

func support(_ context.Context, r *cairn.Request) scripted.Step {
	text, results := said(r)
	return supportStep(text, results).Usage(int64(900+len(text)), 120)
}

// brief is the smaller model of the support agent: it says less.
func brief(_ context.Context, r *cairn.Request) scripted.Step {
	step, results := said(r)
	if strings.HasPrefix(step, "gift") && len(results) == 0 {
		return scripted.Call("send_gift", map[string]string{"gift": "a cup"})
	}
	return scripted.Text("Done.").Usage(100, 10)
}

func supportStep(text string, results []*cairn.ToolResult) scripted.Step {
	switch word, rest, _ := strings.Cut(text, " "); {
	case strings.HasPrefix(text, "What have I ordered"):
		if len(results) == 0 {
			return scripted.Call("list_orders", map[string]string{"user": "j.amsel", "since": "1 Nov"})
		}
		return scripted.Text("Two orders this month:\n\n| Order | Item | Status | Price |\n| --- | --- | --- | --- |\n| 42 | Espresso cups, set of 4 | Delivered 20 Nov | 49.50 EUR |\n| 48 | Notebooks, pack of 5 | Being prepared | 15.75 EUR |\n")
	case strings.HasPrefix(text, "Order 42 arrived broken"):
		switch len(results) {
		case 0:
			return scripted.Reply(scripted.Thinking("The user reports damage. Look the order up before any promise."), scripted.Call("lookup_order", map[string]int{"order": 42}))
		case 1:
			return scripted.Reply(scripted.Text("I am sorry about the cups. I have asked for a refund of 49.50 EUR; a colleague has to confirm it. You will get an answer here."), scripted.Call("refund", refundInput))
		}
		return scripted.Text("The refund is " + string(results[1].Output) + ".")
	case strings.HasPrefix(text, "Where is order 44"):
		if len(results) == 0 {
			return scripted.Reply(scripted.Text("Let me look up order 44."), scripted.Call("lookup_order", map[string]int{"order": 44}))
		}
		return scripted.Fail(&cairn.Error{Code: cairn.ErrAuth, Message: "provider-a answered 401 Unauthorized to large-4: invalid api key"})
	case strings.HasPrefix(text, "Delete everything") && len(results) == 0:
		return scripted.Call("close_account", map[string]string{"user": "b.ehr"})
	case strings.HasPrefix(text, "Which colour") && len(results) == 0:
		return scripted.Call("which_colour", struct{}{})
	case word == "gift" && len(results) == 0:
		return scripted.Reply(scripted.Text("I send it now."), scripted.Call("send_gift", map[string]string{"gift": rest}))
	case word == "refund" && len(results) == 0:
		return scripted.Reply(scripted.Text("One moment. "), scripted.Call("refund", map[string]any{"order": 7, "amount": 1.50, "reason": "late", "note": rest}))
	case word == "report" && len(results) == 0:
		return scripted.Call("report", map[string]string{"name": rest})
	case word == "transfer" && len(results) == 0:
		return scripted.Call("transfer", map[string]any{"to": rest, "amount": 49.50})
	case word == "time" && len(results) == 0:
		return scripted.Call("get_time", struct{}{})
	case word == "draw":
		return scripted.Reply(scripted.Text("Here it is."), drawn("image/png", picture()), drawn("text/html", []byte("<script>alert(1)</script>")))
	case word == "endless":
		return scripted.Text(strings.Repeat("And then there was a stone on a hill. ", 2000)).Pace(15 * time.Millisecond)
	case word == "story":
		return scripted.Text("Once upon a time " + strings.Repeat("there was a stone on a hill, and ", 12) + "the end.").Pace(60 * time.Millisecond)
	case word == "markdown":
		return scripted.Text(markdown)
	case len(results) > 0:
		return scripted.Text(fmt.Sprintf("%s came to %s", results[0].Tool, results[0].Output))
	}
	return scripted.Text("You said " + text + ".")
}

func research(_ context.Context, r *cairn.Request) scripted.Step {
	text, results := said(r)
	if text == "endless" {
		return scripted.Text(strings.Repeat("With brushed brass, *matt and warm* works best. ", 4000)).Pace(20 * time.Millisecond)
	}
	switch len(results) {
	case 0:
		return scripted.Reply(scripted.Thinking("The lamp is order 41: brushed brass, warm. Look in the catalogue for matt stoneware, then check the stock."), scripted.Call("search_catalogue", map[string]string{"what": "cups", "glaze": "matt"})).Usage(1400, 90)
	case 1:
		return scripted.Call("warehouse", map[string]string{"input": "How many of the cups are there?"}).Usage(1700, 60)
	}
	return scripted.Text("With brushed brass, matt and warm works best. I would take one of these:\n\n- **Stoneware cup, sand** (11.90 EUR): close to the colour of the lamp, 24 in stock.\n- **Stoneware cup, clay** (12.40 EUR): a little darker.\n").Usage(2100, 150)
}

func stock(_ context.Context, r *cairn.Request) scripted.Step {
	if _, results := said(r); len(results) == 0 {
		return scripted.Call("count_stock", map[string]int{"items": 2}).Usage(300, 20)
	}
	return scripted.Text("24 in sand, 3 in clay.").Usage(380, 20)
}

func drawn(mediaType string, data []byte) scripted.Step {
	return scripted.Chunk(cairn.Chunk{Type: cairn.ChunkFile, File: &cairn.File{Name: "tree", MediaType: mediaType, Data: data}})
}

// picture is an image of 3 by 2 pixels.
func picture() []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		panic(err)
	}
	return b.Bytes()
}

const markdown = "# A heading\n\nSome *words*, **bold ones**, `code` and a [link](https://example.com/page), not [this](javascript:alert(1)).\n\n" +
	"1. first\n2. second\n   - nested\n\n> A quote of **two**\n> lines\n\n```go\nfunc main() { fmt.Println(\"a very long line of code that does not fit in the column of the conversation at all, so it scrolls\") }\n```\n\n" +
	"| A | B |\n| --- | ---: |\n| x | 1 |\n\n![A picture](https://example.com/x.png) <b>no HTML</b> <script>alert(1)</script>\n\n---\n\nhttps://example.com/a?b=c.\n"
