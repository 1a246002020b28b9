package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/cairn-agents/cairn"
)

// maxName is the maximum length of a tool's name.
const maxName = 64

// Names, after the server's prefix, of the tools that are not the server's own.
const (
	callTool    = "call_new_tool"
	connectTool = "connect"
	listTool    = "list_resources"
	readTool    = "read_resource"
)

// toolName returns the model's name for a server's tool. A name that had to be changed, is too long or is taken
// ends with a hash of the server's name for the tool, so that it does not depend on which other tools the server
// has.
func toolName(prefix, remote string, seen map[string]bool) string {
	name := prefix + plainName(remote)
	if strings.ContainsAny(name[:1], "0123456789-") {
		name = "_" + name
	}
	reserved := name == prefix+callTool || name == prefix+connectTool || name == cairn.FinishTool
	if name == prefix+remote && len(name) <= maxName && !seen[name] && !reserved && !strings.HasPrefix(name, "companion__") {
		return name
	}
	sum := sha256.Sum256([]byte(remote))
	tail := "_" + hex.EncodeToString(sum[:4])
	if strings.HasPrefix(name, "companion__") {
		name = "_" + name
	}
	return name[:min(len(name), maxName-len(tail))] + tail
}
