package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
)

// The methods behind the tools with which a model lists and reads resources. Patterns of Options.Approve match them.
const (
	methodList = "resources/list"
	methodRead = "resources/read"
)

// Bounds of a list of resources for a model: how many of them, and of templates, it has, the size of a text, and that
// of an address.
const (
	maxShown     = 100
	maxShownText = 1 << 10
	maxURI       = 2 << 10
)

// shownList is a list of resources as a model reads it.
type shownList struct {
	Resources []shownResource `json:"resources"`
	Templates []shownResource `json:"templates,omitempty"`
	// LeftOut is how many more there are.
	LeftOut int `json:"left_out,omitempty"`
}

// shownResource is a resource or a template as a model reads it.
type shownResource struct {
	URI         string `json:"uri,omitempty"`
	Template    string `json:"uri_template,omitempty"`
	Name        string `json:"name,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"media_type,omitempty"`
	Size        int64  `json:"size,omitempty"`
}

// has reports whether a text of the resource contains a text in lower case.
func (r *shownResource) has(query string) bool {
	for _, text := range []string{r.URI, r.Template, r.Name, r.Title, r.Description} {
		if strings.Contains(strings.ToLower(text), query) {
			return true
		}
	}
	return false
}

var (
	listSchema = json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"Only entries with this text in their address, name or description."}},"additionalProperties":false}`)
	readSchema = json.RawMessage(`{"type":"object","properties":{"uri":{"type":"string","description":"The address of a resource, or an address template with its variables filled in."}},"required":["uri"],"additionalProperties":false}`)
)

// resourceTools returns the tools with which a model lists and reads the server's resources.
func (s *Server) resourceTools() []cairn.Tool {
	list := s.reader(listTool, methodList, fmt.Sprintf("Lists the resources of %s, and address templates of further ones.", s.name), listSchema, s.listFor)
	read := s.reader(readTool, methodRead, fmt.Sprintf("Reads a resource of %s.", s.name), readSchema, s.readFor)
	return []cairn.Tool{list, read}
}

// reader returns a tool whose calls make requests that only read.
func (s *Server) reader(name, method, description string, schema json.RawMessage, do func(ctx context.Context, user string, input json.RawMessage) (*result, error)) cairn.Tool {
	opts := []cairn.ToolOption{cairn.Timeout(s.opts.Timeout)}
	if matches(s.opts.Approve, method) {
		opts = append(opts, cairn.RequireApproval())
	}
	if s.opts.Deferred {
		opts = append(opts, cairn.Deferred())
	}
	return cairn.RawFunc(s.opts.Prefix+name, description, schema, func(ctx context.Context, call *cairn.Call, input json.RawMessage) (json.RawMessage, error) {
		for range maxConnects + 1 {
			r, err := cairn.Once(ctx, call, func(ctx context.Context) (*result, error) {
				r, err := do(ctx, call.UserID, input)
				switch {
				case needsConnect(err):
					return &result{Type: mustConnect}, nil
				case errors.Is(err, errForbidden):
					return nil, s.notPermitted()
				}
				return r, err
			})
			if err != nil {
				return nil, err
			}
			if r.Type != mustConnect {
				return s.finish(call, r)
			}
			if err := s.opts.Auth.connect(ctx, call); err != nil {
				return nil, err
			}
		}
		return nil, s.notPermitted()
	}, opts...)
}

// listFor returns the list of resources that match a query, and of templates.
func (s *Server) listFor(ctx context.Context, user string, input json.RawMessage) (*result, error) {
	var in struct{ Query string }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, cairn.Errorf(cairn.ErrArguments, "decode arguments: %w", err)
	}
	query := strings.ToLower(in.Query)
	out := shownList{Resources: []shownResource{}}
	for r, err := range s.Resources(ctx, user) {
		if err != nil {
			return nil, err
		}
		out.add(&out.Resources, r.URI, query, shownResource{URI: r.URI, Size: r.Size}, r.Name, r.Title, r.Description, r.MIMEType)
	}
	for r, err := range s.ResourceTemplates(ctx, user) {
		if err != nil {
			return nil, err
		}
		out.add(&out.Templates, r.URITemplate, query, shownResource{Template: r.URITemplate}, r.Name, r.Title, r.Description, r.MIMEType)
	}
	raw, err := json.Marshal(out)
	return &result{Type: complete, Data: raw}, err
}

// add adds a resource to one of the lists. It leaves out what a model could not name as the server does.
func (l *shownList) add(to *[]shownResource, address, query string, r shownResource, name, title, description, media string) {
	r.Name, r.Title = clean(name, 256), clean(title, 256)
	r.Description, r.MIMEType = clean(description, maxShownText), clean(media, 256)
	switch {
	case address == "" || address != clean(address, maxURI) || !r.has(query):
	case len(*to) == maxShown:
		l.LeftOut++
	default:
		*to = append(*to, r)
	}
}

// readFor returns the contents of a resource in the form of a result of a tool.
func (s *Server) readFor(ctx context.Context, user string, input json.RawMessage) (*result, error) {
	var in struct{ URI string }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, cairn.Errorf(cairn.ErrArguments, "decode arguments: %w", err)
	}
	contents, err := s.read(ctx, user, in.URI)
	if err != nil {
		return nil, err
	}
	blocks := make([]map[string]any, len(contents))
	for i, c := range contents {
		blocks[i] = map[string]any{"type": "resource", "resource": c}
	}
	raw, err := json.Marshal(map[string]any{"content": blocks})
	if err != nil {
		return nil, err
	}
	return decodeResult(raw)
}
