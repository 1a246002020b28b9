package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/durations"
	"github.com/cairn-agents/cairn/internal/ids"
)

// headerName is a token of RFC 9110, section 5.6.2.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

var assistantName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (d *decoder) checkAssistants(list []Assistant) {
	byName := map[string]*Assistant{}
	names := []string{}
	for i := range list {
		a, path := &list[i], fmt.Sprintf("assistants[%d]", i)
		switch {
		case !assistantName.MatchString(a.Name):
			d.wrong(path+".name", "must be 1 to 64 letters, digits, - or _, not %q", a.Name)
		case byName[a.Name] != nil:
			d.wrong(path+".name", "duplicate assistant %q", a.Name)
		default:
			byName[a.Name] = a
			names = append(names, a.Name)
		}
	}
	for i := range list {
		path := fmt.Sprintf("assistants[%d]", i)
		d.checkAssistant(&list[i], path)
		tools := map[string]bool{}
		for k := range list[i].Tools {
			d.checkTool(&list[i].Tools[k], fmt.Sprintf("%s.tools[%d]", path, k), tools, names)
		}
		if cycle := leads(byName, list[i].Name); cycle != nil {
			d.wrong(path+".tools", "the assistant is its own sub-agent: %s", strings.Join(cycle, " → "))
		}
	}
}

func (d *decoder) checkAssistant(a *Assistant, path string) {
	d.checkModel(a.Model, path+".model")
	for _, name := range slices.Sorted(maps.Keys(a.Models)) {
		if problem := ids.Check(name); problem != "" {
			d.wrong(path+".models", "name %q %s", name, problem)
			continue
		}
		d.checkModel(a.Models[name], path+".models."+name)
	}
	d.checkSettings(&a.Settings, path+".settings")
	d.checkBudget(&a.Budget, path+".budget")
	d.checkOutput(&a.Output, path+".output")
	d.checkSkills(&a.Skills, path+".skills")
	d.checkMemory(&a.Memory, path+".memory")
	d.checkWorkspace(&a.Workspace, path+".workspace")
	if len(a.Skills.Preload) > 0 && !a.Skills.Some() && !slices.ContainsFunc(a.Tools, func(t Tool) bool { return t.MCP != nil && t.MCP.Skills }) {
		d.wrong(path+".skills.preload", "requires folders, or an MCP server with skills")
	}
	if a.MaxSteps < 0 {
		d.wrong(path+".max_steps", "%d is negative", a.MaxSteps)
	}
	if _, err := a.CommitsWhen(); err != nil {
		d.wrong(path+".durability", "must be per_tool, per_step, manual or an interval such as 5s, not %q", a.Durability)
	}
	if a.DeferAbove < -1 {
		d.wrong(path+".defer_above", "must be 0 or more, or -1 for no limit, not %d", a.DeferAbove)
	}
	if a.DeferAbove != 0 && !slices.ContainsFunc(a.Tools, func(t Tool) bool { return t.Deferred }) {
		d.wrong(path+".defer_above", "requires a tool with deferred: true")
	}
	d.checkCache(a.ToolCache, path)
	if a.ToolCache != (ToolCache{}) && !slices.ContainsFunc(a.Tools, func(t Tool) bool { return t.MCP != nil }) {
		d.wrong(path+".tool_cache", "applies only to tools of MCP servers, and the assistant has none; set tool_cache on other tools")
	}
}

// checkModel checks the form of a model, and that the program supports its provider.
func (d *decoder) checkModel(model, path string) {
	provider, name, _ := strings.Cut(model, ":")
	switch {
	case model == "":
		d.wrong(path, "is required, as PROVIDER:NAME")
	case !slices.Contains(d.providers, provider):
		d.wrong(path, "unknown provider %q: must be one of %s%s", provider, strings.Join(d.providers, ", "), meant(provider, d.providers))
	case name == "" && provider != Scripted:
		d.wrong(path, "must name a model of %s", provider)
	}
}

func (d *decoder) checkMemory(m *Memory, path string) {
	switch m.Scope {
	case "", "none":
		if m.Group != "" || m.Retention != 0 || m.MaxEntries != 0 || len(m.Trusted) > 0 || m.Forget || m.Extract != "" || m.ExtractUSD != 0 || m.Consolidate {
			d.wrong(path+".scope", "is required: session, user or group")
		}
	case "session", "user":
		if m.Group != "" {
			d.wrong(path+".group", "may only be set for the scope group")
		}
	case "group":
		if m.Group == "" {
			d.wrong(path+".group", "is required for the scope group")
		}
	default:
		d.wrong(path+".scope", "must be none, session, user or group, not %q", m.Scope)
	}
	if m.ExtractUSD < 0 {
		d.wrong(path+".extract_usd_per_day", "%v is negative", m.ExtractUSD)
	}
	if m.ExtractUSD > 0 && m.Extract == "" {
		d.wrong(path+".extract_usd_per_day", "requires extract")
	}
	if m.Consolidate && m.Extract == "" {
		d.wrong(path+".consolidate", "requires extract")
	}
	if m.Retention < 0 {
		d.wrong(path+".retention", "is negative")
	}
	if m.MaxEntries < 0 {
		d.wrong(path+".max_entries", "%d is negative", m.MaxEntries)
	}
}

// checkWorkspace checks the keys that belong together. The workspace itself checks their values when it is made.
func (d *decoder) checkWorkspace(w *Workspace, path string) {
	switch w.Provider {
	case "", "none":
		if !reflect.DeepEqual(*w, Workspace{Provider: w.Provider}) {
			d.wrong(path+".provider", "is required: memory, dir, bubblewrap or container")
		}
	case "memory", "dir":
		for key, set := range map[string]bool{"interpreters": len(w.Interpreters) > 0, "approve": len(w.Approve) > 0, "network": w.Network, "mounts": len(w.Mounts) > 0,
			"environment": len(w.Environment) > 0, "max_time": w.MaxTime != 0, "max_memory": w.MaxMemory != 0, "max_processes": w.MaxProcesses != 0} {
			if set {
				d.wrong(path+"."+key, "is for commands, which the provider %s does not run", w.Provider)
			}
		}
	case "bubblewrap", "container":
	default:
		d.wrong(path+".provider", "must be none, memory, dir, bubblewrap or container, not %q", w.Provider)
	}
	switch {
	case w.Provider == "container" && w.Image == "":
		d.wrong(path+".image", "is required for the provider container")
	case w.Provider != "container" && w.Image != "":
		d.wrong(path+".image", "may only be set for the provider container")
	}
	for key, n := range map[string]int64{"max_time": int64(w.MaxTime), "max_bytes": w.MaxBytes, "max_memory": w.MaxMemory, "max_processes": int64(w.MaxProcesses)} {
		if n < 0 {
			d.wrong(path+"."+key, "is negative")
		}
	}
}

func (d *decoder) checkSkills(s *Skills, path string) {
	for i, folder := range s.Folders {
		if folder == "" {
			d.wrong(fmt.Sprintf("%s.folders[%d]", path, i), "is empty")
		}
	}
}

func (d *decoder) checkCache(c ToolCache, path string) {
	if c.MaxEntries < 0 {
		d.wrong(path+".tool_cache.max_entries", "%d is negative", c.MaxEntries)
	}
}

// checkSettings checks the settings of model calls by validating an agent that has them.
func (d *decoder) checkSettings(s *Settings, path string) {
	settings, err := s.ForModel()
	if err != nil {
		d.wrong(path+".options", "must be a mapping of names")
		return
	}
	probe := cairn.Agent{Name: "probe", Model: unasked{}, Settings: settings}
	if err := probe.Validate(); err != nil {
		e := cairn.AsError(err)
		key := strings.TrimPrefix(e.Field, "settings.")
		d.wrong(path+"."+key, "%s", strings.TrimPrefix(e.Message, `agent "probe": `+e.Field+": "))
	}
}

// checkOutput checks a typed output by validating an agent that has it.
func (d *decoder) checkOutput(o *Output, path string) {
	if o.Native && o.Schema == nil {
		d.wrong(path+".schema", "is required with native")
	}
	probe := cairn.Agent{Name: "probe", Model: unasked{}, Output: o.Type()}
	if err := probe.Validate(); err != nil {
		d.wrong(path+".schema", "%s", strings.TrimPrefix(cairn.AsError(err).Message, `agent "probe": output: `))
	}
}

// ForModel returns the settings for model calls.
func (s *Settings) ForModel() (cairn.Settings, error) {
	settings := cairn.Settings{Temperature: s.Temperature, TopP: s.TopP, MaxOutputTokens: s.MaxOutputTokens, ReasoningEffort: s.ReasoningEffort, StopSequences: s.StopSequences}
	if s.Options == nil {
		return settings, nil
	}
	return settings, json.Unmarshal(s.Options, &settings.Options)
}

// CommitsWhen returns the durability of the assistant's steps.
func (a *Assistant) CommitsWhen() (cairn.Durability, error) {
	switch a.Durability {
	case "", "per_step":
		return cairn.PerStep, nil
	case "per_tool":
		return cairn.PerTool, nil
	case "manual":
		return cairn.Manual, nil
	}
	t, err := durations.Parse(a.Durability)
	if err == nil && t <= 0 {
		err = cairn.Invalid("durability", "must be positive")
	}
	return cairn.Interval(t), err
}

func (d *decoder) checkTool(t *Tool, path string, seen map[string]bool, assistants []string) {
	kinds := 0
	for _, is := range []bool{t.Client != "", t.MCP != nil, t.Agent != ""} {
		if is {
			kinds++
		}
	}
	if kinds != 1 {
		d.wrong(path, "must have exactly one of client, mcp, agent")
		return
	}
	kind := "agent"
	switch {
	case t.Client != "":
		kind = "client"
	case t.MCP != nil:
		kind = "mcp"
	}
	for _, key := range []struct {
		name, of string
		given    bool
	}{
		{"description", "client", t.Description != ""}, {"parameters", "client", t.Parameters != nil}, {"result", "client", t.Result != nil}, {"prefix", "mcp", t.Prefix != ""}, {"allow", "mcp", t.Allow != nil}, {"approve", "mcp", t.Approve != nil}, {"effectful", "mcp", t.Effectful != nil},
	} {
		if key.given && key.of != kind {
			d.wrong(path+"."+key.name, "may only be set on %s tools, not on %s tools", key.of, kind)
		}
	}
	if kind == "agent" && t.Deferred {
		d.wrong(path+".deferred", "may only be set on client and mcp tools, not on agent tools")
	}
	d.checkCache(t.ToolCache, path)
	for _, provider := range slices.Sorted(maps.Keys(t.ProviderFields)) {
		if !slices.Contains(d.providers, provider) {
			d.wrong(path+".provider_fields."+provider, "unknown provider %q: must be one of %s%s", provider, strings.Join(d.providers, ", "), meant(provider, d.providers))
		}
	}
	name := cmp.Or(t.Client, t.Agent)
	if name != "" && seen[name] {
		d.wrong(path+"."+kind, "duplicate tool %q", name)
	}
	seen[name] = true
	switch kind {
	case "mcp":
		d.checkMCP(t, path)
	case "agent":
		if !slices.Contains(assistants, t.Agent) {
			d.wrong(path+".agent", "unknown assistant %q%s", t.Agent, meant(t.Agent, assistants))
		}
	case "client":
		if !assistantName.MatchString(t.Client) {
			d.wrong(path+".client", "must be 1 to 64 letters, digits, - or _, not %q", t.Client)
			return
		}
		d.checkClient(t, path)
	}
}

// checkClient checks a client tool by building it.
func (d *decoder) checkClient(t *Tool, path string) {
	probe := cairn.Agent{Name: "probe", Model: unasked{}, Tools: []cairn.Tool{t.ClientTool()}}
	if err := probe.Validate(); err != nil {
		text := strings.TrimPrefix(cairn.AsError(err).Message, `agent "probe": `)
		d.wrong(path, "%s", text)
	}
}

// ClientTool builds the client tool.
func (t *Tool) ClientTool() cairn.Tool {
	parameters := json.RawMessage(t.Parameters)
	if parameters == nil {
		parameters = json.RawMessage(`{"type":"object"}`)
	}
	opts := t.Options()
	if t.Timeout > 0 {
		opts = append(opts, cairn.WaitAtMost(time.Duration(t.Timeout)))
	}
	if t.Deferred {
		opts = append(opts, cairn.Deferred())
	}
	return cairn.RawClientTool(t.Client, t.Description, parameters, json.RawMessage(t.Result), opts...)
}

func (d *decoder) checkMCP(t *Tool, path string) {
	m := t.MCP
	switch {
	case (len(m.Command) > 0) == (m.URL != ""):
		d.wrong(path+".mcp", "must have either command or url")
	case len(m.Command) > 0 && m.Command[0] == "":
		d.wrong(path+".mcp.command", "first word is empty")
	case m.URL != "" && m.Env != nil:
		d.wrong(path+".mcp.env", "may only be set with command")
	case m.URL == "" && m.Headers != nil:
		d.wrong(path+".mcp.headers", "may only be set with url")
	}
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		if before, twice := seen[strings.ToLower(name)]; twice {
			d.wrong(path+".mcp.headers."+name, "is a duplicate: set as %q and %q", before, name)
		}
		seen[strings.ToLower(name)] = name
		switch {
		case !headerName.MatchString(name):
			d.wrong(path+".mcp.headers", "%q is not a valid header name", name)
		case strings.ContainsAny(m.Headers[name], "\r\n"):
			d.wrong(path+".mcp.headers."+name, "has a line break")
		}
	}
}

// leads returns the path on which an assistant is its own sub-agent; nil if there is none.
func leads(all map[string]*Assistant, name string) []string {
	var walk func(at string, path []string) []string
	seen := map[string]bool{}
	walk = func(at string, path []string) []string {
		a := all[at]
		if a == nil || seen[at] {
			return nil
		}
		seen[at] = true
		for i := range a.Tools {
			next := a.Tools[i].Agent
			if next == "" {
				continue
			}
			if next == name {
				return append(path, at, next)
			}
			if found := walk(next, append(slices.Clone(path), at)); found != nil {
				return found
			}
		}
		return nil
	}
	return walk(name, nil)
}
