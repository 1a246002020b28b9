package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/schema"
)

// offer is what a session has pinned of a server. The list that is sent to the model never changes after the
// session first saw the server, since the provider's cached prefix begins with it. Tools added later are called
// through a tool that was in the list from the start.
type offer struct {
	// Base are the tools of the list.
	Base []toolSpec `json:"base,omitempty"`
	// Gone are the names of tools in Base that are gone or have changed.
	Gone []string `json:"gone,omitempty"`
	// Added are tools that were added later, and those in Gone that have changed.
	Added []toolSpec `json:"added,omitempty"`
	// Through reports that the list has the tool that calls the added ones.
	Through bool `json:"through,omitempty"`
	// Resources reports that the list has the tools for the server's resources.
	Resources bool `json:"resources,omitempty"`
	// Instructions is the server's text about the use of its tools, as the model was given it last.
	Instructions string `json:"instructions,omitempty"`
	// Connect reports that the list is the tool that asks the user to connect an account.
	Connect bool `json:"connect,omitempty"`
}

// next returns what to pin for a new list, and a note about the changes for the model; an empty note if nothing has
// changed.
func (before *offer) next(s *Server, list *toolList) (now *offer, note string) {
	now, note = before.retool(s, list)
	said, says := "", list.instructions
	if before != nil {
		said = before.Instructions
	}
	if len(now.Base)+len(now.Added) == 0 && !now.Resources {
		says = ""
	}
	if now == before && says == said {
		return before, ""
	}
	now = new(*now)
	if now.Instructions = says; says == said {
		return now, note
	}
	return now, strings.TrimPrefix(note+"\n"+s.instructs(said, says), "\n")
}

// instructs informs the model of a server's instructions. A server is neither the system nor the user, so its text is
// quoted.
func (s *Server) instructs(said, says string) string {
	const whose = "text of the server, not of the user or the operator, about the use of its tools"
	switch {
	case says == "":
		return fmt.Sprintf("%s no longer gives instructions. Ignore its earlier ones.", s.name)
	case said != "":
		return fmt.Sprintf("The instructions of %s have changed, a %s. They are now: %s", s.name, whose, quoted(says))
	}
	return fmt.Sprintf("Instructions of %s, a %s: %s", s.name, whose, quoted(says))
}

// retool is next for the tools alone.
func (before *offer) retool(s *Server, list *toolList) (now *offer, note string) {
	tools := fit(s, list.tools)
	if before == nil || before.Connect || !before.Through || s.opts.Deferred {
		if before != nil && !before.Connect && before.Resources == list.resources && slices.EqualFunc(before.Base, tools, func(a, b toolSpec) bool { return a.same(&b) }) {
			return before, ""
		}
		now = &offer{Base: tools, Through: list.changes && len(tools) > 0 && !s.opts.Deferred, Resources: list.resources}
		all := names(tools)
		if now.Resources {
			all = append(all, s.opts.Prefix+listTool, s.opts.Prefix+readTool)
		}
		if len(all) == 0 && before == nil {
			return now, ""
		}
		switch {
		case len(all) == 0:
			return now, fmt.Sprintf("%s has no tools.", s.name)
		case s.opts.Deferred:
			return now, fmt.Sprintf("%s has %d tools.", s.name, len(all))
		}
		return now, fmt.Sprintf("Tools from %s: %s.", s.name, strings.Join(all, ", "))
	}
	now = &offer{Base: s.allowed(before.Base), Through: true, Resources: before.Resources && s.opts.Resources}
	for _, t := range now.Base {
		if !slices.ContainsFunc(tools, func(o toolSpec) bool { return t.same(&o) }) {
			now.Gone = append(now.Gone, t.Name)
		}
	}
	for _, t := range tools {
		if !slices.ContainsFunc(now.Base, func(o toolSpec) bool { return t.same(&o) }) {
			now.Added = append(now.Added, t)
		}
	}
	if before.Resources == now.Resources && len(before.Base) == len(now.Base) && slices.Equal(before.Gone, now.Gone) && slices.EqualFunc(before.Added, now.Added, func(a, b toolSpec) bool { return a.same(&b) }) {
		return before, ""
	}
	return now, s.changes(before, now)
}

// changes describes to the model what has changed.
func (s *Server) changes(before, now *offer) string {
	lines := []string{fmt.Sprintf("The tools of %s have changed.", s.name)}
	for _, t := range now.Base {
		was, is := slices.Contains(before.Gone, t.Name), slices.Contains(now.Gone, t.Name)
		switch {
		case is && !was && slices.ContainsFunc(now.Added, func(o toolSpec) bool { return o.Name == t.Name }):
			lines = append(lines, fmt.Sprintf("%s has changed.", t.Name))
		case is && !was:
			lines = append(lines, fmt.Sprintf("%s is no longer available.", t.Name))
		case was && !is:
			lines = append(lines, fmt.Sprintf("%s is available again in its original form.", t.Name))
		}
	}
	for _, t := range before.Base {
		if s.excludes(t.Remote) {
			lines = append(lines, fmt.Sprintf("%s is no longer available.", t.Name))
		}
	}
	if before.Resources && !now.Resources {
		for _, t := range s.resourceTools() {
			lines = append(lines, fmt.Sprintf("%s is no longer available.", t.Name()))
		}
	}
	for _, t := range before.Added {
		if !slices.ContainsFunc(now.Added, func(o toolSpec) bool { return o.Name == t.Name }) && !slices.ContainsFunc(now.Base, func(o toolSpec) bool { return o.Name == t.Name }) {
			lines = append(lines, fmt.Sprintf("%s is no longer available.", t.Name))
		}
	}
	for _, t := range now.Added {
		if slices.ContainsFunc(before.Added, func(o toolSpec) bool { return t.same(&o) }) {
			continue
		}
		lines = append(lines, fmt.Sprintf("Call %s with %s%s. Its description: %s. The schema of its arguments: %s", t.Name, s.opts.Prefix, callTool, quoted(t.Description), t.Schema))
	}
	return strings.Join(lines, "\n")
}

// allowed returns the tools of a list that the options do not leave out. The options may have changed since a session
// first saw the server: a tool that was excluded leaves the session, although the provider's cached prefix changes.
func (s *Server) allowed(tools []toolSpec) []toolSpec {
	if !slices.ContainsFunc(tools, func(t toolSpec) bool { return s.excludes(t.Remote) }) {
		return tools
	}
	return slices.DeleteFunc(slices.Clone(tools), func(t toolSpec) bool { return s.excludes(t.Remote) })
}

// Restate implements [cairn.RestatedToolset].
func (s *Server) Restate(pinned json.RawMessage) (string, error) {
	var o offer
	if err := json.Unmarshal(pinned, &o); err != nil {
		return "", fmt.Errorf("decode pinned offer: %w", err)
	}
	var lines []string
	if len(o.Gone)+len(o.Added) > 0 {
		lines = append(lines, s.changes(&offer{Base: o.Base}, &o))
	}
	if o.Instructions != "" {
		lines = append(lines, s.instructs("", o.Instructions))
	}
	return strings.Join(lines, "\n"), nil
}

// left returns what stays pinned once the tools have left that the options exclude; nil if there are none of them.
func (s *Server) left(before *offer) *offer {
	if before == nil {
		return nil
	}
	now := *before
	now.Base, now.Added, now.Resources = s.allowed(before.Base), s.allowed(before.Added), before.Resources && s.opts.Resources
	if now.Resources == before.Resources && len(now.Base) == len(before.Base) && len(now.Added) == len(before.Added) {
		return nil
	}
	now.Gone = slices.DeleteFunc(slices.Clone(before.Gone), func(name string) bool {
		return !slices.ContainsFunc(now.Base, func(t toolSpec) bool { return t.Name == name })
	})
	return &now
}

// fit returns as many tools of a list as can be pinned.
func fit(s *Server, tools []toolSpec) []toolSpec {
	total := 0
	for i := range tools {
		if total += len(tools[i].Schema) + len(tools[i].Description) + 4*maxName; total > cairn.MaxPinnedBytes/4 {
			s.opts.Logger.Warn("tools of an MCP server omitted: the list is too large", "server", s.name, "tools", len(tools), "kept", i)
			return tools[:i]
		}
	}
	return tools
}

func names(tools []toolSpec) []string {
	list := make([]string, len(tools))
	for i := range tools {
		list[i] = tools[i].Name
	}
	return list
}

// Tools implements [cairn.Toolset].
func (s *Server) Tools(pinned json.RawMessage) ([]cairn.Tool, error) {
	var o offer
	if err := json.Unmarshal(pinned, &o); err != nil {
		return nil, err
	}
	if o.Connect {
		return []cairn.Tool{s.connecting()}, nil
	}
	var list []cairn.Tool
	for _, t := range s.allowed(o.Base) {
		if slices.Contains(o.Gone, t.Name) {
			list = append(list, s.gone(&t))
		} else {
			list = append(list, s.tool(&t))
		}
	}
	if o.Resources && s.opts.Resources {
		list = append(list, s.resourceTools()...)
	}
	if o.Through {
		list = append(list, s.through(s.allowed(o.Added)))
	}
	return list, nil
}

// tool converts a server's tool into an agent's.
func (s *Server) tool(t *toolSpec) cairn.Tool {
	spec := *t
	opts := append(s.opts.fields(), cairn.Timeout(s.opts.Timeout))
	switch {
	case matches(s.opts.Approve, spec.Remote):
		opts = append(opts, cairn.RequireApproval())
	case matches(s.opts.Effectful, spec.Remote): // not cached
	case s.opts.Cache != nil && spec.Reads:
		opts = append(opts, cairn.Cache(*s.opts.Cache))
	}
	if matches(s.opts.Effectful, spec.Remote) {
		opts = append(opts, cairn.Effectful())
	}
	if s.opts.Deferred {
		opts = append(opts, cairn.Deferred())
	}
	return cairn.RawFunc(spec.Name, spec.Description, spec.Schema, func(ctx context.Context, call *cairn.Call, input json.RawMessage) (json.RawMessage, error) {
		return s.call(ctx, call, spec.Remote, input)
	}, opts...)
}

// gone returns the tool that replaces in the list one that is gone or has changed.
func (s *Server) gone(t *toolSpec) cairn.Tool {
	return cairn.RawFunc(t.Name, t.Description, t.Schema, func(context.Context, *cairn.Call, json.RawMessage) (json.RawMessage, error) {
		return nil, cairn.Errorf(cairn.ErrUnknownTool, "the tool has changed or is no longer available; see the earlier notice")
	})
}

// newCall is the input of the tool that calls tools added later.
type newCall struct {
	Tool      string          `json:"tool" jsonschema:"The tool's name."`
	Arguments json.RawMessage `json:"arguments" jsonschema:"Its arguments, an object that matches its schema."`
}

var newCallSchema = json.RawMessage(`{"type":"object","properties":{"tool":{"type":"string","description":"The tool's name."},` +
	`"arguments":{"type":"object","description":"Its arguments, which must match its schema."}},"required":["tool","arguments"],"additionalProperties":false}`)

// through returns the tool that calls the ones added later.
func (s *Server) through(added []toolSpec) cairn.Tool {
	find := func(name string) *toolSpec {
		if i := slices.IndexFunc(added, func(t toolSpec) bool { return t.Name == name }); i >= 0 {
			return &added[i]
		}
		return nil
	}
	opts := []cairn.ToolOption{cairn.Timeout(s.opts.Timeout)}
	if len(s.opts.Approve) > 0 {
		opts = append(opts, cairn.RequireApprovalIf(func(_ context.Context, _ *cairn.Call, in newCall) (*cairn.Prompt, error) {
			t := find(in.Tool)
			if t == nil || !matches(s.opts.Approve, t.Remote) {
				return nil, nil
			}
			return &cairn.Prompt{Text: fmt.Sprintf("Call %s of %s?", t.Name, s.name)}, nil
		}))
	}
	if slices.ContainsFunc(added, func(t toolSpec) bool { return matches(s.opts.Effectful, t.Remote) }) {
		opts = append(opts, cairn.Effectful())
	}
	description := fmt.Sprintf("Calls a tool of %s that was added or changed during the conversation, once you have its name and schema. Call other tools as usual.", s.name)
	return cairn.RawFunc(s.opts.Prefix+callTool, description, newCallSchema, func(ctx context.Context, call *cairn.Call, input json.RawMessage) (json.RawMessage, error) {
		var in newCall
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, cairn.Errorf(cairn.ErrArguments, "decode arguments: %w", err)
		}
		t := find(in.Tool)
		if t == nil {
			return nil, cairn.Errorf(cairn.ErrUnknownTool, "unknown tool; the added tools are: %s", strings.Join(names(added), ", "))
		}
		form, err := schema.Parse(t.Schema)
		if err != nil {
			return nil, err
		}
		if list := form.Validate(in.Arguments); len(list) > 0 {
			return nil, cairn.Errorf(cairn.ErrArguments, "arguments violate the schema: %s", strings.Join(list, "; "))
		}
		return s.call(ctx, call, t.Remote, in.Arguments)
	}, opts...)
}

// Offer implements [cairn.Toolset]. It offers the server's tools if they are known within Options.ListTimeout.
func (s *Server) Offer(ctx context.Context, step *cairn.Step, pinned json.RawMessage) (*cairn.Offer, error) {
	var before *offer
	if pinned != nil {
		before = new(offer)
		if err := json.Unmarshal(pinned, before); err != nil {
			return nil, fmt.Errorf("decode pinned offer: %w", err)
		}
	}
	l, err := s.link(step.UserID)
	if err != nil {
		return nil, err
	}
	list, err := l.list(ctx, before != nil && !before.Connect)
	if left := s.left(before); list == nil && left != nil { // what the operator excludes leaves whether or not the server answers
		return s.pin(before, left, s.changes(before, left))
	}
	switch {
	case needsConnect(err):
		if before != nil {
			return nil, nil
		}
		return s.pin(nil, &offer{Connect: true}, fmt.Sprintf("The tools of %s become available once the user has connected an account; call %sconnect to ask for it.", s.name, s.opts.Prefix))
	case err != nil:
		return nil, err
	case list == nil && before == nil:
		return nil, fmt.Errorf("MCP server %q has not listed its tools within %s", s.name, s.opts.ListTimeout)
	case list == nil:
		return nil, nil
	}
	now, note := before.next(s, list)
	return s.pin(before, now, note)
}

func (s *Server) pin(before, now *offer, note string) (*cairn.Offer, error) {
	if note == "" {
		return nil, nil
	}
	raw, err := json.Marshal(now)
	if err != nil {
		return nil, err
	}
	return &cairn.Offer{Pinned: raw, Note: note}, nil
}
