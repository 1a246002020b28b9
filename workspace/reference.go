package workspace

import (
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store/driver"
)

// reference names a state of a workspace.
type reference struct {
	// root is the key of the tree; empty for an empty workspace.
	root string
	// unsaved distinguishes a state that no snapshot has, because it is too large: root is then the last one that there
	// is. Only the directory that is marked with the reference has the state.
	unsaved string
	// owner has stored the tree; zero if it is unknown.
	owner driver.BlobOwner
}

// String returns the reference as results keep it: the tree's hash, "+" and what distinguishes an unsaved state, "@" and
// the owner. A very long owner is left out.
func (r reference) String() string {
	raw, _ := hex.DecodeString(r.root)
	text := base64.RawURLEncoding.EncodeToString(raw)
	if r.unsaved != "" {
		text += "+" + r.unsaved
	}
	if full := text + "@" + r.owner.Incarnation + "/" + r.owner.Root; r.owner.Root != "" && len(full) <= cairn.MaxWorkspaceRef {
		return full
	}
	return text
}

// parseReference returns the reference of a text; the zero one for an empty text.
func parseReference(text string) (r reference, err error) {
	state, owner, _ := strings.Cut(text, "@")
	root, unsaved, _ := strings.Cut(state, "+")
	raw, err := base64.RawURLEncoding.DecodeString(root)
	if err != nil || len(raw) != 0 && len(raw) != 32 {
		return r, cairn.Errorf(cairn.ErrCorrupt, "the session's workspace has an unknown reference %q", text)
	}
	r.root, r.unsaved = hex.EncodeToString(raw), unsaved
	r.owner.Incarnation, r.owner.Root, _ = strings.Cut(owner, "/")
	return r, nil
}

// snapshotID returns the text by which the model knows a tree; the tree of such a text is found by parseReference.
func snapshotID(root string) string { return reference{root: root}.String() }

// directoryID returns the id of a session's directory.
func directoryID(session, incarnation string) string {
	return driver.BlobKey([]byte(ids.Derive("dir", session, incarnation)))[:32]
}
