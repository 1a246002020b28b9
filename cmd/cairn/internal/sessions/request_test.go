package sessions

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
)

func TestLineDiff(t *testing.T) {
	t.Parallel()
	for _, test := range [][3]string{
		{"a b c", "a b c", ""},
		{"a b c", "a x c d", "- b|+ x|+ d"},
		{"", "a", "- |+ a"},
		{"a b a", "b a b", "- a|+ b"},
	} {
		got := lineDiff(strings.Split(test[0], " "), strings.Split(test[1], " "))
		if strings.Join(got, "|") != test[2] {
			t.Errorf("%q and %q differ in %q, want %q", test[0], test[1], got, test[2])
		}
	}
}

func TestDifferenceOfRequests(t *testing.T) {
	t.Parallel()
	request := func(instructions string, messages, summary int, tools ...string) *cairn.SentRequest {
		r := &cairn.SentRequest{Instructions: instructions, InstructionsHash: instructions, ToolsHash: strings.Join(tools, " "), Last: messages - 1, Summary: summary}
		for _, name := range tools {
			name, hash, _ := strings.Cut(name, "=")
			r.Tools = append(r.Tools, cairn.SentTool{Hash: hash, ToolSpec: cairn.ToolSpec{Name: name}})
		}
		return r
	}
	before, after := request("Be brief.\nBe kind.", 3, 0, "a=1", "b=1", "c=1", "d=1"), request("Be long.\nBe kind.", 9, 7, "c=1", "a=2", "d=1", "e=1")
	d := difference(before, after)
	if !slices.Equal(d.Added, []string{"e"}) || !slices.Equal(d.Removed, []string{"b"}) || !slices.Equal(d.Changed, []string{"a"}) || !d.Reordered {
		t.Errorf("the difference is %+v", d)
	}
	for want, d := range map[string]*requestDifference{
		"Messages: the summary 7, then 0 to 8; before: 0 to 2\nInstructions:\n  - Be brief.\n  + Be long.\nTools:\n  - b\n  + e\n  ~ a\n  in another order\n": d,
		"Messages: 0 to 2; before: 0 to 2\nInstructions: the same\nTools: the same\n":                                                                         difference(before, before),
	} {
		var out bytes.Buffer
		if err := d.print(&out); err != nil || out.String() != want {
			t.Errorf("printed %q, %v, want %q", &out, err, want)
		}
	}
}
