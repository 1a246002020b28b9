package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
)

// Bounds of a list of tools. What exceeds them is left out and logged.
const (
	maxTools       = 512
	maxPages       = 64
	maxDescription = 8 << 10
	maxSchema      = 64 << 10
	maxRemoteName  = 256
)

// toolSpec is a tool as a model is given it.
type toolSpec struct {
	// Name is the model's name for it, Remote the server's.
	Name        string          `json:"name"`
	Remote      string          `json:"remote"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"`
	// Reads says that the tool only reads, by the server's word.
	Reads bool `json:"reads,omitempty"`
}

// same reports whether a model would see no difference.
func (t *toolSpec) same(other *toolSpec) bool {
	return t.Name == other.Name && t.Remote == other.Remote && t.Description == other.Description && string(t.Schema) == string(other.Schema)
}

// toolList is what a server has said of its tools.
type toolList struct {
	tools []toolSpec
	// changes says that the server announces changes of the list.
	changes bool
	until   time.Time // from when it is to be asked again
}

// fetch lists the tools of a server, in its order.
func (s *Server) fetch(ctx context.Context, session *sdk.ClientSession) (*toolList, error) {
	list := &toolList{}
	if init := session.InitializeResult(); init != nil && init.Capabilities != nil && init.Capabilities.Tools != nil {
		list.changes = init.Capabilities.Tools.ListChanged
	}
	ttl, cursor, seen := time.Duration(-1), "", map[string]bool{}
	for range maxPages {
		page, err := session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, err
		}
		if t := time.Duration(page.TTLMs) * time.Millisecond; ttl < 0 || t < ttl {
			ttl = t
		}
		for _, t := range page.Tools {
			if len(list.tools) == maxTools {
				s.opts.Logger.Warn("MCP server has too many tools", "server", s.name, "most", maxTools)
				page.NextCursor = ""
				break
			}
			spec, err := s.specOf(t, seen)
			if err != nil {
				s.opts.Logger.Warn("a tool of an MCP server is left out", "server", s.name, "error", err)
			}
			if spec != nil {
				list.tools = append(list.tools, *spec)
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	list.until = time.Now().Add(min(max(ttl, 0), 24*time.Hour))
	return list, nil
}

// specOf makes of a server's tool what a model is given; nil for one that is not allowed. seen are the names that are taken.
func (s *Server) specOf(t *sdk.Tool, seen map[string]bool) (*toolSpec, error) {
	if t == nil || t.Name == "" || len(t.Name) > maxRemoteName || cairn.CheckText("name", t.Name) != nil {
		return nil, fmt.Errorf("its name cannot be used")
	}
	if len(s.opts.Allow) > 0 && !matches(s.opts.Allow, t.Name) {
		return nil, nil
	}
	schema, err := json.Marshal(t.InputSchema)
	if err != nil {
		return nil, fmt.Errorf("%q: its schema does not encode: %w", t.Name, err)
	}
	if err := checkSchema(schema); err != nil {
		return nil, fmt.Errorf("%q: %w", t.Name, err)
	}
	spec := &toolSpec{Name: toolName(s.opts.Prefix, t.Name, seen), Remote: t.Name, Description: clean(t.Description, maxDescription), Schema: schema,
		Reads: t.Annotations != nil && t.Annotations.ReadOnlyHint}
	seen[spec.Name] = true
	return spec, nil
}

// plainName replaces what the name of a tool cannot have.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
}

// toolName returns the model's name for a server's tool. One that had to be changed, is too long or is taken ends with a hash
// of the server's name, so that it is the same whatever else the server has.
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

// maxName is how long the name of a tool may be.
const maxName = 64

// clean makes text one that a session can keep, of at most so many bytes.
func clean(text string, most int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}
