package transcript_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
)

func TestSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		output, edited string
		isError        bool
		want           string
	}{
		"not edited": {`{"paid":1}`, "", false, `{"paid":1}`},
		"an object":  {` {"paid":1}`, `{"cents":1}`, false, `{"arguments_edited_by_reviewer":{"cents":1},"paid":1}`},
		"no members": {`{ }`, `{"cents":1}`, false, `{"arguments_edited_by_reviewer":{"cents":1} }`},
		"a text":     {`"paid 1"`, `{"cents":1}`, false, `"The reviewer edited the arguments; the tool ran with {\"cents\":1}. Its result: paid 1"`},
		"a list":     {`[1]`, `{"cents":1}`, false, `"The reviewer edited the arguments; the tool ran with {\"cents\":1}. Its result: [1]"`},
		"nothing":    {`null`, `{"cents":1}`, false, `"The reviewer edited the arguments; the tool ran with {\"cents\":1}. Its result: null"`},
		"an error":   {`"no money"`, `{"cents":1}`, true, `"The reviewer edited the arguments; the tool ran with {\"cents\":1}. It failed: no money"`},
	} {
		result := &cairn.ToolResult{CallID: "c", Tool: "pay", Output: json.RawMessage(c.output), IsError: c.isError}
		if c.edited != "" {
			result.Edited = json.RawMessage(c.edited)
		}
		was := *result
		list := []cairn.Message{{Role: cairn.RoleTool, Parts: []cairn.Part{{Type: cairn.PartToolResult, Result: result}}}}
		sent := transcript.Sent(list)
		if got := sent[0].Parts[0].Result.Output; string(got) != c.want || !json.Valid(got) {
			t.Errorf("%s: the model reads %s, want %s", name, got, c.want)
		}
		if again := transcript.Sent(sent); !reflect.DeepEqual(again, sent) || !reflect.DeepEqual(*result, was) {
			t.Errorf("%s: told again it is %+v; the transcript has %+v", name, again[0].Parts[0].Result, result)
		}
	}
}

// A model does not read the data parts of a message, unless the message has nothing else.
func TestSentWithoutDataForPages(t *testing.T) {
	t.Parallel()
	data := cairn.DataPart(cairn.Data{Name: "choice", Value: json.RawMessage(`{"color":"red"}`)})
	list := []cairn.Message{cairn.User(cairn.TextPart("hi"), data), cairn.User(data)}
	var x transcript.Index
	for i := range list {
		x.Add(&list[i])
	}
	if !x.Differs() {
		t.Error("the messages are sent as they are")
	}
	sent := transcript.Sent(list)
	want := []cairn.Message{cairn.User(cairn.TextPart("hi")), cairn.User(cairn.TextPart(`{"name":"choice","value":{"color":"red"}}`))}
	if !reflect.DeepEqual(sent, want) || !reflect.DeepEqual(transcript.Sent(sent), want) {
		t.Errorf("the model reads %+v", sent)
	}
	if len(list[0].Parts) != 2 || list[1].Parts[0].Data == nil {
		t.Errorf("the transcript has become %+v", list)
	}
}

// The note of a toolset comes before the user's messages that it follows.
func TestNotesPrecedeTheUser(t *testing.T) {
	t.Parallel()
	user := func(text string) cairn.Message { return cairn.User(cairn.TextPart(text)) }
	note := func(text string) cairn.Message {
		m := cairn.Context(text)
		m.Pinned = map[string]json.RawMessage{"shop": json.RawMessage(`{}`)}
		return m
	}
	summary := note("so far")
	summary.Summary = &cairn.Summary{}
	reply := cairn.Message{Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart("reply")}}
	result := cairn.Message{Role: cairn.RoleTool, Parts: []cairn.Part{{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: "c", Tool: "t", Output: json.RawMessage(`1`)}}}}
	for name, test := range map[string]struct {
		list []cairn.Message
		want []int // the messages in the order sent
	}{
		"the first turn":      {[]cairn.Message{user("hi"), note("tools")}, []int{1, 0}},
		"two toolsets":        {[]cairn.Message{user("hi"), note("one"), note("two"), reply}, []int{1, 2, 0, 3}},
		"later turns":         {[]cairn.Message{user("hi"), note("one"), reply, user("again"), note("two"), reply}, []int{1, 0, 2, 4, 3, 5}},
		"several messages":    {[]cairn.Message{reply, user("hi"), user("there"), note("tools")}, []int{0, 3, 1, 2}},
		"context of the step": {[]cairn.Message{user("hi"), cairn.Context("it rains"), note("tools"), reply}, []int{2, 0, 1, 3}},
		"files of a result":   {[]cairn.Message{result, cairn.Context("files"), user("hi"), note("tools")}, []int{0, 1, 3, 2}},
		"no user":             {[]cairn.Message{result, cairn.Context("files"), note("tools")}, []int{0, 1, 2}},
		"after a summary":     {[]cairn.Message{summary, user("hi"), note("tools"), reply}, []int{0, 2, 1, 3}},
		"a summary":           {[]cairn.Message{user("hi"), summary, reply}, []int{0, 1, 2}},
	} {
		var want []cairn.Message
		for _, i := range test.want {
			want = append(want, test.list[i])
		}
		if sent := transcript.Sent(test.list); !reflect.DeepEqual(sent, want) || !reflect.DeepEqual(transcript.Sent(sent), want) {
			t.Errorf("%s: the model is sent %+v", name, sent)
		}
		var x transcript.Index
		for i := range test.list {
			x.Add(&test.list[i])
		}
		if moved := !reflect.DeepEqual(want, test.list); moved && !x.Differs() {
			t.Errorf("%s: the messages are sent as they are", name)
		}
	}
}
