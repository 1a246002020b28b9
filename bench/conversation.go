package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

// Sizes, in bytes, of what a step writes, before a system encodes it.
const (
	textBytes   = 240 // text of the reply
	inputBytes  = 160 // arguments of its tool call, a JSON object
	resultBytes = 1024
	fieldBytes  = 200 // value of the state's field that a step replaces
	fields      = 20
)

// toolName is the only tool of the conversation.
const toolName = "look_up_order"

// variants is the number of different steps before they repeat. It is large enough that a server cannot compress a
// message by what it has seen in the previous one.
const variants = 64

// message is an entry of the conversation in a form that every system can store.
type message struct {
	Role   cairn.Role `json:"role"`
	Text   string     `json:"text,omitempty"`
	Call   string     `json:"call,omitempty"`   // id of the call that is requested or answered
	Input  input      `json:"input,omitzero"`   // arguments of the call
	Result string     `json:"result,omitempty"` // result of the call
}

// input is the arguments of a call.
type input struct {
	Order string `json:"order,omitempty"`
	Note  string `json:"note,omitempty"`
}

// exchange is what one step adds: a reply with a tool call, its result, and a field of the state.
type exchange struct {
	Text   string `json:"text"`
	Input  input  `json:"input"`
	Result string `json:"result"`
	Value  string `json:"value"`
}

// conversation is the data that every system writes. Its steps count from 0.
type conversation struct {
	Question  string            `json:"question"`
	Answer    string            `json:"answer"`
	Exchanges []exchange        `json:"exchanges"`
	State     map[string]string `json:"state"` // initial state
}

// newConversation generates the conversation, the same each time.
func newConversation() *conversation {
	source := rand.New(rand.NewPCG(1, 2))
	c := &conversation{Question: prose(source, fieldBytes), Answer: prose(source, textBytes+inputBytes), State: map[string]string{}}
	for range variants {
		e := exchange{Text: prose(source, textBytes), Result: prose(source, resultBytes), Value: prose(source, fieldBytes)}
		e.Input = input{Order: fmt.Sprint(10_000 + source.IntN(90_000))}
		e.Input.Note = prose(source, inputBytes-len(encode(e.Input))-len(`,"note":""`))
		c.Exchanges = append(c.Exchanges, e)
	}
	for i := range fields {
		c.State[field(i)] = prose(source, fieldBytes)
	}
	return c
}

var words = strings.Fields(`the order arrived broken customer asks for a refund of one item that was delivered late parcel
	carrier address street invoice number paid by card twice replacement sent on monday please check stock of blue large
	cotton shirts warehouse answered today nothing is known about it supplier will call back before noon thanks again`)

// prose returns words as a text of the given size in bytes.
func prose(source *rand.Rand, size int) string {
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "%s %d ", words[source.IntN(len(words))], source.IntN(1000))
	}
	return b.String()[:size-1] + "."
}

// field returns the name of the field that a step replaces.
func field(step int) string { return fmt.Sprintf("field_%02d", step%fields) }

// call returns the id of a step's call.
func call(step int) string { return fmt.Sprintf("call-%06d", step) }

func (c *conversation) exchange(step int) exchange { return c.Exchanges[step%len(c.Exchanges)] }

// messages returns what a step adds to the transcript.
func (c *conversation) messages(step int) []message {
	e := c.exchange(step)
	return []message{
		{Role: cairn.RoleAssistant, Text: e.Text, Call: call(step), Input: e.Input},
		{Role: cairn.RoleTool, Call: call(step), Result: e.Result},
	}
}

// history returns the first n messages: a question, an answer, and the messages of the steps before the first
// measured one. n is even.
func (c *conversation) history(n int) []message {
	out := []message{{Role: cairn.RoleUser, Text: c.Question}, {Role: cairn.RoleAssistant, Text: c.Answer}}
	for step := range firstStep(n) {
		out = append(out, c.messages(step)...)
	}
	return out
}

// firstStep returns the number of the first step after a history of n messages.
func firstStep(n int) int { return n/2 - 1 }

// transcript is a session's content as read back.
type transcript struct {
	Messages []message         `json:"messages"`
	State    map[string]string `json:"state"`
	// Times are the times of the messages, if the system orders them by nothing else; nil if their order is certain.
	Times []time.Time `json:"-"`
}

// after returns the transcript after a history of n messages and a number of steps.
func (c *conversation) after(n, steps int) transcript {
	out := transcript{Messages: c.history(n), State: map[string]string{}}
	for name, value := range c.State {
		out.State[name] = value
	}
	for step := firstStep(n); step < firstStep(n)+steps; step++ {
		out.Messages = append(out.Messages, c.messages(step)...)
		out.State[field(step)] = c.exchange(step).Value
	}
	return out
}

// encode returns the JSON encoding of a value that can be encoded.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
