package session

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
)

// maxBlock is the size above which the content of a block is not kept, but only its hash.
const maxBlock = 1 << 20

// fingerprints has the hashes of the latest request's blocks. Most requests of a session have the same ones.
type fingerprints struct {
	instructions, instructionsHash string
	tools                          []cairn.ToolSpec
	toolHashes                     []string
	toolsHash                      string
}

// of returns the fingerprint of a request, with the contents of the blocks that x does not have; nil if it is as the
// latest one that x has.
func (c *fingerprints) of(req *cairn.Request, x *transcript.Index) *cairn.Fingerprint {
	if c.instructions != req.System || c.instructionsHash == "" {
		c.instructions, c.instructionsHash = req.System, hashOf([]byte(req.System))
	}
	if c.toolsHash == "" || !sameTools(c.tools, req.Tools) {
		c.tools, c.toolHashes = slices.Clone(req.Tools), make([]string, len(req.Tools))
		for i := range req.Tools {
			c.toolHashes[i] = hashOf(encodeTool(&req.Tools[i]))
		}
		list, _ := json.Marshal(c.toolHashes) // strings encode
		c.toolsHash = hashOf(list)
	}
	f := &cairn.Fingerprint{}
	keep := func(hash string, content func() []byte) {
		if x.HasBlock(hash) || f.Blocks[hash] != nil {
			return
		}
		raw := content()
		if clean, problem := limits.CleanJSON(raw); problem == "" && len(raw) <= maxBlock {
			if f.Blocks == nil {
				f.Blocks = map[string]json.RawMessage{}
			}
			f.Blocks[hash] = clean
		}
	}
	instructions, tools := x.Blocks()
	if c.instructionsHash != instructions {
		f.Instructions = c.instructionsHash
		keep(f.Instructions, func() []byte { raw, _ := json.Marshal(req.System); return raw })
	}
	if c.toolsHash != tools {
		f.Tools = c.toolsHash
		keep(f.Tools, func() []byte { raw, _ := json.Marshal(c.toolHashes); return raw })
		for i := range req.Tools {
			keep(c.toolHashes[i], func() []byte { return encodeTool(&req.Tools[i]) })
		}
	}
	if f.Instructions == "" && f.Tools == "" {
		return nil
	}
	return f
}

// encodeTool encodes a tool. A schema that is not JSON is none.
func encodeTool(t *cairn.ToolSpec) []byte {
	raw, err := json.Marshal(t)
	if err != nil {
		raw, _ = json.Marshal(cairn.ToolSpec{Name: t.Name, Description: t.Description})
	}
	return raw
}

// hashOf returns the hash of a block: 96 bits of its SHA-256.
func hashOf(block []byte) string {
	sum := sha256.Sum256(block)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// sameTools reports whether two lists have the same tools. Schemas are compared by their place in memory: those of one
// definition are the same slice.
func sameTools(a, b []cairn.ToolSpec) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.Name != y.Name || x.Description != y.Description || len(x.Schema) != len(y.Schema) || len(x.Fields)+len(y.Fields) > 0 ||
			len(x.Schema) > 0 && &x.Schema[0] != &y.Schema[0] {
			return false
		}
	}
	return true
}
