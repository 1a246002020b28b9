package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/durations"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/server/jwtauth"
)

// minToken is the minimum number of characters of a token.
const minToken = 16

// Scripted is the provider of the scripted model.
const Scripted = "scripted"

var executorName = regexp.MustCompile(`^[!-~]{1,128}$`)

var assistantName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// check reports values that have the right type but are wrong.
func (d *decoder) check(c *Config) {
	d.checkListen(c)
	if u, err := url.Parse(c.URL); c.URL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" || u.User != nil) {
		d.wrong("url", "%q is no address such as https://example.com/agents", c.URL)
	}
	d.checkAuth(&c.Auth)
	if c.BasePath != "" && (c.BasePath[0] != '/' || c.BasePath == "/" || path.Clean(c.BasePath) != c.BasePath || strings.ContainsAny(c.BasePath, "?#% ")) {
		d.wrong("base_path", "%q must be a path such as /agents", c.BasePath)
	}
	switch {
	case c.TLS.Cert != "" && c.TLS.Key == "":
		d.wrong("tls.key", "is required with tls.cert")
	case c.TLS.Cert == "" && c.TLS.Key != "":
		d.wrong("tls.cert", "is required with tls.key")
	}
	d.checkTimes(c)
	if c.Store == "" {
		d.wrong("store", "is empty")
	}
	if c.WorkConcurrency < 1 {
		d.wrong("work_concurrency", "%d is not positive", c.WorkConcurrency)
	}
	switch {
	case c.Executor == "":
	case c.Host == "":
		d.wrong("executor", "requires host")
	case !executorName.MatchString(c.Executor):
		d.wrong("executor", "%q must be 1 to 128 visible ASCII characters", c.Executor)
	}
	for i, origin := range c.CORS.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
			d.wrong(fmt.Sprintf("cors.origins[%d]", i), "%q is no origin such as https://app.example.com", origin)
		}
	}
	for _, limit := range []struct {
		name  string
		value int
	}{{"json_values", c.Limits.JSONValues}, {"queue", c.Limits.Queue}, {"replaced", c.Limits.Replaced}, {"streams_per_user", c.Limits.StreamsPerUser}, {"requests_per_minute", c.Limits.RequestsPerMinute}, {"runs_per_user", c.Limits.RunsPerUser}} {
		if limit.value == 0 || limit.value < -1 {
			d.wrong("limits."+limit.name, "%d is neither positive nor -1, which is any number", limit.value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		d.checkProvider(name, c.Providers[name])
	}
	d.checkAssistants(c.Assistants)
}

func (d *decoder) checkTimes(c *Config) {
	if lease := time.Duration(c.Lease); lease > 0 && lease < time.Second {
		d.wrong("lease", "%s is less than 1s", lease)
	}
	if age := time.Duration(c.Retention.EventAge); age > 0 && age < engine.MinEventAge {
		d.wrong("retention.event_age", "%s is less than %s, for which events are kept in any case", age, engine.MinEventAge)
	}
	if c.Retention.Events < 0 {
		d.wrong("retention.events", "%d is negative", c.Retention.Events)
	}
}

func (d *decoder) checkListen(c *Config) {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil || port == "" {
		d.wrong("listen", "%q is no address such as 127.0.0.1:8420", c.Listen)
		return
	}
	if !Loopback(host) && len(c.Auth.Tokens) == 0 && !c.Auth.JWT.Given() {
		d.wrong("listen", "other machines may reach %s: auth.tokens or auth.jwt must say who may use it", c.Listen)
	}
}

// Loopback reports whether only its own machine can reach a host.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

func (d *decoder) checkAuth(a *Auth) {
	given := len(a.Tokens) > 0 || a.JWT.Given()
	switch {
	case given && a.AllowUnauthenticated:
		d.wrong("auth.allow_unauthenticated", "contradicts auth.tokens and auth.jwt")
	case !given && !a.AllowUnauthenticated:
		d.wrong("auth", "has neither tokens nor jwt; allow_unauthenticated: true serves everybody on this machine")
	}
	seen := map[string]int{}
	for i := range a.Tokens {
		t, path := &a.Tokens[i], fmt.Sprintf("auth.tokens[%d]", i)
		if before, twice := seen[t.Token]; twice && t.Token != "" {
			d.wrong(path+".token", "is that of auth.tokens[%d]", before)
		}
		seen[t.Token] = i
		switch {
		case len(t.Token) < minToken:
			d.wrong(path+".token", "has fewer than %d characters; cairn token makes one", minToken)
		case strings.ContainsFunc(t.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
			d.wrong(path+".token", "has other than visible ASCII characters")
		}
		if t.User == "" {
			d.wrong(path+".user", "is empty")
		}
		if len(t.Roles) == 0 {
			t.Roles = []string{"user"}
		}
	}
	d.checkJWT(&a.JWT)
}

// checkJWT checks the settings for an issuer's tokens by building their authenticator.
func (d *decoder) checkJWT(j *JWT) {
	if !j.Given() {
		if j.UserClaim != usual.UserClaim || j.RolesClaim != usual.RolesClaim || len(j.Roles)+len(j.DefaultRoles)+len(j.Algorithms) > 0 {
			d.wrong("auth.jwt", "needs issuer, audience and jwks_url")
		}
		return
	}
	whole := true
	for _, key := range []struct{ name, value string }{{"issuer", j.Issuer}, {"audience", j.Audience}, {"jwks_url", j.JWKSURL}} {
		if key.value == "" {
			whole = false
			d.wrong("auth.jwt."+key.name, "is required: auth.jwt needs issuer, audience and jwks_url")
		}
	}
	_, err := jwtauth.New(j.Options())
	switch e := cairn.AsError(err); {
	case e == nil || !whole:
	case e.Field == "JWKS":
		d.wrong("auth.jwt.jwks_url", "%q must be an https address, or an http address of this machine", j.JWKSURL)
	case e.Field == "Algorithms":
		d.wrong("auth.jwt.algorithms", "%s", strings.TrimPrefix(e.Message, "Algorithms: "))
	}
}

func (d *decoder) checkProvider(name string, p Provider) {
	path := "providers." + name
	if !slices.Contains(d.providers, name) {
		d.wrong(path, "there is no provider %q, only %s%s", name, strings.Join(d.providers, ", "), meant(name, d.providers))
		return
	}
	if p.BaseURL != "" {
		u, err := url.Parse(p.BaseURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			d.wrong(path+".base_url", "is no http or https address")
		}
	}
}

func (d *decoder) checkAssistants(list []Assistant) {
	byName := map[string]*Assistant{}
	names := []string{}
	for i := range list {
		a, path := &list[i], fmt.Sprintf("assistants[%d]", i)
		switch {
		case !assistantName.MatchString(a.Name):
			d.wrong(path+".name", "%q is not made of up to 64 letters, digits, - and _", a.Name)
		case byName[a.Name] != nil:
			d.wrong(path+".name", "%q is the name of another assistant", a.Name)
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
	provider, name, _ := strings.Cut(a.Model, ":")
	switch {
	case a.Model == "":
		d.wrong(path+".model", "is required, as PROVIDER:NAME")
	case !slices.Contains(d.providers, provider):
		d.wrong(path+".model", "there is no provider %q, only %s%s", provider, strings.Join(d.providers, ", "), meant(provider, d.providers))
	case name == "" && provider != Scripted:
		d.wrong(path+".model", "names no model of %s", provider)
	}
	d.checkSettings(&a.Settings, path+".settings")
	if a.MaxSteps < 0 {
		d.wrong(path+".max_steps", "%d is negative", a.MaxSteps)
	}
	if _, err := a.CommitsWhen(); err != nil {
		d.wrong(path+".durability", "%q is none of per_tool, per_step, manual, and no interval such as 5s", a.Durability)
	}
	if a.DeferAbove < -1 {
		d.wrong(path+".defer_above", "%d is none: -1 is any number of tokens", a.DeferAbove)
	}
	if a.DeferAbove != 0 && !slices.ContainsFunc(a.Tools, func(t Tool) bool { return t.Deferred }) {
		d.wrong(path+".defer_above", "has nothing to defer: none of the assistant's tools is deferred")
	}
	d.checkCache(a.ToolCache, path)
	if a.ToolCache != (ToolCache{}) && !slices.ContainsFunc(a.Tools, func(t Tool) bool { return t.MCP != nil }) {
		d.wrong(path+".tool_cache", "has nothing to keep: it is for tools of MCP servers, of which the assistant has none; other tools have a tool_cache of their own")
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
		err = cairn.Invalid("durability", "is not positive")
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
		{"description", "client", t.Description != ""}, {"parameters", "client", t.Parameters != nil}, {"result", "client", t.Result != nil}, {"prefix", "mcp", t.Prefix != ""}, {"allow", "mcp", t.Allow != nil}, {"approve", "mcp", t.Approve != nil},
	} {
		if key.given && key.of != kind {
			d.wrong(path+"."+key.name, "is a key of %s tools, and this one is of kind %s", key.of, kind)
		}
	}
	if kind == "agent" && t.Deferred {
		d.wrong(path+".deferred", "is a key of client and mcp tools, and this one is of kind agent")
	}
	d.checkCache(t.ToolCache, path)
	name := cmp.Or(t.Client, t.Agent)
	if name != "" && seen[name] {
		d.wrong(path+"."+kind, "the assistant has another tool %q", name)
	}
	seen[name] = true
	switch kind {
	case "mcp":
		d.checkMCP(t, path)
	case "agent":
		if !slices.Contains(assistants, t.Agent) {
			d.wrong(path+".agent", "there is no assistant %q%s", t.Agent, meant(t.Agent, assistants))
		}
	case "client":
		if !assistantName.MatchString(t.Client) {
			d.wrong(path+".client", "%q is not made of up to 64 letters, digits, - and _", t.Client)
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
	var opts []cairn.ToolOption
	if t.Timeout > 0 {
		opts = append(opts, cairn.WaitAtMost(time.Duration(t.Timeout)))
	}
	if t.Deferred {
		opts = append(opts, cairn.Deferred())
	}
	if policy := t.ToolCache.Policy(); policy != nil {
		opts = append(opts, cairn.Cache(*policy))
	}
	return cairn.RawClientTool(t.Client, t.Description, parameters, json.RawMessage(t.Result), opts...)
}

func (d *decoder) checkMCP(t *Tool, path string) {
	m := t.MCP
	switch {
	case (len(m.Command) > 0) == (m.URL != ""):
		d.wrong(path+".mcp", "must have either command or url")
	case len(m.Command) > 0 && m.Command[0] == "":
		d.wrong(path+".mcp.command", "its first word is empty")
	case m.URL != "" && m.Env != nil:
		d.wrong(path+".mcp.env", "is for a command")
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
