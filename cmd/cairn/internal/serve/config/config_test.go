package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var providers = []string{"anthropic", "openai-chat"}

// small is a valid file.
const small = `
auth: {tokens: [{token: 0123456789abcdef, user: alice}]}
assistants:
  - name: support
    model: "scripted:"
`

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := Parse("cairn.yaml", []byte(small), nil, providers)
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:8420" || c.Store != "sqlite:cairn.db" || !c.Worker || c.WorkConcurrency != 1000 || c.Limits.Body != 4<<20 || c.Limits.StreamsPerUser != 20 {
		t.Errorf("got %+v", c)
	}
	if got := c.Auth.Tokens[0].Roles; len(got) != 1 || got[0] != "user" {
		t.Errorf("the roles are %q", got)
	}
}

// A file with every key is valid.
func TestExample(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"CAIRN_TOKEN": "0123456789abcdef", "OPENAI_API_KEY": "key"}
	c, err := Parse("cairn.yaml", raw, env, providers)
	if err != nil {
		t.Fatal(err)
	}
	a := c.Assistants[0]
	if a.Name != "support" || a.TTL != Duration(168*time.Hour) || a.Tools[0].Client != "get_location" || a.Tools[0].Timeout != Duration(24*time.Hour) ||
		string(a.Tools[0].Parameters) != `{"additionalProperties":false,"properties":{"precise":{"type":"boolean"}},"type":"object"}` || a.Tools[1].MCP.Env["SHOP_DB"] != "shop.db" || a.Tools[1].Approve[0] != "refund" || a.Tools[2].Prefix != "search_" || a.Tools[3].Agent != "researcher" {
		t.Errorf("got %+v", a)
	}
	if len(a.Models) != 1 || a.Models["deep"] != "openai-chat:qwen3" {
		t.Errorf("the other models are %q", a.Models)
	}
	if a.ToolCache != (ToolCache{MaxEntries: 200, TTL: Duration(time.Hour)}) {
		t.Errorf("the tool cache is %+v", a.ToolCache)
	}
	if a.DeferAbove != 5000 || a.Tools[1].Deferred || !a.Tools[2].Deferred {
		t.Errorf("deferred above %d are %+v", a.DeferAbove, a.Tools)
	}
	if m := a.Tools[2].MCP; !m.Required || m.Headers["Authorization"] != "Bearer ${SEARCH_TOKEN}" || m.ListTimeout != Duration(30*time.Second) {
		t.Errorf("the MCP server is %+v", m)
	}
	if out := c.Assistants[1].Output.Type(); a.Output.Type() != nil || out == nil || !out.IsNative() ||
		string(out.Schema()) != `{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"],"additionalProperties":false}` {
		t.Errorf("the outputs are %v, and %s", a.Output.Type(), out.Schema())
	}
	if c.Auth.Tokens[0].Token != "0123456789abcdef" || c.Providers["openai-chat"].APIKey != "key" {
		t.Errorf("environment variables were not expanded: %+v", c.Auth)
	}
}

// All mistakes are reported at once, each with its line, its key and, if a name is near, the probable one.
func TestMistakes(t *testing.T) {
	t.Parallel()
	const auth = "auth: {tokens: [{token: 0123456789abcdef, user: alice}]}\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"an unknown key":              {auth + "assistant: []", []string{"2:1: assistant: unknown key; did you mean assistants?"}},
		"an unknown key far from all": {auth + "zzzzzzzz: 1", []string{"2:1: zzzzzzzz: unknown key"}},
		"an unknown key within":       {auth + "limits: {bdy: 1MiB}", []string{"2:10: limits.bdy: unknown key; did you mean body?"}},
		"a key twice":                 {auth + "worker: true\nworker: false", []string{"3:1: worker: duplicate key; first set in line 2"}},
		"a name on no host":           {auth + "executor: worker-1", []string{"2:11: executor: requires host"}},
		"a name of blanks":            {auth + "host: 'temporal:'\nexecutor: worker 1", []string{`3:11: executor: "worker 1" must be 1 to 128 visible ASCII characters`}},
		"wrong types": {auth + "worker: perhaps\nlimits: 3\nassistants: {a: b}\ncors: {origins: http://x}", []string{
			"2:9: worker: got a text, want true or false", "3:9: limits: got a number, want a mapping of keys",
			"4:13: assistants: got a mapping, want a list", "5:17: cors.origins: got a text, want a list"}},
		"no versions":              {auth + "limits: {replaced: 0}", []string{"2:20: limits.replaced: must be positive, or -1 for no limit, not 0"}},
		"a queue of none":          {auth + "limits: {queue: 0}", []string{"2:17: limits.queue: must be positive, or -1 for no limit, not 0"}},
		"values of none":           {auth + "limits: {json_values: -2}", []string{"2:23: limits.json_values: must be positive, or -1 for no limit, not -2"}},
		"no duration":              {auth + "wait_at_most: 3 weeks", []string{"2:15: wait_at_most: got a text, want a duration such as 90s, 24h or 30d"}},
		"no size":                  {auth + "limits: {body: 4 apples}", []string{"2:16: limits.body: got a text, want a size such as 512KiB or 4MiB"}},
		"no address":               {auth + "url: example.com/agents", []string{`2:6: url: must be a URL such as https://example.com/agents, not "example.com/agents"`}},
		"limits of nothing":        {auth + "limits: {streams_per_user: 0}", []string{"2:28: limits.streams_per_user: must be positive, or -1 for no limit, not 0"}},
		"no runs":                  {auth + "limits: {runs_per_user: 0}", []string{"limits.runs_per_user: must be positive, or -1 for no limit, not 0"}},
		"half a certificate":       {auth + "tls: {cert: a.pem}", []string{"2:6: tls.key: is required with tls.cert"}},
		"a key alone":              {auth + "tls: {key: a.key}", []string{"2:6: tls.cert: is required with tls.key"}},
		"a path":                   {auth + "base_path: agents/", []string{`2:12: base_path: must be a path such as /agents, not "agents/"`}},
		"a level":                  {auth + "log: {level: wrn}", []string{`2:14: log.level: unknown value "wrn": must be one of debug, info, warn, error; did you mean warn?`}},
		"a format":                 {auth + "log: {format: xml}", []string{`log.format: unknown value "xml": must be one of text, json`}},
		"a short lease":            {auth + "lease: 10ms", []string{"2:8: lease: 10ms is less than the minimum of 1s"}},
		"a short event age":        {auth + "retention: {event_age: 10m}", []string{"2:24: retention.event_age: 10m0s is less than the minimum of 1h0m0s"}},
		"negative events":          {auth + "retention: {events: -1}", []string{"retention.events: -1 is negative"}},
		"a budget without a limit": {auth + "budgets: [{name: b, scope: user, period: day}]", []string{"budgets[0]: has no limit"}},
		"a budget of a week":       {auth + "budgets: [{name: b, scope: user, period: week, steps: 1}]", []string{`budgets[0].period: unknown value "week": must be one of hour, day, month`}},
		"a budget of nobody":       {auth + "budgets: [{name: b, period: day, steps: 1}]", []string{"budgets[0].scope: is required"}},
		"a budget's time zone":     {auth + "budgets: [{name: b, scope: user, period: day, zone: Moon, steps: 1}]", []string{`budgets[0].zone: unknown time zone "Moon"`}},
		"budgets of one name":      {auth + "budgets: [{name: b, scope: user, period: day, steps: 1}, {name: b, scope: tag, period: day, steps: 1}]", []string{`budgets[1].name: duplicate rule "b"`}},
		"no time to drain":         {auth + "drain: 5 apples", []string{"2:8: drain: got a text, want a duration such as 90s, 24h or 30d"}},
		"a cold model":             {auth + "assistants: [{name: a, model: 'scripted:', settings: {temperature: -1}}]", []string{"2:68: assistants[0].settings.temperature: must be 0 or greater, not -1"}},
		"warm words":               {auth + "assistants: [{name: a, model: 'scripted:', settings: {top_p: high}}]", []string{"assistants[0].settings.top_p: got a text, want a number"}},
		"negative tokens":          {auth + "assistants: [{name: a, model: 'scripted:', settings: {max_output_tokens: -1}}]", []string{"assistants[0].settings.max_output_tokens: -1 is negative"}},
		"a list of options":        {auth + "assistants: [{name: a, model: 'scripted:', settings: {options: [1]}}]", []string{"assistants[0].settings.options: must be a mapping of names"}},
		"no secret":                {"auth: {tokens: [{token: '${file:/no/such/file}', user: a}]}", []string{"auth.tokens[0].token: ${file:/no/such/file}: open /no/such/file: no such file or directory", "must have at least 16"}},
		"a short secret":           {auth + "advance: {secret: abc, earlier_secrets: [abc]}", []string{"2:19: advance.secret: must have at least 32 characters", "2:42: advance.earlier_secrets[0]: must have at least 32"}},
		"callers without a secret": {auth + "advance: {wait: 1h, start: queue, start_token: a}", []string{"advance.secret: must have", "2:17: advance.wait: 1h0m0s is more than the maximum of 15m0s", "advance.start: must be an http or https URL"}},
		"a token for no one":       {auth + "advance: {secret: 0123456789abcdef0123456789abcdef, start_token: a}", []string{"advance.start_token: requires start"}},
		"callers and a host":       {auth + "host: 'temporal:'\nadvance: {secret: 0123456789abcdef0123456789abcdef}", []string{"3:10: advance: must not be set with host"}},
		"no YAML":                  {"a: [", []string{"did not find"}},
		"nobody said":              {"listen: 127.0.0.1:1", []string{"auth: must have tokens, jwt or oidc; set allow_unauthenticated: true to serve this machine without authentication"}},
		"open to the world":        {"listen: 0.0.0.0:80\nauth: {allow_unauthenticated: true}", []string{"1:9: listen: 0.0.0.0:80 is reachable from other machines, which requires auth.tokens, auth.jwt or auth.oidc"}},
		"any interface":            {"listen: :80\nauth: {allow_unauthenticated: true}", []string{"1:9: listen: :80 is reachable from other machines"}},
		"both":                     {"auth: {allow_unauthenticated: true, tokens: [{token: 0123456789abcdef, user: a}]}", []string{"1:31: auth.allow_unauthenticated: must not be set with auth.tokens, auth.jwt or auth.oidc"}},
		"an unset variable":        {"auth: {tokens: [{token: '${NO_SUCH}', user: a}]}", []string{"environment variable NO_SUCH is not set", "must have at least 16 characters"}},
		"an empty token":           {"auth: {tokens: [{token: '${NO_SUCH:-}', user: a}]}", []string{"auth.tokens[0].token: must have at least 16 characters; generate one with cairn token"}},
		"a token twice":            {"auth: {tokens: [{token: 0123456789abcdef, user: a}, {token: 0123456789abcdef, user: b}]}", []string{"auth.tokens[1].token: duplicate of auth.tokens[0]"}},
		"a role":                   {"auth: {tokens: [{token: 0123456789abcdef, user: a, roles: [amin]}]}", []string{`roles[0]: unknown value "amin": must be one of user, reviewer, operator, admin; did you mean admin?`}},
		"a JWT":                    {auth + "  \nassistants: []\n" + "providers: {antropic: {}}", []string{`unknown provider "antropic": must be one of anthropic, openai-chat, scripted; did you mean anthropic?`}},
		"half an issuer": {"auth:\n  jwt:\n    issuer: https://id.example.com\n    jwks_ur: https://id.example.com/keys", []string{
			"3:5: auth.jwt.audience: is required: auth.jwt requires issuer, audience and jwks_url", "3:5: auth.jwt.jwks_url: is required",
			"4:5: auth.jwt.jwks_ur: unknown key; did you mean jwks_url?"}},
		"a user's tenant": {"auth: {tokens: [{token: 0123456789abcdef, user: 'acme::a'}]}", []string{"auth.tokens[0].user: must not contain ::; set tenant"}},
		"a bad tenant":    {"auth: {tokens: [{token: 0123456789abcdef, user: a, tenant: a b}]}", []string{"auth.tokens[0].tenant: must be 1 to 64 letters, digits, ., _ or -, and begin with a letter or digit, or be *"}},
		"half a provider": {"auth:\n  oidc:\n    issuer: http://id.example.com\n    redirect_url: https://example.com/console", []string{
			"3:5: auth.oidc.client_id: is required: auth.oidc requires issuer, client_id and redirect_url",
			`3:13: auth.oidc.issuer: must be an https URL, or an http URL of this machine, not "http://id.example.com"`,
			"4:19: auth.oidc.redirect_url: must be an https URL, or an http URL of this machine, that ends with /console/oidc/callback"}},
		"a secret of nobody": {auth[:len(auth)-2] + ", oidc: {client_secret: abc}}", []string{"1:64: auth.oidc: requires issuer, client_id and redirect_url"}},
		"a tenant of nobody": {auth[:len(auth)-2] + ", jwt: {tenant_claim: org}}", []string{"1:63: auth.jwt: requires issuer, audience and jwks_url"}},
		"claims of nobody":   {auth[:len(auth)-2] + ", jwt: {user_claim: email}}", []string{"1:63: auth.jwt: requires issuer, audience and jwks_url"}},
		"a role in a mapping": {"auth: {jwt: {issuer: a, audience: b, jwks_url: 'https://c', roles: {root: admim}}}", []string{
			`auth.jwt.roles.root: unknown value "admim": must be one of user, reviewer, operator, admin; did you mean admin?`}},
		"a default role": {"auth: {jwt: {issuer: a, audience: b, jwks_url: 'https://c', default_roles: [all]}}", []string{
			`auth.jwt.default_roles[0]: unknown value "all": must be one of user, reviewer, operator, admin`}},
		"a shared secret": {"auth: {jwt: {issuer: a, audience: b, jwks_url: 'https://c', algorithms: [HS256]}}", []string{
			`auth.jwt.algorithms: unsupported algorithm "HS256": must be one of [RS256`}},
		"roles of nobody":  {auth[:len(auth)-2] + ", jwt: {default_roles: [user]}}", []string{"auth.jwt: requires issuer, audience and jwks_url"}},
		"keys in the open": {"auth: {jwt: {issuer: a, audience: b, jwks_url: 'http://id.example.com/keys'}}", []string{`1:48: auth.jwt.jwks_url: must be an https URL, or an http URL of this machine`}},
		"an issuer and everybody": {"auth: {allow_unauthenticated: true, jwt: {issuer: a, audience: b, jwks_url: 'https://c'}}", []string{
			"1:31: auth.allow_unauthenticated: must not be set with auth.tokens, auth.jwt or auth.oidc"}},
		"no model":           {auth + "assistants: [{name: a}]", []string{"2:14: assistants[0].model: is required, as PROVIDER:NAME"}},
		"an unknown model":   {auth + "assistants: [{name: a, model: 'opnai-chat:x'}]", []string{`"opnai-chat": must be one of anthropic, openai-chat, scripted; did you mean openai-chat?`}},
		"no name of a model": {auth + "assistants: [{name: a, model: anthropic}]", []string{"must name a model of anthropic"}},
		"another unknown model": {auth + "assistants: [{name: a, model: 'scripted:', models: {deep: 'antropic:x', low: anthropic, none: ''}}]", []string{
			`2:59: assistants[0].models.deep: unknown provider "antropic"`, "assistants[0].models.low: must name a model of anthropic", "assistants[0].models.none: is required, as PROVIDER:NAME"}},
		"a name of a model":    {auth + "assistants: [{name: a, model: 'scripted:', models: {' x': 'scripted:'}}]", []string{`2:52: assistants[0].models: name " x" begins or ends with white space`}},
		"a name twice":         {auth + "assistants: [{name: a, model: 'scripted:'}, {name: a, model: 'scripted:'}]", []string{`assistants[1].name: duplicate assistant "a"`}},
		"a choice":             {auth + "assistants: [{name: a, model: 'scripted:', on_busy: steering}]", []string{`unknown value "steering": must be one of reject, enqueue, interrupt, rollback, steer`}},
		"nothing to keep":      {auth + "assistants: [{name: a, model: 'scripted:', tool_cache: {ttl: 1h}}]", []string{"2:56: assistants[0].tool_cache: applies only to tools of MCP servers"}},
		"nothing to defer":     {auth + "assistants: [{name: a, model: 'scripted:', defer_above: 100, tools: [{mcp: {url: 'http://x'}}]}]", []string{"assistants[0].defer_above: requires a tool with deferred: true"}},
		"a deferred agent":     {auth + "assistants: [{name: a, model: 'scripted:', tools: [{agent: b, deferred: true}]}, {name: b, model: 'scripted:'}]", []string{"tools[0].deferred: may only be set on client and mcp tools"}},
		"a negative bound":     {auth + "assistants: [{name: a, model: 'scripted:', defer_above: -2, tools: [{client: x, description: d, deferred: true}]}]", []string{"defer_above: must be 0 or more, or -1 for no limit, not -2"}},
		"a negative cache":     {auth + "assistants: [{name: a, model: 'scripted:', tool_cache: {max_entries: -1}, tools: [{mcp: {url: 'http://x'}}]}]", []string{"tool_cache.max_entries: -1 is negative"}},
		"a tool's cache":       {auth + "assistants: [{name: a, model: 'scripted:', tools: [{client: x, description: d, tool_cache: {max_entries: -1}}]}]", []string{"tools[0].tool_cache.max_entries: -1 is negative"}},
		"a durability":         {auth + "assistants: [{name: a, model: 'scripted:', durability: -5s}]", []string{`durability: must be per_tool, per_step, manual or an interval such as 5s, not "-5s"`}},
		"a list of an output":  {auth + "assistants: [{name: a, model: 'scripted:', output: {schema: {type: array}}}]", []string{"2:61: assistants[0].output.schema: schema must describe an object"}},
		"a bad output":         {auth + "assistants: [{name: a, model: 'scripted:', output: {schema: {type: objekt}}}]", []string{"assistants[0].output.schema: "}},
		"workspace of nothing": {auth + "assistants: [{name: a, model: 'scripted:', workspace: {tools: [read]}}]", []string{"2:55: assistants[0].workspace.provider: is required: memory, dir, bubblewrap or container"}},
		"commands in memory":   {auth + "assistants: [{name: a, model: 'scripted:', workspace: {provider: memory, network: true}}]", []string{"2:83: assistants[0].workspace.network: is for commands, which the provider memory does not run"}},
		"no image":             {auth + "assistants: [{name: a, model: 'scripted:', workspace: {provider: container}}]", []string{"2:55: assistants[0].workspace.image: is required for the provider container"}},
		"native of nothing":    {auth + "assistants: [{name: a, model: 'scripted:', output: {native: true}}]", []string{"2:52: assistants[0].output.schema: is required with native"}},
		"a native word":        {auth + "assistants: [{name: a, model: 'scripted:', output: {schema: {type: object}, native: strict}}]", []string{"output.native: got a text, want true or false"}},
		"an output's key":      {auth + "assistants: [{name: a, model: 'scripted:', output: {shema: {}}}]", []string{"output.shema: unknown key; did you mean schema?"}},
		"fields for nobody": {auth + "assistants: [{name: a, model: 'scripted:', tools: [{client: x, description: d, provider_fields: {antropic: {strict: true}}}]}]", []string{
			`2:108: assistants[0].tools[0].provider_fields.antropic: unknown provider "antropic": must be one of anthropic, openai-chat, scripted; did you mean anthropic?`}},
		"fields of an MCP server": {auth + "assistants: [{name: a, model: 'scripted:', tools: [{mcp: {url: 'http://x'}, provider_fields: {x: {}}}]}]", []string{`tools[0].provider_fields.x: unknown provider "x"`}},
		"a field alone":           {auth + "assistants: [{name: a, model: 'scripted:', tools: [{agent: b, provider_fields: {anthropic: strict}}]}, {name: b, model: 'scripted:'}]", []string{"tools[0].provider_fields.anthropic: got a text, want a mapping of names"}},
		"headers of a command":    {auth + "assistants: [{name: a, model: 'scripted:', tools: [{mcp: {command: [x], headers: {A: b}}}]}]", []string{"tools[0].mcp.headers: may only be set with url"}},
		"no name of a header":     {auth + "assistants: [{name: a, model: 'scripted:', tools: [{mcp: {url: 'http://x', headers: {'A: b': c}}}]}]", []string{`tools[0].mcp.headers: "A: b" is not a valid header name`}},
		"a header of two lines":   {auth + "assistants: [{name: a, model: 'scripted:', tools: [{mcp: {url: 'http://x', headers: {A: \"b\\nC: d\"}}}]}]", []string{"tools[0].mcp.headers.A: has a line break"}},
		"a header twice":          {auth + "assistants: [{name: a, model: 'scripted:', tools: [{mcp: {url: 'http://x', headers: {a: b, A: c}}}]}]", []string{`tools[0].mcp.headers.a: is a duplicate: set as "A" and "a"`}},
		"a required word":         {auth + "assistants: [{name: a, model: 'scripted:', tools: [{mcp: {url: 'http://x', required: always}}]}]", []string{"tools[0].mcp.required: got a text, want true or false"}},
		"a required client tool":  {auth + "assistants: [{name: a, model: 'scripted:', tools: [{client: x, description: d, required: true}]}]", []string{"tools[0].required: unknown key"}},
		"no time to list":         {auth + "assistants: [{name: a, model: 'scripted:', tools: [{mcp: {url: 'http://x', list_timeout: 0s}}]}]", []string{"tools[0].mcp.list_timeout: must be positive, not 0s"}},
		"a sub-agent":             {auth + "assistants: [{name: research, model: 'scripted:', tools: [{agent: reserch}]}]", []string{`tools[0].agent: unknown assistant "reserch"; did you mean research?`}},
		"its own sub-agent": {auth + "assistants: [{name: a, model: 'scripted:', tools: [{agent: b}]}, {name: b, model: 'scripted:', tools: [{agent: a}]}]",
			[]string{"the assistant is its own sub-agent: a → b → a", "the assistant is its own sub-agent: b → a → b"}},
		"a tool of two kinds":        {auth + "assistants: [{name: a, model: 'scripted:', tools: [{client: x, agent: a}]}]", []string{"must have exactly one of client, mcp, agent"}},
		"a key of another":           {auth + "assistants: [{name: a, model: 'scripted:', tools: [{client: x, prefix: y}]}]", []string{"tools[0].prefix: may only be set on mcp tools, not on client tools"}},
		"an MCP server of two kinds": {auth + "assistants: [{name: a, model: 'scripted:', tools: [{mcp: {url: 'http://x', command: [y]}}]}]", []string{"tools[0].mcp: must have either command or url"}},
		"a schema":                   {auth + "assistants: [{name: a, model: 'scripted:', tools: [{client: x, parameters: {type: objekt}}]}]", []string{`assistants[0].tools[0]: tool "x"`}},
		"no timeout":                 {auth + "assistants: [{name: a, model: 'scripted:', tools: [{client: x, timeout: -1s}]}]", []string{"timeout: must be positive, not -1s"}},
		"an alias of an alias":       {auth + "x: &x [*x, *x]", []string{"x: unknown key"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("cairn.yaml", []byte(c.text), nil, providers)
			var mistakes *Error
			if !errors.As(err, &mistakes) {
				t.Fatalf("got %v", err)
			}
			if len(c.want) > 1 && len(mistakes.Problems) != len(c.want) {
				t.Errorf("there are %d mistakes, want %d", len(mistakes.Problems), len(c.want))
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got\n%v\nwithout\n%s", err, want)
				}
			}
		})
	}
}

// A secret comes from a file, without the line break at its end. Another text stands in for a file that does not exist.
func TestSecretsFromFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("abcdef0123456789\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Parse("cairn.yaml", []byte("store: redis://:${file:"+file+"}@localhost/0\nauth: {tokens: [{token: ${file:"+file+"}, user: a}, {token: ${file:/no/such/file:-0123456789abcdef}, user: b}]}"), nil, providers)
	if err != nil {
		t.Fatal(err)
	}
	if c.Store != "redis://:abcdef0123456789@localhost/0" || c.Auth.Tokens[0].Token != "abcdef0123456789" || c.Auth.Tokens[1].Token != "0123456789abcdef" {
		t.Errorf("got %+v", c)
	}
	if err := os.WriteFile(file, make([]byte, 1<<17), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse("cairn.yaml", []byte("store: ${file:"+file+"}\nauth: {allow_unauthenticated: true}"), nil, providers); err == nil || !strings.Contains(err.Error(), "store: ${file:"+file+"}: file is too large (max 65536 bytes)") {
		t.Errorf("a large file: %v", err)
	}
}

// Aliases that expand exponentially are rejected.
func TestAliases(t *testing.T) {
	t.Parallel()
	text := "auth: {allow_unauthenticated: true}\nassistants: [{name: a, model: 'scripted:', tools: [{client: x, parameters: &a0 {type: object}}]},\n"
	for i := range 40 {
		n, before := string(rune('a'+i/10))+string(rune('0'+i%10)), string(rune('a'+max(0, i-1)/10))+string(rune('0'+max(0, i-1)%10))
		if i > 0 {
			text += " {name: " + n + ", model: 'scripted:', tools: [{client: x, parameters: &" + n + " {properties: [*" + before + ", *" + before + "]}}]},\n"
		}
	}
	_, err := Parse("cairn.yaml", []byte(text+"]"), nil, providers)
	if err == nil || !strings.Contains(err.Error(), "file has too many values") {
		t.Errorf("got %v", err)
	}
}

// No mistake shows a token or a key.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	for _, text := range []string{
		"auth: {tokens: [{token: s3cr3t, user: a}]}",
		"auth: {tokens: [{token: [s3cr3t], user: a}]}",
		"auth: {tokens: [{token: '${T}', user: a}]}",
		"auth: {tokens: s3cr3t}",
		"advance: {secret: s3cr3t, earlier_secrets: [s3cr3t], start: s3cr3t}",
		"providers: {openai-chat: {api_key: {s: s3cr3t}, base_url: 's3cr3t'}}",
	} {
		_, err := Parse("cairn.yaml", []byte(text), map[string]string{"T": secret}, providers)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	raw, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(small))
	f.Add([]byte("a: &a [*a]\nassistants: [{tools: [{client: x, parameters: &p {x: *p}}]}]"))
	f.Add([]byte("listen: ${X:-${Y}}\n<<: {worker: no}\n? [a]\n: b"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := Parse("cairn.yaml", raw, map[string]string{"X": "y"}, providers)
		var mistakes *Error
		if (c == nil) != (err != nil) || err != nil && (!errors.As(err, &mistakes) || len(mistakes.Problems) == 0) {
			t.Fatalf("got %v, %v", c, err)
		}
	})
}
