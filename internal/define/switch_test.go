package define_test

import (
	"errors"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

func TestToolSwitch(t *testing.T) {
	t.Parallel()
	m, err := define.ToolSwitch(map[string]bool{"refund": false, "lookup": true})
	want := "The tool \"lookup\" is available again.\nThe tool \"refund\" is not available from now on."
	if err != nil || !m.Hidden || len(m.Tools) != 2 || m.Text() != want {
		t.Errorf("the message is %+v, %v", m, err)
	}
	for _, tools := range []map[string]bool{nil, {cairn.FinishTool: false}, {"no tool": true}} {
		if _, err := define.ToolSwitch(tools); !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("a switch of %v: error %v", tools, err)
		}
	}
}
