package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
)

// Bounds of the files of a result: of all of them in bytes, and of the messages among which the turn's last reply is.
const (
	maxTurnFiles = 8 << 20
	lastMessages = 8
)

// files returns the files of a completed turn's last reply as blocks of a result. A reply that cannot be read any more
// has none.
func (a *Agents) files(ctx context.Context, session string, res *cairn.Result) []sdk.Content {
	m, err := a.lastReply(ctx, session, res)
	if err != nil {
		a.logger.Warn("cannot read the files of a reply", "session", session, "error", err)
	}
	if m == nil {
		return nil
	}
	var list []sdk.Content
	size := 0
	for i := range m.Parts {
		f := m.Parts[i].File
		switch {
		case f == nil:
		case size+len(f.Data) > maxTurnFiles:
			list = append(list, &sdk.TextContent{Text: fmt.Sprintf("File of type %s with %d bytes omitted: the files of the reply are too large.", f.MediaType, len(f.Data))})
		default:
			size += len(f.Data)
			list = append(list, blockOf(f, "cairn:"+url.PathEscape(session)+"/"+url.PathEscape(m.ID)+"/"+fmt.Sprint(i)))
		}
	}
	return list
}

// lastReply returns the message with which a turn has ended; nil if the session has gone on since.
func (a *Agents) lastReply(ctx context.Context, session string, res *cairn.Result) (*cairn.Message, error) {
	row, err := a.eng.Session(ctx, session)
	if err != nil {
		return nil, err
	}
	list, err := a.eng.Messages(ctx, session, max(0, row.MessageCount-lastMessages), lastMessages)
	if err != nil {
		return nil, err
	}
	for i := range slices.Backward(list) {
		if m := &list[i]; m.Role == cairn.RoleAssistant && m.Text() == res.Text {
			return m, nil
		}
	}
	return nil, nil
}

// blockOf returns a file as a block of a result. address names a file that is neither an image nor a sound.
func blockOf(f *cairn.File, address string) sdk.Content {
	kind, _, _ := strings.Cut(f.MediaType, "/")
	switch {
	case f.URL != "":
		return &sdk.ResourceLink{URI: f.URL, Name: f.Name, MIMEType: f.MediaType}
	case kind == "image":
		return &sdk.ImageContent{MIMEType: f.MediaType, Data: f.Data}
	case kind == "audio":
		return &sdk.AudioContent{MIMEType: f.MediaType, Data: f.Data}
	}
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: address, MIMEType: f.MediaType, Blob: f.Data}}
}

// withFiles returns the result of a turn whose last reply has files; nil if it has none. The first block is the output
// as text, for clients that do not read structured content.
func withFiles(out *turnOut, files []sdk.Content) (*sdk.CallToolResult, error) {
	if len(files) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return &sdk.CallToolResult{Content: append([]sdk.Content{&sdk.TextContent{Text: string(raw)}}, files...)}, nil
}
