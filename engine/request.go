package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Request returns the request that a reply of a session answered: the instructions and the tools as they were then, see
// [cairn.Fingerprint], and the messages of the transcript that it had. index is the reply's place in the transcript, from
// 0. The error is ErrNotFound if there is no such message, and ErrInvalid if it is not a reply. It is ErrTrimmed for a
// reply that was made before there were fingerprints, and if a block of more than 1 MiB has only its hash.
func (e *Engine) Request(ctx context.Context, id string, index int) (*cairn.SentRequest, error) {
	if index < 0 {
		return nil, cairn.Invalid("message", "must not be negative")
	}
	messages, err := e.messagesTo(ctx, id, index)
	if err != nil {
		return nil, err
	}
	switch {
	case index >= len(messages):
		return nil, &cairn.Error{Code: cairn.ErrNotFound, Field: "message", Message: fmt.Sprintf("session %q has %d messages, no message %d", id, len(messages), index)}
	case messages[index].Role != cairn.RoleAssistant:
		return nil, cairn.Invalid("message", "message %d is not a reply", index)
	}
	out := &cairn.SentRequest{Last: index - 1}
	if f := messages[index].Fingerprint; f != nil {
		out.Changed = f.Changed
	}
	blocks := map[string]json.RawMessage{}
	for i := index; i >= 0; i-- {
		if f := messages[i].Fingerprint; f != nil {
			out.InstructionsHash, out.ToolsHash = cmp.Or(out.InstructionsHash, f.Instructions), cmp.Or(out.ToolsHash, f.Tools)
			maps.Copy(blocks, f.Blocks)
		}
		if s := messages[i].Summary; s != nil && out.Summary == 0 {
			out.Summary, out.First = i, s.From
			if out.Last == i { // it is the last one that was added
				out.Last--
			}
		}
	}
	if out.InstructionsHash == "" || out.ToolsHash == "" {
		return nil, cairn.Errorf(cairn.ErrTrimmed, "message %d has no fingerprint", index)
	}
	decode := func(hash string, v any) error {
		if blocks[hash] == nil {
			return cairn.Errorf(cairn.ErrTrimmed, "the content of block %s of message %d was not kept", hash, index)
		}
		return json.Unmarshal(blocks[hash], v)
	}
	var tools []string
	if err := cmp.Or(decode(out.InstructionsHash, &out.Instructions), decode(out.ToolsHash, &tools)); err != nil {
		return nil, err
	}
	for _, hash := range tools {
		t := cairn.SentTool{Hash: hash}
		if err := decode(hash, &t.ToolSpec); err != nil {
			return nil, err
		}
		out.Tools = append(out.Tools, t)
	}
	return out, nil
}

// messagesTo returns the messages of a session up to an index, which is included.
func (e *Engine) messagesTo(ctx context.Context, id string, index int) (all []cairn.Message, err error) {
	for len(all) <= index {
		page, err := driver.Messages(ctx, e.store, id, len(all), min(index+1-len(all), 1000))
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); len(page) == 0 {
			break
		}
	}
	return all, nil
}
