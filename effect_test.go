package cairn_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
)

func TestMistakesOfEffectfulTools(t *testing.T) {
	t.Parallel()
	pay := func(opts ...cairn.ToolOption) cairn.Tool {
		return cairn.Func("x", "", func(context.Context, *cairn.Call, struct{}) (string, error) { return "", nil }, opts...)
	}
	probe := cairn.Confirm(func(context.Context, string) (bool, string, error) { return false, "", nil })
	for name, c := range map[string]struct {
		tool cairn.Tool
		says string
	}{
		"client tool":        {cairn.ClientTool[struct{}, string]("x", "", cairn.Effectful()), "for functions"},
		"sub-agent":          {cairn.SubAgent(&cairn.Agent{Name: "x", Model: goodAgent().Model}, cairn.Effectful()), "for functions"},
		"cached":             {pay(cairn.Effectful(), cairn.Cache(cairn.CachePolicy{TTL: 1})), "not both"},
		"finishing":          {pay(cairn.FinishWith(), cairn.Effectful()), "finish"},
		"Confirm alone":      {pay(probe), "requires Effectful"},
		"no function":        {pay(cairn.Effectful(), cairn.Confirm[string](nil)), "nil"},
		"right":              {pay(cairn.Effectful(), probe, cairn.AssignTo(cairn.AnyReviewer, "ann"), cairn.Serial()), ""},
		"right, if approved": {pay(cairn.RequireApproval(), cairn.Effectful()), ""},
	} {
		a := goodAgent()
		a.Output, a.Tools = nil, []cairn.Tool{c.tool}
		switch err := a.Validate(); {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), `"x"`)):
			t.Errorf("%s: error %v, want one that says %q", name, err, c.says)
		}
	}
}

func TestAnswersToAnEffect(t *testing.T) {
	t.Parallel()
	c := cairn.CallRef{ID: "e1", Kind: cairn.CallEffect}
	for want, s := range map[string]cairn.Submission{
		`{"outcome":"happened","result":{"n":7}}`:       cairn.Happened(c, map[string]int{"n": 7}),
		`{"outcome":"happened"}`:                        cairn.Happened(c, nil),
		`{"outcome":"did_not_happen"}`:                  cairn.DidNotHappen(c, ""),
		`{"outcome":"did_not_happen","result":"empty"}`: cairn.DidNotHappen(c, "empty"),
		`{"outcome":"try_again"}`:                       cairn.TryAgain(c),
	} {
		if err := s.Validate(); err != nil || s.Type != cairn.SubmitAnswer || string(s.Value) != want {
			t.Errorf("%s: %+v, %v", want, s, err)
		}
	}
	if s := cairn.Happened(c, func() {}); s.Validate() == nil {
		t.Error("a result that does not encode is accepted")
	}
}
