package cairn

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// artifactPart is the size of the parts of an artifact, except for the last one.
const artifactPart = 4 << 20

// Publish makes a file for the user: an artifact of the session. The model does not read it; the tool's result should name
// it. Users can read it, and [EventArtifact] is published, once the step is committed. It ends with the session. An attempt
// that is repeated, or that asks a question, publishes nothing. A result with artifacts is not cached.
//
// name has up to 200 bytes and no path. An empty media type means "application/octet-stream". Publish reads content to its
// end, at most [MaxArtifactBytes]. The error is ErrInvalid for an invalid name or media type, and for a store that keeps no
// blobs; ErrTooLarge for too much content, or for more than [MaxArtifacts] of one call; or the error of content.
func (c *Call) Publish(ctx context.Context, name, mediaType string, content io.Reader) error {
	if mediaType == "" {
		mediaType = "application/octet-stream"
	}
	a := Artifact{Name: name, MediaType: mediaType}
	if err := a.validate(); err != nil {
		return err
	}
	for {
		part := make([]byte, artifactPart)
		n, err := io.ReadFull(content, part)
		if a.Size += int64(n); a.Size > MaxArtifactBytes {
			return &Error{Code: ErrTooLarge, Field: "content", Message: fmt.Sprintf("content: larger than %d bytes", MaxArtifactBytes)}
		}
		if n > 0 {
			key, failed := c.env.StoreBlob(ctx, part[:n])
			if failed != nil {
				return failed
			}
			a.Blobs = append(a.Blobs, key)
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return c.env.Publishes(a.Name, a.MediaType, a.Size, a.Blobs)
		case err != nil:
			return fmt.Errorf("publish %s: %w", name, err)
		}
	}
}

// Artifacts returns the artifacts of the calls whose results a message has, in order. index is the index of the message.
func (m *Message) Artifacts(index int) (list []PublishedArtifact) {
	for i := range m.Parts {
		r := m.Parts[i].Result
		if r == nil {
			continue
		}
		for _, a := range r.Artifacts {
			list = append(list, PublishedArtifact{Artifact: a, Message: index, MessageID: m.ID, File: len(list), CallID: r.CallID, Tool: r.Tool, CreatedAt: m.CreatedAt})
		}
	}
	return list
}
