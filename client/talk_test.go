package client

import (
	"runtime"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
)

// Adding a piece of text costs the same however long the text already is, and a reply that begins again has all of
// it.
func TestPiecesOfALongText(t *testing.T) {
	var again strings.Builder
	k := &talk{m: &remote{}, request: &request{}, yield: func(cairn.Chunk, error) bool { return true }}
	const piece, pieces = "ten bytes.", 20_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range pieces {
		k.text(piece)
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / pieces; each > 500 {
		t.Errorf("a piece of %d bytes allocates %d", len(piece), each)
	}
	k.yield = func(c cairn.Chunk, _ error) bool {
		again.WriteString(c.Text)
		return true
	}
	if k.repeat(); again.String() != strings.Repeat(piece, pieces) {
		t.Errorf("the reply begins again with %d bytes, not %d", again.Len(), len(piece)*pieces)
	}
}
