package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/skill"
)

const (
	skillScheme = "skill://"
	// skillsPage is the number of skills on a page of a list.
	skillsPage = 50
	// skillsTTL is how long a client may use a list, in milliseconds.
	skillsTTL = 60_000
)

// publisher publishes skills to MCP clients (SEP-2640). It reads a skill when a client asks for it, so what it describes
// is what it serves, unless a file changes in between: then the digest differs, and the client asks again.
type publisher struct {
	skills skill.Provider
	logger *slog.Logger
}

// skillsOfTools returns the skills of the agents that publish theirs.
func skillsOfTools(eng *engine.Engine, tools []AgentTool) (list []skill.Provider) {
	for _, t := range tools {
		if agent := eng.Agent(t.Agent); t.Skills && agent != nil {
			list = append(list, skillsOf(agent)...)
		}
	}
	return list
}

// skillsOf returns the skills of an agent's skill sets.
func skillsOf(agent *cairn.Agent) (list []skill.Provider) {
	for _, ts := range agent.Toolsets {
		if set, ok := ts.(*skill.Set); ok {
			list = append(list, set.Provider())
		}
	}
	return list
}

// publish adds the methods and resources of the extension to a server.
func (p *publisher) publish(s *sdk.Server) error {
	if err := sdk.AddReceivingCustomMethod(s, listSkillsMethod, p.list); err != nil {
		return err
	}
	if err := sdk.AddReceivingCustomMethod(s, getSkillMethod, p.get); err != nil {
		return err
	}
	template := &sdk.ResourceTemplate{URITemplate: skillScheme + "{+path}", Name: "skill", Description: "A file of a skill: " + skillScheme + "NAME/SKILL.md, or a file that it refers to."}
	s.AddResourceTemplate(template, p.read)
	s.AddReceivingMiddleware(p.listed)
	return nil
}

// list answers skills/list. A cursor is the address of the last skill on the page before.
func (p *publisher) list(ctx context.Context, _ *sdk.ServerSession, in *listSkillsParams) (*listSkillsResult, error) {
	out := &listSkillsResult{Skills: []skillEntry{}, TTLMs: skillsTTL, CacheScope: "private", ResultType: "complete"}
	infos, err := p.infos(ctx)
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		if addressOf(info.Name, skillFile) <= in.Cursor {
			continue
		}
		if len(out.Skills) == skillsPage {
			out.NextCursor = out.Skills[skillsPage-1].URI
			break
		}
		entry, err := p.describe(ctx, info.Name)
		if err != nil {
			p.logger.Warn("skill not published", "skill", info.Name, "error", err)
			continue
		}
		out.Skills = append(out.Skills, *entry)
	}
	return out, nil
}

// get answers skills/get.
func (p *publisher) get(ctx context.Context, _ *sdk.ServerSession, in *getSkillParams) (*getSkillResult, error) {
	name, file, ok := skillAt(in.URI)
	if !ok || file != skillFile || !p.has(ctx, name) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "uri: no such skill"}
	}
	entry, err := p.describe(ctx, name)
	if err != nil {
		p.logger.Warn("skill not published", "skill", name, "error", err)
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "uri: no such skill"}
	}
	return &getSkillResult{Skill: *entry, TTLMs: skillsTTL, CacheScope: "private", ResultType: "complete"}, nil
}

// read answers resources/read with a file of a skill that is published.
func (p *publisher) read(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri := req.Params.URI
	name, file, ok := skillAt(uri)
	if !ok || !p.has(ctx, name) {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	s, raw, err := p.manifest(ctx, name)
	if err == nil && file != skillFile {
		if !slices.ContainsFunc(s.Files, func(f skill.File) bool { return f.Path == file }) {
			return nil, sdk.ResourceNotFoundError(uri)
		}
		raw, err = p.skills.ReadFile(ctx, name, file)
	}
	if err != nil {
		p.logger.Warn("file of a skill not published", "skill", name, "file", file, "error", err)
		return nil, sdk.ResourceNotFoundError(uri)
	}
	contents := &sdk.ResourceContents{URI: uri, MIMEType: mediaType(file)}
	if utf8.Valid(raw) {
		contents.Text = string(raw)
	} else {
		contents.Blob = raw
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{contents}}, nil
}

// listed adds the SKILL.md of each skill to a list of resources.
func (p *publisher) listed(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		list, ok := res.(*sdk.ListResourcesResult)
		if err != nil || !ok {
			return res, err
		}
		infos, err := p.infos(ctx)
		if err != nil {
			return nil, err
		}
		for _, info := range infos {
			list.Resources = append(list.Resources, &sdk.Resource{URI: addressOf(info.Name, skillFile), Name: info.Name,
				Description: info.Description, MIMEType: mediaType(skillFile)})
		}
		return list, nil
	}
}

// infos returns the skills that can be published, by name. Those of other servers are not passed on.
func (p *publisher) infos(ctx context.Context) ([]skill.Info, error) {
	list, err := p.skills.List(ctx)
	if err != nil {
		p.logger.Error("cannot list skills", "error", err)
		return nil, errors.New("skills are not available")
	}
	list = slices.DeleteFunc(slices.Clone(list), func(i skill.Info) bool { return i.Origin != "" })
	slices.SortFunc(list, func(a, b skill.Info) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func (p *publisher) has(ctx context.Context, name string) bool {
	list, err := p.infos(ctx)
	return err == nil && slices.ContainsFunc(list, func(i skill.Info) bool { return i.Name == name })
}

// manifest returns a skill and its SKILL.md.
func (p *publisher) manifest(ctx context.Context, name string) (s *skill.Skill, raw []byte, err error) {
	if s, err = p.skills.Load(ctx, name); err != nil {
		return nil, nil, err
	}
	if raw, err = p.skills.ReadFile(ctx, name, skillFile); errors.Is(err, fs.ErrNotExist) { // the skill is written in Go
		raw, err = skill.Format(s)
	}
	return s, raw, err
}

// describe returns the description of a skill.
func (p *publisher) describe(ctx context.Context, name string) (*skillEntry, error) {
	s, raw, err := p.manifest(ctx, name)
	if err != nil {
		return nil, err
	}
	front, err := skill.FrontMatter(raw)
	if err != nil {
		return nil, err
	}
	var required struct{ Name, Description string }
	if err := json.Unmarshal(front, &required); err != nil || required.Name != name || required.Description == "" {
		return nil, fmt.Errorf("front matter: must have the name %q and a description", name)
	}
	resources := []skillResource{{addressOf(name, skillFile), skill.Digest(raw), int64(len(raw))}}
	total := int64(len(raw))
	for _, f := range s.Files {
		raw, err := p.skills.ReadFile(ctx, name, f.Path)
		if err != nil {
			return nil, err
		}
		resources = append(resources, skillResource{addressOf(name, f.Path), skill.Digest(raw), int64(len(raw))})
		if total += int64(len(raw)); total > maxSkillBytes || len(resources) > maxSkillFiles {
			return nil, fmt.Errorf("larger than %d MiB, or more than %d files", maxSkillBytes>>20, maxSkillFiles)
		}
	}
	listed, err := json.Marshal(resources)
	if err != nil {
		return nil, err
	}
	return &skillEntry{URI: addressOf(name, skillFile), Frontmatter: front, Resources: listed}, nil
}

// addressOf returns the address of a file of a skill.
func addressOf(name, file string) string {
	parts := strings.Split(file, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return skillScheme + name + "/" + strings.Join(parts, "/")
}

// skillAt returns the skill and the file of an address.
func skillAt(uri string) (name, file string, ok bool) {
	rest, ok := strings.CutPrefix(uri, skillScheme)
	name, escaped, within := strings.Cut(rest, "/")
	file, err := url.PathUnescape(escaped)
	return name, file, ok && within && err == nil && fs.ValidPath(file) && addressOf(name, file) == uri
}

// mediaType returns the media type of a file.
func mediaType(file string) string {
	if path.Ext(file) == ".md" {
		return "text/markdown"
	}
	return mime.TypeByExtension(path.Ext(file))
}
