package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/toolschema"
)

// Bounds of a list of tools. Tools beyond them are left out and logged.
const (
	maxTools      = 512
	maxPages      = 64
	maxRemoteName = 256
)

// toolSpec is a tool as it is described to a model.
type toolSpec struct {
	// Name is the tool's name for the model, Remote its name on the server.
	Name        string          `json:"name"`
	Remote      string          `json:"remote"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"`
	// Reads reports that the tool only reads, according to the server.
	Reads bool `json:"reads,omitempty"`
}

// same reports whether the two look the same to a model.
func (t *toolSpec) same(other *toolSpec) bool {
	return t.Name == other.Name && t.Remote == other.Remote && t.Description == other.Description && string(t.Schema) == string(other.Schema)
}

// toolList is the list of a server's tools.
type toolList struct {
	tools []toolSpec
	// resources reports that the model has tools for the server's resources.
	resources bool
	// instructions is the server's text about the use of its tools.
	instructions string
	// changes reports that the server announces changes of the list.
	changes bool
	until   time.Time // when the list must be fetched again
}

// fetch lists the tools of a server, in the server's order.
func (e *endpoint) fetch(ctx context.Context, session *sdk.ClientSession) (*toolList, error) {
	list := &toolList{}
	if init := session.InitializeResult(); init != nil {
		list.changes = init.Capabilities != nil && init.Capabilities.Tools != nil && init.Capabilities.Tools.ListChanged
		list.resources = e.opts.Resources && init.Capabilities != nil && init.Capabilities.Resources != nil
		if !e.opts.IgnoreInstructions {
			list.instructions = clean(strings.TrimSpace(init.Instructions), maxDescription)
		}
	}
	ttl, cursor, seen := time.Duration(-1), "", map[string]bool{}
	if list.resources {
		seen[e.opts.Prefix+listTool], seen[e.opts.Prefix+readTool] = true, true
	}
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
				e.opts.Logger.Warn("MCP server has too many tools", "server", e.name, "most", maxTools)
				page.NextCursor = ""
				break
			}
			spec, err := e.specOf(t, seen)
			if err != nil {
				e.opts.Logger.Warn("tool of an MCP server omitted", "server", e.name, "error", err)
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

// excludes reports whether the options leave out a server's tool.
func (e *endpoint) excludes(remote string) bool {
	return len(e.opts.Allow) > 0 && !matches(e.opts.Allow, remote)
}

// specOf converts a server's tool; nil for one that is not allowed. seen are the names that are taken.
func (e *endpoint) specOf(t *sdk.Tool, seen map[string]bool) (*toolSpec, error) {
	if t == nil || t.Name == "" || len(t.Name) > maxRemoteName || cairn.CheckText("name", t.Name) != nil {
		return nil, fmt.Errorf("invalid tool name")
	}
	if e.excludes(t.Name) {
		return nil, nil
	}
	schema, err := json.Marshal(t.InputSchema)
	if err != nil {
		return nil, fmt.Errorf("%q: encode schema: %w", t.Name, err)
	}
	schema, _ = limits.CleanJSON(schema)
	schema = toolschema.Object(schema)
	if err := checkSchema(schema); err != nil {
		return nil, fmt.Errorf("%q: %w", t.Name, err)
	}
	spec := &toolSpec{Name: toolName(e.opts.Prefix, t.Name, seen), Remote: t.Name, Description: clean(t.Description, maxDescription), Schema: schema,
		Reads: t.Annotations != nil && t.Annotations.ReadOnlyHint}
	seen[spec.Name] = true
	return spec, nil
}
