package fallback_test

import (
	"context"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/fallback"
	"github.com/cairn-agents/cairn/model/modeltest"
	"github.com/cairn-agents/cairn/model/scripted"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	failing := func(step scripted.Step) cairn.Model {
		return scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return step })
	}
	for name, before := range map[string][]cairn.Model{
		"one model":          nil,
		"after a failure":    {failing(fail(cairn.ErrAuth))},
		"after a break":      {failing(scripted.Reply(scripted.Text("They "), scripted.Break()))},
		"after used tokens":  {failing(scripted.Reply(usage(), fail(cairn.ErrOverloaded)))},
		"after two failures": {failing(scripted.Reply(scripted.Text("They "), scripted.Break())), failing(fail(cairn.ErrAuth))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sample, opts := modeltest.Sample()
			modeltest.Run(t, func(testing.TB) cairn.Model {
				return fallback.New(&fallback.Options{Cooldown: -1}, append(before[:len(before):len(before)], named{sample, "sample", "sample"})...)
			}, opts)
		})
	}
}
