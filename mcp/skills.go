package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn/skill"
)

// skillsExtension is the extension by which a server publishes skills (SEP-2640), and its limits for each skill.
const (
	skillsExtension  = "io.modelcontextprotocol/skills"
	listSkillsMethod = "skills/list"
	getSkillMethod   = "skills/get"
	skillFile        = "SKILL.md"
	maxSkillFiles    = 512
	maxSkillBytes    = 16 << 20
)

// Skills returns a provider of the skills that a server publishes to a user by the extension
// io.modelcontextprotocol/skills; user is "" where all share one account. Give it to [skill.New]. A server that does not
// declare the extension has no skills.
//
// The model sees a skill under the server's name, as in docs:refunds, and reads where it is from. Files are read when
// they are needed, and only if their digests and sizes are those that the server has published; a session pins the
// digests. AllowedTools of such a skill are ignored, and a skill with generated contents ("dynamic") is left out. A
// skill's text is the server's, which is not trusted: tools that run code should need an approval.
func (s *Server) Skills(user string) skill.Provider { return &skills{s: s, user: user} }

type skills struct {
	s    *Server
	user string

	mu     sync.Mutex
	listed []published
	until  time.Time // when the list must be fetched again
	warned map[string]bool
}

// published is a skill of a server.
type published struct {
	name  string // for the model
	root  string // the address of its folder, with a slash at its end
	info  skill.Info
	front json.RawMessage
	files map[string]skillResource // by path
}

type skillEntry struct {
	URI         string          `json:"uri"`
	Frontmatter json.RawMessage `json:"frontmatter"`
	Resources   json.RawMessage `json:"resources"`
}

type skillResource struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

type listSkillsParams struct {
	sdk.ParamsBase
	Cursor string `json:"cursor,omitempty"`
}

type listSkillsResult struct {
	sdk.ResultBase
	Skills     []skillEntry `json:"skills"`
	NextCursor string       `json:"nextCursor,omitempty"`
	TTLMs      int64        `json:"ttlMs"`
	CacheScope string       `json:"cacheScope,omitempty"`
	ResultType string       `json:"resultType,omitempty"`
}

type getSkillParams struct {
	sdk.ParamsBase
	URI string `json:"uri"`
}

type getSkillResult struct {
	sdk.ResultBase
	Skill      skillEntry `json:"skill"`
	TTLMs      int64      `json:"ttlMs"`
	CacheScope string     `json:"cacheScope,omitempty"`
	ResultType string     `json:"resultType,omitempty"`
}

// withSkills lets a client call the methods of the extension.
func withSkills(c *sdk.Client) error {
	if err := sdk.AddSendingCustomMethod[*listSkillsParams, *listSkillsResult](c, listSkillsMethod); err != nil {
		return err
	}
	return sdk.AddSendingCustomMethod[*getSkillParams, *getSkillResult](c, getSkillMethod)
}

func (p *skills) List(ctx context.Context) ([]skill.Info, error) {
	list, err := p.list(ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]skill.Info, len(list))
	for i := range list {
		infos[i] = list[i].info
	}
	return infos, nil
}

// list returns the skills of the server, from its last answer while that is fresh.
func (p *skills) list(ctx context.Context) ([]published, error) {
	p.mu.Lock()
	fresh, known := time.Now().Before(p.until), p.listed
	p.mu.Unlock()
	if fresh {
		return known, nil
	}
	ttl := time.Duration(-1)
	entries := []skillEntry{}
	for entry, err := range listed(ctx, p.s, p.user, func(ctx context.Context, session *sdk.ClientSession, cursor string) ([]skillEntry, string, error) {
		if !publishes(session) {
			return nil, "", nil
		}
		page, err := sdk.CallCustomMethod[*listSkillsParams, *listSkillsResult](ctx, session, listSkillsMethod, &listSkillsParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		if t := time.Duration(page.TTLMs) * time.Millisecond; ttl < 0 || t < ttl {
			ttl = t
		}
		return page.Skills, page.NextCursor, nil
	}) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []published
	count := map[string]int{}
	for _, entry := range entries {
		one, err := p.read(entry)
		if err != nil {
			p.warn(entry.URI, err)
			continue
		}
		count[one.info.Name]++
		list = append(list, *one)
	}
	for i := range list {
		one := &list[i]
		if count[one.info.Name] > 1 { // the path distinguishes skills of one name
			_, one.info.Name, _ = strings.Cut(strings.TrimSuffix(one.root, "/"), "://")
		}
		one.name = p.s.name + ":" + one.info.Name
		one.info.Name = one.name
	}
	p.listed, p.until = list, time.Now().Add(min(max(ttl, 0), 24*time.Hour))
	return list, nil
}

func publishes(session *sdk.ClientSession) bool {
	init := session.InitializeResult()
	if init == nil || init.Capabilities == nil {
		return false
	}
	_, declared := init.Capabilities.Extensions[skillsExtension]
	return declared
}

// warn logs once why a skill is left out. The caller holds the mutex.
func (p *skills) warn(uri string, err error) {
	key := uri + err.Error()
	if p.warned[key] {
		return
	}
	if p.warned == nil {
		p.warned = map[string]bool{}
	}
	p.warned[key] = true
	p.s.opts.Logger.Warn("skill of an MCP server omitted", "server", p.s.name, "skill", clean(uri, 256), "error", err)
}

var sha256Digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// read checks the description of a skill.
func (p *skills) read(entry skillEntry) (*published, error) {
	root, ok := strings.CutSuffix(entry.URI, skillFile)
	if !ok || !strings.HasSuffix(root, "/") || !strings.Contains(root, "://") {
		return nil, fmt.Errorf("uri: must end with /%s", skillFile)
	}
	var front struct{ Name, Description string }
	if err := json.Unmarshal(entry.Frontmatter, &front); err != nil {
		return nil, fmt.Errorf("frontmatter: %w", err)
	}
	if front.Name == "" || front.Description == "" || front.Name != path.Base(strings.TrimSuffix(root, "/")) {
		return nil, fmt.Errorf("frontmatter: name %q must be that of the folder %q, with a description", clean(front.Name, 64), clean(root, 256))
	}
	var dynamic string
	if json.Unmarshal(entry.Resources, &dynamic) == nil {
		return nil, fmt.Errorf("resources: generated contents (%q) cannot be verified", clean(dynamic, 64))
	}
	var resources []skillResource
	if err := json.Unmarshal(entry.Resources, &resources); err != nil {
		return nil, fmt.Errorf("resources: %w", err)
	}
	one := &published{root: root, front: entry.Frontmatter, files: map[string]skillResource{}}
	one.info = skill.Info{Name: clean(front.Name, skill.MaxName), Description: clean(front.Description, skill.MaxDescription),
		Origin: "the MCP server " + p.s.name, Digests: map[string]string{}}
	total := int64(0)
	for _, r := range resources {
		escaped, inside := strings.CutPrefix(r.URI, root)
		name, err := url.PathUnescape(escaped)
		switch {
		case !inside || err != nil || !fs.ValidPath(name) || name == ".":
			return nil, fmt.Errorf("resources: %q is outside of the skill's folder", clean(r.URI, 256))
		case one.files[name].URI != "":
			return nil, fmt.Errorf("resources: duplicate %q", clean(r.URI, 256))
		case !sha256Digest.MatchString(r.Digest) || r.Size < 0:
			return nil, fmt.Errorf("resources: %q must have a sha256 digest and a size", clean(r.URI, 256))
		}
		one.files[name], one.info.Digests[name] = r, r.Digest
		total += r.Size
	}
	switch {
	case one.files[skillFile].URI == "":
		return nil, fmt.Errorf("resources: must list %s", skillFile)
	case len(resources) > maxSkillFiles || total > maxSkillBytes:
		return nil, fmt.Errorf("resources: too large: %d files of %d bytes (max %d of %d)", len(resources), total, maxSkillFiles, maxSkillBytes)
	case one.files[skillFile].Size > skill.MaxBody:
		return nil, fmt.Errorf("%s: larger than %d KiB", skillFile, skill.MaxBody>>10)
	}
	return one, nil
}

// find returns a skill by the name that the model sees. A turn has listed the skills when it began, so they are listed
// again only for a name that is not known here.
func (p *skills) find(ctx context.Context, name string) (*published, error) {
	if !strings.HasPrefix(name, p.s.name+":") {
		return nil, &fs.PathError{Op: "load", Path: name, Err: fs.ErrNotExist}
	}
	p.mu.Lock()
	list := p.listed
	p.mu.Unlock()
	named := func(one published) bool { return one.name == name }
	i := slices.IndexFunc(list, named)
	if i < 0 {
		var err error
		if list, err = p.list(ctx); err != nil {
			return nil, err
		}
		if i = slices.IndexFunc(list, named); i < 0 {
			return nil, &fs.PathError{Op: "load", Path: name, Err: fs.ErrNotExist}
		}
	}
	return &list[i], nil
}

func (p *skills) Load(ctx context.Context, name string) (*skill.Skill, error) {
	return described(ctx, p, name, p.load)
}

func (p *skills) ReadFile(ctx context.Context, name, file string) ([]byte, error) {
	return described(ctx, p, name, func(ctx context.Context, one *published) ([]byte, error) { return p.fetch(ctx, one, file) })
}

// described reads something of a skill. If that fails, the description may be stale: it is read anew, once.
func described[T any](ctx context.Context, p *skills, name string, read func(context.Context, *published) (T, error)) (T, error) {
	var none T
	one, err := p.find(ctx, name)
	if err != nil {
		return none, err
	}
	value, err := read(ctx, one)
	if err == nil {
		return value, nil
	}
	fresh, refreshErr := p.refresh(ctx, one)
	if refreshErr != nil {
		return none, err
	}
	return read(ctx, fresh)
}

// load reads a skill, and verifies it.
func (p *skills) load(ctx context.Context, one *published) (*skill.Skill, error) {
	raw, err := p.fetch(ctx, one, skillFile)
	if err != nil {
		return nil, err
	}
	if err := skill.CheckFrontMatter(raw, one.front); err != nil {
		return nil, fmt.Errorf("MCP server %q: skill %q: %w", p.s.name, one.name, err)
	}
	s, err := skill.Parse(path.Base(strings.TrimSuffix(one.root, "/")), raw)
	if err != nil {
		return nil, fmt.Errorf("MCP server %q: skill %q: %w", p.s.name, one.name, err)
	}
	s.Info, s.Digest = one.info, one.files[skillFile].Digest
	for name, r := range one.files {
		if name != skillFile {
			s.Files = append(s.Files, skill.File{Path: name, Size: r.Size})
		}
	}
	slices.SortFunc(s.Files, func(a, b skill.File) int { return strings.Compare(a.Path, b.Path) })
	return s, nil
}

// refresh replaces the description of a skill by a new one.
func (p *skills) refresh(ctx context.Context, old *published) (*published, error) {
	entry, err := requested(ctx, p.s, p.user, func(ctx context.Context, session *sdk.ClientSession) (skillEntry, error) {
		res, err := sdk.CallCustomMethod[*getSkillParams, *getSkillResult](ctx, session, getSkillMethod, &getSkillParams{URI: old.root + skillFile})
		if err != nil {
			return skillEntry{}, missing(err, "skill", old.name)
		}
		return res.Skill, nil
	})
	if err != nil {
		return nil, err
	}
	if entry.URI != old.root+skillFile {
		return nil, fmt.Errorf("MCP server %q: got skill %q, want %q", p.s.name, clean(entry.URI, 256), old.root+skillFile)
	}
	fresh, err := p.read(entry)
	if err != nil {
		return nil, err
	}
	fresh.name, fresh.info.Name = old.name, old.name
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed = slices.Clone(p.listed) // readers have the old one
	for i := range p.listed {
		if p.listed[i].name == old.name {
			p.listed[i] = *fresh
		}
	}
	return fresh, nil
}

// fetch reads a file of a skill, and verifies its size and digest.
func (p *skills) fetch(ctx context.Context, one *published, file string) ([]byte, error) {
	r, listed := one.files[file]
	if !listed {
		return nil, &fs.PathError{Op: "read", Path: file, Err: fs.ErrNotExist}
	}
	if r.Size > skill.MaxFile {
		return nil, &fs.PathError{Op: "read", Path: file, Err: fmt.Errorf("larger than %d KiB", skill.MaxFile>>10)}
	}
	contents, err := p.s.read(ctx, p.user, r.URI)
	if err != nil {
		return nil, err
	}
	for _, c := range contents {
		if c.URI != r.URI {
			continue
		}
		raw := c.Blob
		if raw == nil {
			raw = []byte(c.Text)
		}
		if int64(len(raw)) != r.Size || skill.Digest(raw) != r.Digest {
			return nil, fmt.Errorf("MCP server %q: skill %q: %s differs from its published digest", p.s.name, one.name, file)
		}
		return raw, nil
	}
	return nil, fmt.Errorf("MCP server %q: skill %q: no contents of %s", p.s.name, one.name, file)
}
