package support

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/shop"
	"github.com/cairn-agents/cairn/model/scripted"
)

// Script returns a model that plays the agent by rules, in English. Its replies depend on the conversation alone,
// so any process can resume it. pace is the delay between words.
func Script(pace time.Duration) cairn.Model {
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.System == cairn.SummaryInstructions {
			r := reply{text: summary(req)}
			return r.step(req).Pace(pace)
		}
		list := turns(req.Messages)
		now := &list[len(list)-1]
		r := answer(understand(list), now)
		r.resume(now)
		return r.step(req).Pace(pace)
	})
}

// reply is the agent's next text and calls.
type reply struct {
	thought string
	text    string
	calls   []call
}

type call struct {
	tool  string
	input any
}

// resume omits what the agent said before it was interrupted.
func (r *reply) resume(now *turn) {
	if now.said == "" {
		return
	}
	rest, ok := strings.CutPrefix(r.text, now.said)
	if !ok {
		return
	}
	r.thought, r.text = "", rest
	if rest == "" && len(r.calls) == 0 {
		r.text = "That was all."
	}
}

// step converts the reply to a scripted step, with approximate token counts.
func (r *reply) step(req *cairn.Request) scripted.Step {
	parts := []scripted.Step{scripted.Thinking(r.thought), scripted.Text(r.text)}
	written := len(r.thought) + len(r.text)
	for _, c := range r.calls {
		parts = append(parts, scripted.Call(c.tool, c.input))
		written += 40
	}
	seen := len(req.System)
	for i := range req.Messages {
		for _, p := range req.Messages[i].Parts {
			seen += len(p.Text)
			if p.Result != nil {
				seen += len(p.Result.Output)
			}
		}
	}
	return scripted.Reply(parts...).Usage(tokens(seen), tokens(written))
}

func tokens(bytes int) int64 { return int64(bytes+3) / 4 }

const abilities = "I can look up an order (\"Where is order 44?\"), list a customer's orders (\"orders of Ada Lovelace\"), " +
	"send an order that has not left yet to another address (\"ship order 43 to 5 Elm Road, Boston\"), " +
	"and refund what arrived broken or not at all (\"order 42 arrived broken\")."

// answer decides what comes next in a turn.
func answer(w intent, now *turn) reply {
	switch w.kind {
	case greeting:
		return reply{text: "Hello! " + abilities}
	case thanks:
		return reply{text: "You are welcome. Is there anything else?"}
	case declined:
		return reply{text: "All right, nothing was changed. Is there anything else?"}
	case listing:
		return answerList(w, now)
	case moving:
		return answerMove(w, now)
	case status, refunding:
		return answerOrders(w, now)
	}
	return reply{text: "I did not quite get that. " + abilities}
}

func answerList(w intent, now *turn) reply {
	whose := "your orders"
	if w.name != "" {
		whose = "the orders of " + w.name
	}
	if why, refused := now.refusals[refusal{tool: "list_orders"}]; refused {
		return reply{text: fmt.Sprintf("I could not list %s: %s. %s", whose, why, askName)}
	}
	if !now.listed {
		return reply{text: "Let me list " + whose + ".", calls: []call{{"list_orders", listInput{Customer: w.name}}}}
	}
	if len(now.list) == 0 {
		return reply{text: "I found no orders under that name."}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "These are %s:", whose)
	for _, o := range now.list {
		fmt.Fprintf(&b, "\n- %s", about(o))
	}
	return reply{text: b.String()}
}

func answerMove(w intent, now *turn) reply {
	if len(w.orders) == 0 {
		return reply{text: "I can do that as long as it has not left. " + askOrder}
	}
	n := w.orders[0]
	why, refused := now.refusals[refusal{"change_address", n}]
	switch {
	case w.address == "":
		return reply{text: fmt.Sprintf("%s%d go? Please give me the whole address.", askPlace, n)}
	case refused:
		return reply{text: fmt.Sprintf("I am afraid that does not work: %s.", why)}
	case now.moved != nil:
		return reply{text: fmt.Sprintf("Done. Order %d (%s) now goes to %s.", n, now.moved.Item, now.moved.Address)}
	}
	return reply{
		thought: fmt.Sprintf("Order %d is to go to another address. The shop refuses if it has left already.", n),
		text:    fmt.Sprintf("I am changing the address of order %d.", n),
		calls:   []call{{"change_address", addressInput{Order: n, Address: w.address}}},
	}
}

// maxOrders bounds how many orders are looked up at once.
const maxOrders = 10

// answerOrders looks up orders and then describes or refunds them.
func answerOrders(w intent, now *turn) reply {
	if len(w.orders) == 0 {
		return reply{text: "I will look into it. " + askOrder}
	}
	orders := w.orders[:min(len(w.orders), maxOrders)]
	var lookups []call
	for _, n := range orders {
		_, known := now.orders[n]
		_, refused := now.refusals[refusal{"lookup_order", n}]
		if !known && !refused {
			lookups = append(lookups, call{"lookup_order", lookupInput{n}})
		}
	}
	if len(lookups) > 0 {
		names := "order " + join(orders)
		return reply{
			thought: fmt.Sprintf("This is about %s. Looking first, promising later.", names),
			text:    fmt.Sprintf("Let me look up %s.", names), calls: lookups,
		}
	}
	return settle(w, orders, now)
}

// settle answers for orders that were looked up: refunds first, then a sentence or two about each.
func settle(w intent, orders []int, now *turn) reply {
	var refund reply
	var sentences []string
	var offers []int
	for _, n := range orders {
		o, known := now.orders[n]
		_, refused := now.refusals[refusal{"refund", n}]
		_, refunded := now.refunds[n]
		switch {
		case !known || refused || refunded || !refundable(o) || w.kind != refunding:
		case w.sure, o.Status == shop.Delivered && w.reason != "late" && w.reason != "unwanted":
			refund.calls = append(refund.calls, call{"refund", refundInput{n, w.reason}})
			refund.text += sorry[w.reason] + " " + promise(o) + " "
			continue
		default:
			offers = append(offers, n)
		}
		sentences = append(sentences, verdict(n, now))
	}
	if len(refund.calls) > 0 {
		refund.text = strings.TrimSpace(refund.text)
		return refund
	}
	if len(offers) > 0 {
		sentences = append(sentences, askOffer+join(offers)+"?")
	}
	return reply{text: strings.Join(sentences, " ")}
}

var sorry = map[string]string{
	"broken":  "I am sorry that it arrived broken.",
	"missing": "I am sorry that it did not reach you.",
	"wrong":   "I am sorry that you got the wrong thing.",
}

// promise announces the refund of an order.
func promise(o shop.Order) string {
	if o.Total > freely {
		return fmt.Sprintf("I am asking a colleague to approve the refund of %s for order %d (%s).", o.Total, o.Number, o.Item)
	}
	return fmt.Sprintf("I am refunding the %s for order %d (%s) right away.", o.Total, o.Number, o.Item)
}

// verdict describes what became of an order in this turn.
func verdict(n int, now *turn) string {
	if f, ok := now.refunds[n]; ok {
		return fmt.Sprintf("Done: %s for order %d are on their way back to you (refund %d). Nothing needs to be sent back.", f.Amount, f.Order, f.Number)
	}
	if why, ok := now.refusals[refusal{"refund", n}]; ok {
		return fmt.Sprintf("I could not refund order %d: %s.", n, why)
	}
	if why, ok := now.refusals[refusal{"lookup_order", n}]; ok {
		return fmt.Sprintf("I could not find it: %s.", why)
	}
	return about(now.orders[n])
}

// about describes an order in a sentence or two.
func about(o shop.Order) string {
	text := fmt.Sprintf("Order %d (%s, %s) ", o.Number, o.Item, o.Total)
	switch o.Status {
	case shop.Processing:
		text += "is being prepared and goes to " + o.Address + "."
	case shop.Shipped:
		text += "is on its way to " + o.Address + "."
	case shop.Delivered:
		text += "was delivered on " + o.Delivered + "."
	default:
		text += "was cancelled."
	}
	if o.Refund != nil {
		text += fmt.Sprintf(" It was refunded: %s.", o.Refund.Amount)
	}
	return text
}

// join lists numbers in prose: 42, 43 and 44.
func join(list []int) string {
	var b strings.Builder
	for i, n := range list {
		switch {
		case i == 0:
		case i == len(list)-1:
			b.WriteString(" and ")
		default:
			b.WriteString(", ")
		}
		fmt.Fprint(&b, n)
	}
	return b.String()
}
