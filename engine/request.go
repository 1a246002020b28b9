package engine

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Request returns the request that a reply of a session answered, from the reply's [cairn.Fingerprint]: the instructions
// and the tools as they were then, and which messages of the transcript it had. The error is ErrNotFound for an unknown
// message, and ErrInvalid for one that is not a reply. A reply that was made before there were fingerprints has none, and
// a block of more than 1 MiB has only its hash: both are ErrTrimmed.
func (e *Engine) Request(ctx context.Context, id, messageID string) (*cairn.SentRequest, error) {
	messages, err := driver.AllMessages(ctx, e.store, id)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(messages, func(m cairn.Message) bool { return m.ID == messageID })
	switch {
	case at < 0:
		return nil, cairn.Errorf(cairn.ErrNotFound, "session %q: unknown message %q", id, messageID)
	case messages[at].Role != cairn.RoleAssistant:
		return nil, cairn.Invalid("message", "%q is not a reply", messageID)
	case messages[at].Fingerprint == nil:
		return nil, cairn.Errorf(cairn.ErrTrimmed, "message %q has no fingerprint", messageID)
	}
	f := *messages[at].Fingerprint
	f.Blocks = nil
	out := &cairn.SentRequest{Fingerprint: f}
	decode := func(hash string, v any) error {
		if hash == "" {
			return nil
		}
		for i := at; i >= 0; i-- {
			if p := messages[i].Fingerprint; p != nil && p.Blocks[hash] != nil {
				return json.Unmarshal(p.Blocks[hash], v)
			}
		}
		return cairn.Errorf(cairn.ErrTrimmed, "the content of block %s of message %q was not kept", hash, messageID)
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
