package cairn

import (
	"mime"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/internal/ids"
)

const (
	// MaxArtifactBytes is the maximum size of an artifact.
	MaxArtifactBytes = 256 << 20
	// MaxArtifacts is the maximum number of artifacts that a call can publish.
	MaxArtifacts = 16
)

// Artifact is a file that a session has made for its user: see [Call.Publish].
type Artifact struct {
	// Name is the name of the file, without a path. A later artifact of the session with the same name replaces it for
	// users; both can be read.
	Name string `json:"name"`
	// MediaType is the type of the file, such as "text/csv".
	MediaType string `json:"media_type"`
	// Size is the size of the file in bytes.
	Size int64 `json:"size"`
	// Blobs are the keys of the parts in the store, in order.
	Blobs []string `json:"blobs,omitempty"`
}

// PublishedArtifact is an artifact with its place in the transcript of a session.
type PublishedArtifact struct {
	Artifact
	// Message is the index of the message that has the call's result, and MessageID its id.
	Message   int    `json:"message"`
	MessageID string `json:"message_id"`
	// File is the number of the artifact in the message, from 0.
	File int `json:"file"`
	// CallID and Tool are the call that published it.
	CallID string `json:"call_id"`
	Tool   string `json:"tool"`
	// CreatedAt is when it was committed, by the store's clock.
	CreatedAt time.Time `json:"created_at,omitzero"`
}

func (a *Artifact) validate() error {
	if problem := ids.Check(a.Name); problem != "" {
		return Invalid("artifact.name", "%s", problem)
	}
	if strings.ContainsAny(a.Name, `/\`) || a.Name == "." || a.Name == ".." {
		return Invalid("artifact.name", "%q is a path, want a name", a.Name)
	}
	if _, _, err := mime.ParseMediaType(a.MediaType); err != nil || !strings.Contains(a.MediaType, "/") || len(a.MediaType) > ids.MaxLength {
		return Invalid("artifact.media_type", "%q is not a media type", a.MediaType)
	}
	if a.Size < 0 || a.Size > MaxArtifactBytes {
		return Invalid("artifact.size", "%d is not between 0 and %d", a.Size, MaxArtifactBytes)
	}
	for _, key := range a.Blobs {
		if err := CheckText("artifact.blobs", key); err != nil {
			return err
		}
	}
	return CheckText("artifact.media_type", a.MediaType)
}
