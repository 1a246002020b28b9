package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Request returns the request that a reply of a session answered, from the reply's [cairn.Fingerprint]: the instructions
// and the tools as they were then, and which messages of the transcript it had. index is the reply's place in the
// transcript, from 0. The error is ErrNotFound if there is no such message, and ErrInvalid if it is not a reply. A reply that was made before there were fingerprints has none, and
// a block of more than 1 MiB has only its hash: both are ErrTrimmed.
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
	case messages[index].Fingerprint == nil:
		return nil, cairn.Errorf(cairn.ErrTrimmed, "message %d has no fingerprint", index)
	}
	f := *messages[index].Fingerprint
	f.Blocks = nil
	out := &cairn.SentRequest{Fingerprint: f}
	decode := func(hash string, v any) error {
		if hash == "" {
			return nil
		}
		for i := index; i >= 0; i-- {
			if p := messages[i].Fingerprint; p != nil && p.Blocks[hash] != nil {
				return json.Unmarshal(p.Blocks[hash], v)
			}
		}
		return cairn.Errorf(cairn.ErrTrimmed, "the content of block %s of message %d was not kept", hash, index)
	}
	var tools []string
	if err := decode(f.Instructions, &out.Instructions); err != nil {
		return nil, err
	}
	if err := decode(f.Tools, &tools); err != nil {
		return nil, err
	}
	for _, hash := range tools {
		t := cairn.SentTool{Hash: hash}
		if err := decode(hash, &t.ToolSpec); err != nil {
			return nil, err
		}
		out.Tools = append(out.Tools, t)
	}
	if f.Summary > 0 && f.Summary < len(messages) && messages[f.Summary].Summary != nil {
		out.First = messages[f.Summary].Summary.From
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
