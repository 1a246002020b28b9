package cairn_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

func researcher() *cairn.Agent {
	return &cairn.Agent{Name: "researcher", Description: "Finds things out.", Model: silent{}}
}

func TestSubAgent(t *testing.T) {
	t.Parallel()
	a := researcher()
	tool := of(cairn.SubAgent(a))
	if tool.Name != "researcher" || tool.Description != "Finds things out." || tool.Agent != a || tool.Wait.Kind != "" || tool.Finishes {
		t.Errorf("tool %+v", tool)
	}
	for arguments, ok := range map[string]bool{
		`{"input":"Who was first?"}`: true, `{"input":""}`: false, `{}`: false, `{"input":1}`: false, `{"input":"a","model":"b"}`: false, `{"Input":"a"}`: false, `"a"`: false,
	} {
		if err := tool.Check(json.RawMessage(arguments)); (err == nil) != ok {
			t.Errorf("arguments %s: %v", arguments, err)
		}
	}
	task, err := tool.Task(json.RawMessage(`{"input":"Who was \"first\"?\n"}`))
	if err != nil || task.Validate() != nil || len(task.Messages) != 1 || task.Messages[0].Role != cairn.RoleUser || task.Messages[0].Text() != "Who was \"first\"?\n" {
		t.Errorf("task %+v, %v", task, err)
	}
	if _, err := tool.Task(json.RawMessage(`{"input":1}`)); cairn.AsError(err) == nil || cairn.AsError(err).Code != cairn.ErrArguments {
		t.Errorf("arguments that do not decode: %v", err)
	}
	if other := of(serverTool()); other.Agent != nil {
		t.Errorf("a function's agent is %+v", other.Agent)
	}
}

func TestSubAgentMistakes(t *testing.T) {
	t.Parallel()
	named := func(name string) cairn.Tool {
		a := researcher()
		a.Name = name
		return cairn.SubAgent(a)
	}
	with := func(opt cairn.ToolOption) cairn.Tool {
		tool := cairn.SubAgent(researcher())
		opt(&tool)
		return tool
	}
	checkTools(t, map[string]string{
		"no agent":         "agent is nil",
		"a name with gaps": "name must be 1 to 64 letters",
		"a long name":      "name must be 1 to 64 letters",
		"a name like ours": "name is reserved",
		"that finishes":    "sub-agent tools do not support FinishWith",
		"with no time":     "timeout is negative",
		"with approval":    "sub-agent tools do not support",
		"assigned":         "only for client-executed tools",
		"bounded":          "only for client-executed tools",
	}, map[string]cairn.Tool{
		"plain":            cairn.SubAgent(researcher()),
		"no agent":         cairn.SubAgent(nil),
		"a name with gaps": named("the researcher"),
		"a long name":      named(strings.Repeat("x", 65)),
		"a name like ours": named(cairn.FinishTool),
		"that finishes":    with(cairn.FinishWith()),
		"with a timeout":   cairn.SubAgent(researcher(), cairn.Timeout(time.Second)),
		"with no time":     cairn.SubAgent(researcher(), cairn.Timeout(-1)),
		"with a cache":     with(cairn.Cache(cairn.CachePolicy{})),
		"with approval":    with(cairn.RequireApproval()),
		"assigned":         with(cairn.AssignTo(cairn.AnyReviewer, "ann")),
		"bounded":          with(cairn.WaitAtMost(time.Hour)),
	})

	a := &cairn.Agent{Name: "support", Model: silent{}, Tools: []cairn.Tool{cairn.SubAgent(researcher()), cairn.SubAgent(researcher())}}
	if err := a.Validate(); err == nil || !strings.Contains(err.Error(), `tool "researcher": duplicate tool name`) {
		t.Errorf("the same sub-agent twice: %v", err)
	}
}

func TestUsageCountsSubAgents(t *testing.T) {
	t.Parallel()
	if sum := (cairn.Usage{SubAgentRuns: 1}).Add(cairn.Usage{SubAgentRuns: 2}); sum.SubAgentRuns != 3 {
		t.Errorf("sum %+v", sum)
	}
}
