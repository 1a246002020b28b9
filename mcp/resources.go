package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
)

// Resource describes data that a server offers, such as a file. Its texts are the server's, which is not trusted.
type Resource struct {
	URI         string
	Name        string
	Title       string
	Description string
	// MIMEType is the type of the contents, "" if the server does not say.
	MIMEType string
	// Size is the size of the contents in bytes, 0 if the server does not say.
	Size int64
}

// ResourceTemplate describes resources whose addresses have variables (RFC 6570). Its texts are the server's, which is
// not trusted.
type ResourceTemplate struct {
	// URITemplate is the template of the addresses, such as "file:///{path}". [Server.ReadResource] reads the address
	// that it is once its variables are filled in.
	URITemplate string
	Name        string
	Title       string
	Description string
	// MIMEType is the type of the contents, "" if it differs from one resource to the next or the server does not say.
	MIMEType string
}

// Contents is a resource, or a part of one, as it was read.
type Contents struct {
	URI      string
	MIMEType string
	// Text is the content of a text, Data the content of anything else.
	Text string
	Data []byte
}

// Prompt describes a template of messages that a server offers.
type Prompt struct {
	Name        string
	Title       string
	Description string
	Arguments   []PromptArgument
}

// PromptArgument is an argument of a [Prompt].
type PromptArgument struct {
	Name        string
	Description string
	Required    bool
}

// maxListed bounds the resources, and the prompts, of a server.
const maxListed = 10_000

// Resources yields the resources that a server offers a user; user is "" where all share one account. The error is
// ErrNotConnected if the user has to connect an account first, and ErrTooLarge after 10,000 resources. A server that
// offers none yields none.
func (s *Server) Resources(ctx context.Context, user string) iter.Seq2[*Resource, error] {
	return listed(ctx, s, user, func(ctx context.Context, session *sdk.ClientSession, cursor string) ([]*Resource, string, error) {
		if c := session.InitializeResult(); c == nil || c.Capabilities == nil || c.Capabilities.Resources == nil {
			return nil, "", nil
		}
		page, err := session.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		var list []*Resource
		for _, r := range page.Resources {
			list = append(list, &Resource{URI: r.URI, Name: r.Name, Title: r.Title, Description: r.Description, MIMEType: r.MIMEType, Size: r.Size})
		}
		return list, page.NextCursor, nil
	})
}

// ResourceTemplates yields the templates of addresses of resources that a server offers a user, see
// [Server.Resources].
func (s *Server) ResourceTemplates(ctx context.Context, user string) iter.Seq2[*ResourceTemplate, error] {
	return listed(ctx, s, user, func(ctx context.Context, session *sdk.ClientSession, cursor string) ([]*ResourceTemplate, string, error) {
		if c := session.InitializeResult(); c == nil || c.Capabilities == nil || c.Capabilities.Resources == nil {
			return nil, "", nil
		}
		page, err := session.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{Cursor: cursor})
		if errors.Is(missing(err, "", ""), cairn.ErrNotFound) { // a server of resources need not have templates
			return nil, "", nil
		}
		if err != nil {
			return nil, "", err
		}
		var list []*ResourceTemplate
		for _, r := range page.ResourceTemplates {
			list = append(list, &ResourceTemplate{URITemplate: r.URITemplate, Name: r.Name, Title: r.Title, Description: r.Description, MIMEType: r.MIMEType})
		}
		return list, page.NextCursor, nil
	})
}

// ReadResource reads a resource of a server for a user, see [Server.Resources]. The error is ErrNotFound if the server
// has no such resource.
func (s *Server) ReadResource(ctx context.Context, user, uri string) ([]Contents, error) {
	contents, err := s.read(ctx, user, uri)
	if err != nil {
		return nil, err
	}
	list := make([]Contents, len(contents))
	for i, c := range contents {
		list[i] = Contents{URI: c.URI, MIMEType: c.MIMEType, Text: c.Text, Data: c.Blob}
	}
	return list, nil
}

// read is ReadResource in the protocol's form.
func (s *Server) read(ctx context.Context, user, uri string) ([]*sdk.ResourceContents, error) {
	return requested(ctx, s, user, func(ctx context.Context, session *sdk.ClientSession) ([]*sdk.ResourceContents, error) {
		res, err := session.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
		if err != nil {
			return nil, missing(err, "resource", uri)
		}
		if len(res.InputRequests) > 0 || res.RequestState != "" {
			return nil, errAsks
		}
		return res.Contents, nil
	})
}

// Prompts yields the prompts that a server offers a user, see [Server.Resources].
func (s *Server) Prompts(ctx context.Context, user string) iter.Seq2[*Prompt, error] {
	return listed(ctx, s, user, func(ctx context.Context, session *sdk.ClientSession, cursor string) ([]*Prompt, string, error) {
		if c := session.InitializeResult(); c == nil || c.Capabilities == nil || c.Capabilities.Prompts == nil {
			return nil, "", nil
		}
		page, err := session.ListPrompts(ctx, &sdk.ListPromptsParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		var list []*Prompt
		for _, p := range page.Prompts {
			prompt := &Prompt{Name: p.Name, Title: p.Title, Description: p.Description}
			for _, a := range p.Arguments {
				prompt.Arguments = append(prompt.Arguments, PromptArgument{Name: a.Name, Description: a.Description, Required: a.Required})
			}
			list = append(list, prompt)
		}
		return list, page.NextCursor, nil
	})
}

// Prompt returns the messages of a server's prompt for a user, see [Server.Resources]: texts, and images and PDFs as
// files. Anything else is described in a text. The error is ErrNotFound if the server has no such prompt, or does not
// accept the arguments. The messages are the server's, which is not trusted: show them to the user before they are
// sent.
func (s *Server) Prompt(ctx context.Context, user, name string, arguments map[string]string) ([]cairn.Message, error) {
	return requested(ctx, s, user, func(ctx context.Context, session *sdk.ClientSession) ([]cairn.Message, error) {
		res, err := session.GetPrompt(ctx, &sdk.GetPromptParams{Name: name, Arguments: arguments})
		if err != nil {
			return nil, missing(err, "prompt", name)
		}
		if len(res.InputRequests) > 0 || res.RequestState != "" {
			return nil, errAsks
		}
		var list []cairn.Message
		files := 0
		for _, m := range res.Messages {
			message, err := messageOf(m, &files)
			if err != nil {
				return nil, err
			}
			list = append(list, message)
		}
		return list, nil
	})
}

// messageOf converts a message of a prompt. files counts the files so far.
func messageOf(m *sdk.PromptMessage, files *int) (cairn.Message, error) {
	raw, err := json.Marshal(m.Content)
	if err != nil {
		return cairn.Message{}, err
	}
	raw, _ = limits.CleanJSON(raw)
	var c content
	if err := json.Unmarshal(raw, &c); err != nil {
		return cairn.Message{}, err
	}
	role := cairn.RoleUser
	if m.Role == "assistant" {
		role = cairn.RoleAssistant
	}
	b, file := c.show(*files)
	switch {
	case file != nil:
		*files++
		return cairn.Message{Role: role, Parts: []cairn.Part{cairn.FilePart(*file)}}, nil
	case b.Type == "text" || b.Text != "" && b.Note == "":
		return cairn.Message{Role: role, Parts: []cairn.Part{cairn.TextPart(b.Text)}}, nil
	}
	described, err := json.Marshal(b)
	return cairn.Message{Role: role, Parts: []cairn.Part{cairn.TextPart(string(described))}}, err
}

// errAsks reports that a server asks the user something where no call of a tool can wait for the answer.
var errAsks = refused("the server requests input, which is supported only in tool calls")

// codeNotFound is the code of a resource that does not exist, in revisions before 2026-07-28.
const codeNotFound = -32002

// missing returns the error of a request for something that a server says does not exist: by the code for it, or by
// that for wrong parameters, as revision 2026-07-28 demands.
func missing(err error, what, name string) error {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) && (wire.Code == codeNotFound || wire.Code == jsonrpc.CodeInvalidParams || wire.Code == jsonrpc.CodeMethodNotFound) {
		return refusal{cairn.Errorf(cairn.ErrNotFound, "%s %q not found: %s", what, clean(name, 256), clean(wire.Message, maxDescription))}
	}
	return err
}

// requested makes a request that only reads, for a user.
func requested[T any](ctx context.Context, s *Server, user string, do func(context.Context, *sdk.ClientSession) (T, error)) (T, error) {
	var zero T
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	l, err := s.link(user)
	if err != nil {
		return zero, err
	}
	value, err := retried(ctx, l, do)
	if err != nil {
		return zero, fmt.Errorf("MCP server %q: %w", s.name, err)
	}
	return value, nil
}

// listed yields what a server lists page by page.
func listed[T any](ctx context.Context, s *Server, user string, page func(context.Context, *sdk.ClientSession, string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		for cursor, n, pages := "", 0, 0; pages == 0 || cursor != ""; pages++ {
			list, err := requested(ctx, s, user, func(ctx context.Context, session *sdk.ClientSession) (list []T, err error) {
				list, cursor, err = page(ctx, session, cursor)
				return list, err
			})
			if n += len(list); err == nil && (n > maxListed || pages == maxListed) {
				err = cairn.Errorf(cairn.ErrTooLarge, "MCP server %q lists more than %d entries", s.name, maxListed)
			}
			if err != nil {
				yield(zero, err)
				return
			}
			for _, v := range list {
				if !yield(v, nil) {
					return
				}
			}
		}
	}
}
