package torture

import (
	"encoding/json"
	"fmt"

	"github.com/cairn-agents/cairn"
)

// answerTo returns the value that toolInquire records for a question.
func answerTo(c *cairn.PendingCall) int {
	var a amount
	if c.Answer == nil || c.Answer.Kind != cairn.DecisionResult || json.Unmarshal(c.Answer.Value, &a) != nil {
		return unanswered
	}
	return a.N
}

// questionsInOrder finds questions of a call that are not numbered from 1, or were asked before the previous
// question had an answer, and executions of a tool that got another answer than that of the question's number.
func questionsInOrder(h *History) error {
	asked := map[string]map[int]*cairn.PendingCall{} // by call and number
	for i := range h.Calls {
		c := &h.Calls[i]
		if c.Kind != cairn.CallQuestion {
			continue
		}
		list := asked[c.ToolCallID]
		if list == nil {
			list = map[int]*cairn.PendingCall{}
			asked[c.ToolCallID] = list
		}
		if list[c.Number] != nil || c.Prompt != question(c.ToolCallID, c.Number) {
			return fmt.Errorf("question %d of call %s is %q; there before: %t", c.Number, c.ToolCallID, c.Prompt, list[c.Number] != nil)
		}
		list[c.Number] = c
	}
	for call, list := range asked {
		for n := 1; n <= len(list); n++ {
			if list[n] == nil || n < len(list) && list[n].Answer == nil {
				return fmt.Errorf("call %s has %d questions, number %d is %+v", call, len(list), n, list[n])
			}
		}
	}
	for _, r := range h.Journal {
		if r.Kind != learned {
			continue
		}
		if c := asked[r.Call][r.Number]; c == nil || c.Answer == nil || answerTo(c) != r.Learned {
			return fmt.Errorf("a pass of call %s in process %s was given %d for question %d, which is %+v", r.Call, r.Process, r.Learned, r.Number, c)
		}
	}
	return nil
}
