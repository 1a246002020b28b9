package effects

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/turn"
)

func TestTableHasEveryEffect(t *testing.T) {
	t.Parallel()
	if got, want := slices.Sorted(maps.Keys(table)), slices.Sorted(slices.Values(host.Effects())); !slices.Equal(got, want) {
		t.Errorf("the table has %q, hosts know %q", got, want)
	}
}

// An effect with the input or the output of another, or with none, is refused, and so is one that does not exist.
func TestEffectsOfOtherTypesAreRefused(t *testing.T) {
	t.Parallel()
	outs := map[string]any{host.EffectPlan: new(turn.Planned), host.EffectTool: new(turn.ToolOut), host.EffectChild: new(turn.ChildOut),
		host.EffectJudge: new(turn.Judged), host.EffectCommit: new(turn.Committed)}
	for name := range outs {
		for _, in := range []any{nil, "text", &turn.Position{}, struct{}{}} {
			if err := (&Effects{}).Run(t.Context(), turn.Effect{Name: name, In: in, Out: outs[name]}); !errors.Is(err, cairn.ErrInvalid) {
				t.Errorf("%s with an input of %T: %v", name, in, err)
			}
			if _, ok := turn.Instead(turn.Effect{Name: name, In: in, Out: outs[name]}, &cairn.Error{}); ok {
				t.Errorf("%s with an input of %T can be given up", name, in)
			}
		}
		for other, out := range outs {
			if other == name {
				out = nil
			}
			if err := (&Effects{}).Run(t.Context(), turn.Effect{Name: name, In: turn.Position{}, Out: out}); !errors.Is(err, cairn.ErrInvalid) {
				t.Errorf("%s with an output of %T: %v", name, out, err)
			}
		}
	}
	for _, name := range []string{"dance", "", host.EffectNotify} { // only hosts ask for the last
		if err := (&Effects{}).Run(t.Context(), turn.Effect{Name: name, In: turn.Position{}, Out: new(turn.Notified)}); err == nil || err.Error() != `unknown effect "`+name+`"` {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (&Effects{}).Carry(t.Context(), "dance", []byte("{}")); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("dance: %v", err)
	}
}

// What a host has given up once it may give up again.
func TestInsteadTwice(t *testing.T) {
	t.Parallel()
	for _, name := range []string{host.EffectPlan, host.EffectTool, host.EffectChild, host.EffectJudge, host.EffectNotify} {
		e := turn.Effect{Name: name, In: turn.ChildIn{ToolIn: turn.ToolIn{CallID: "c"}, Driven: "r"}}
		again, ok := turn.Instead(e, &cairn.Error{Code: cairn.ErrInternal})
		if in, fits := turn.InputOf(again); !ok || !fits || in.CallID != "c" || in.Driven != "r" || in.Failed.Code != cairn.ErrInternal {
			t.Errorf("%s: %+v, %t", name, again.In, ok)
		}
	}
}
