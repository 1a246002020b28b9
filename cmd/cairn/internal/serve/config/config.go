// Package config reads the YAML file of cairn serve, and the files of secrets that it refers to. It reports all
// mistakes at once, each with its line if it has one; a mistake of YAML itself hides the others. Package serve
// implements the keys.
package config

import (
	"encoding/json"
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/server/jwtauth"
)

// Config is the file. The table of keys in docs/SERVE.md is made of the "doc" tags.
type Config struct {
	Listen          string              `yaml:"listen" doc:"The address to listen on. Without authentication it must be a loopback address." default:"127.0.0.1:8420"`
	URL             string              `yaml:"url" doc:"The address under which clients reach the server, such as https://example.com/agents, if a proxy changes hosts or paths."`
	BasePath        string              `yaml:"base_path" doc:"The path below which the routes are, such as /agents, if a proxy passes it on. Requests for other paths are not found."`
	TLS             TLS                 `yaml:"tls" doc:"Serve HTTPS. Without the key the server speaks plain HTTP."`
	Log             Log                 `yaml:"log" doc:"The process's log, on standard error."`
	Store           string              `yaml:"store" doc:"The store of sessions: memory, sqlite:PATH, postgres://… or redis://…" default:"sqlite:cairn.db"`
	Events          string              `yaml:"events" doc:"The store of events, named as in store; empty means the store of sessions."`
	Host            string              `yaml:"host" doc:"The host that drives runs: temporal://… or dbos://…; empty means this process."`
	Executor        string              `yaml:"executor" doc:"This process's name on the host, unique and the same after a restart, such as ${HOSTNAME}. On DBOS a restarted process resumes its runs at once; on Temporal it is the worker's identity. Empty means a new name each time."`
	Advance         Advance             `yaml:"advance" doc:"Leave runs to callers, which drive them step by step with POST /advance."`
	Worker          bool                `yaml:"worker" doc:"Take over crashed runs, resume answered sessions, enforce deadlines, sweep." default:"true"`
	WorkConcurrency int                 `yaml:"work_concurrency" doc:"How many runs the worker drives at once. Runs mostly wait for models, so memory limits them." default:"1000"`
	WaitAtMost      Duration            `yaml:"wait_at_most" doc:"How long a call waits for people, if its tool has no timeout of its own: approvals, client tools, questions. Without the key there is no limit."`
	Lease           Duration            `yaml:"lease" doc:"How long a session stays with a process that shows no sign of life, at least 1s. Another process takes its turn over after that." default:"30s, 15s on a host"`
	Retention       Retention           `yaml:"retention" doc:"How long the worker's sweeps keep data."`
	LameDuck        Duration            `yaml:"lame_duck" doc:"How long the process serves as before after SIGTERM, while /readyz fails, so that proxies send requests elsewhere. Without the key it drains at once."`
	Drain           Duration            `yaml:"drain" doc:"How long turns may take to finish their step at the end of the process, after lame_duck. The process manager must allow 5s more before it kills the process." default:"10s"`
	Auth            Auth                `yaml:"auth" doc:"Who may use the server."`
	CORS            CORS                `yaml:"cors" doc:"Access for pages of other origins."`
	Limits          Limits              `yaml:"limits" doc:"Limits for each user."`
	Providers       map[string]Provider `yaml:"providers" doc:"Settings of model providers, by the word before the colon in a model."`
	Models          string              `yaml:"models" doc:"A file with the windows and prices of models, in place of the built-in table: cairn models import makes one."`
	Traces          Traces              `yaml:"traces" doc:"The content of OpenTelemetry spans, which are exported if the variables OTEL_* name a collector."`
	Metrics         string              `yaml:"metrics" doc:"The address at which GET /metrics serves metrics for Prometheus, such as 127.0.0.1:9464. It has no authentication. Without the key, no address does; the variables OTEL_* may export metrics."`
	Budgets         []BudgetRule        `yaml:"budgets" doc:"Budgets of users, assistants, tags and tenants in a period. All processes on a store need the same ones."`
	Assistants      []Assistant         `yaml:"assistants" doc:"The agents. Their names are unique." text:"raw"`
}

// Advance leaves runs to callers of POST /advance.
type Advance struct {
	Secret         string   `yaml:"secret" doc:"The secret that signs tickets, at least 32 characters, such as ${ADVANCE_SECRET}. Without it this process or the host drives runs." secret:"yes"`
	EarlierSecrets []string `yaml:"earlier_secrets" doc:"Secrets whose tickets are accepted as well, while the secret is replaced."`
	Start          string   `yaml:"start" doc:"The URL to which a ticket for each run that begins is posted, as {\"ticket\": …}. Without the key only POST /sessions/{id}/advance drives runs."`
	StartToken     string   `yaml:"start_token" doc:"The bearer token of the requests to start." secret:"yes"`
	TicketTTL      Duration `yaml:"ticket_ttl" doc:"How long a ticket is valid." default:"24h"`
	Wait           Duration `yaml:"wait" doc:"How long a request waits for its step if it does not say, at most 15m." default:"25s"`
	Patience       Duration `yaml:"patience" doc:"How long a worker leaves a run alone that no request has advanced, before it posts another ticket. It should be longer than tickets wait in the caller's queue." default:"10m"`
}

// TLS names the files of a certificate.
type TLS struct {
	Cert string `yaml:"cert" doc:"The file of the certificate, in PEM, with the intermediate ones after it. It is read again on SIGHUP and when the file changes."`
	Key  string `yaml:"key" doc:"The file of the certificate's private key, in PEM."`
}

// Log tunes the process's log.
type Log struct {
	Level  string `yaml:"level" doc:"The least level that is logged: debug, info, warn or error." default:"info" oneof:"debug info warn error"`
	Format string `yaml:"format" doc:"text, or json for an object per line." default:"text" oneof:"text json"`
}

// Least returns the least level that is logged.
func (l *Log) Least() slog.Level {
	return map[string]slog.Level{"debug": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError}[l.Level] // else LevelInfo, 0
}

// Retention is what sweeps keep. The zero value of an event field keeps everything.
type Retention struct {
	Removed  Duration `yaml:"removed" doc:"How long deleted and expired sessions are kept and can be restored." default:"720h"`
	EventAge Duration `yaml:"event_age" doc:"How long the events of a run are kept after its end, at least 1h. Without the key they are kept forever. Transcripts are always kept."`
	Events   int      `yaml:"events" doc:"How many of its newest events a log keeps. Without the key, all."`
	Usage    Duration `yaml:"usage" doc:"How long usage is kept commit by commit. Its sums by day are kept forever." default:"720h"`
}

// Traces tunes the export of spans.
type Traces struct {
	Content       bool     `yaml:"content" doc:"Also export what users, models and tools wrote: messages, arguments and results, up to 4 KiB of each." default:"false"`
	Langfuse      bool     `yaml:"langfuse" doc:"Add the attributes by which Langfuse groups and shows spans." default:"false"`
	NewTraceAfter Duration `yaml:"new_trace_after" doc:"How long a turn may wait until the run that resumes it begins a trace of its own, linked to the previous one. Without the key a turn is one trace."`
}

// Auth says who may use the server.
type Auth struct {
	AllowUnauthenticated bool    `yaml:"allow_unauthenticated" doc:"Serve every request as an administrator's. Needs a loopback address." default:"false"`
	Tokens               []Token `yaml:"tokens" doc:"Bearer tokens; cairn token generates them."`
	JWT                  JWT     `yaml:"jwt" doc:"Signed tokens of an identity provider, alongside auth.tokens or instead of them. issuer, audience and jwks_url are required."`
	OIDC                 OIDC    `yaml:"oidc" doc:"The OpenID Connect provider that signs the users of the console in, alongside auth.tokens and auth.jwt or instead of them. issuer, client_id and redirect_url are required, and --page."`
}

// Token is a bearer token of a user.
type Token struct {
	Token  string   `yaml:"token" doc:"The token, at least 16 characters." secret:"yes"`
	User   string   `yaml:"user" doc:"The user's name."`
	Tenant string   `yaml:"tenant" doc:"The tenant that the user is confined to; * for an operator of the platform, who sees all tenants. Without the key, the user sees sessions without a tenant."`
	Roles  []string `yaml:"roles" doc:"The user's roles: user, reviewer, operator, admin." default:"[user]" oneof:"user reviewer operator admin"`
}

// JWT selects the signed tokens that are accepted.
type JWT struct {
	Issuer      string `yaml:"issuer" doc:"The issuer of tokens, as in their iss claim."`
	Audience    string `yaml:"audience" doc:"The value that their aud claim must contain."`
	JWKSURL     string `yaml:"jwks_url" doc:"The address of the issuer's keys: https, or http on this machine."`
	UserClaim   string `yaml:"user_claim" doc:"The claim that names the user. Dots lead into objects." default:"sub"`
	TenantClaim string `yaml:"tenant_claim" doc:"The claim that names the user's tenant, or has * for an operator of the platform, who sees all tenants. A token without it is refused. Dots lead into objects. Without the key, users have no tenant."`
	RolesClaim  string `yaml:"roles_claim" doc:"The claim that lists the user's roles: user, reviewer, operator, admin, or the names in roles. Dots lead into objects, as in realm_access.roles." default:"roles"`

	Roles        map[string]string `yaml:"roles" doc:"The role for each value of the roles claim, such as support-admin: admin. Other values are ignored. Without the key the values are names of roles." oneof:"user reviewer operator admin"`
	DefaultRoles []string          `yaml:"default_roles" doc:"The roles of a token that names none; without the key such a user may do nothing." oneof:"user reviewer operator admin"`
	Algorithms   []string          `yaml:"algorithms" doc:"The signature algorithms that are accepted, only ones with a public key." default:"[RS256, ES256, EdDSA]"`
}

// Given reports whether an issuer's tokens are accepted.
func (j *JWT) Given() bool { return j.Issuer != "" || j.Audience != "" || j.JWKSURL != "" }

// Options returns the options of the tokens' authenticator.
func (j *JWT) Options() *jwtauth.Options {
	o := &jwtauth.Options{Issuer: j.Issuer, Audience: j.Audience, JWKS: j.JWKSURL, UserClaim: j.UserClaim, TenantClaim: j.TenantClaim, RolesClaim: j.RolesClaim,
		Algorithms: j.Algorithms}
	if j.Roles != nil {
		o.Roles = make(map[string]server.Role, len(j.Roles))
	}
	for name, role := range j.Roles {
		o.Roles[name] = server.Role(role)
	}
	for _, role := range j.DefaultRoles {
		o.Default = append(o.Default, server.Role(role))
	}
	return o
}

// usual holds the default claims.
var usual = JWT{UserClaim: "sub", RolesClaim: "roles"}

// OIDC selects the OpenID Connect provider that signs the users of the console in.
type OIDC struct {
	Issuer       string   `yaml:"issuer" doc:"The address of the provider, as in the iss claim of its tokens: https, or http on this machine."`
	ClientID     string   `yaml:"client_id" doc:"The name of this server at the provider."`
	ClientSecret string   `yaml:"client_secret" doc:"The secret of this server at the provider. Without it, the server is a public client." secret:"yes"`
	RedirectURL  string   `yaml:"redirect_url" doc:"The address of the console with oidc/callback at its end, as the provider has it registered, such as https://cairn.example.com/console/oidc/callback."`
	Name         string   `yaml:"name" doc:"The provider's name on the page of the sign-in." default:"your organisation"`
	Scopes       []string `yaml:"scopes" doc:"The scopes that are asked for in addition to openid." default:"[profile, email]"`
	UserClaim    string   `yaml:"user_claim" doc:"As in auth.jwt, of ID tokens." default:"sub"`
	TenantClaim  string   `yaml:"tenant_claim" doc:"As in auth.jwt."`
	RolesClaim   string   `yaml:"roles_claim" doc:"As in auth.jwt." default:"roles"`

	Roles        map[string]string `yaml:"roles" doc:"As in auth.jwt." oneof:"user reviewer operator admin"`
	DefaultRoles []string          `yaml:"default_roles" doc:"As in auth.jwt." oneof:"user reviewer operator admin"`
}

// usualOIDC has the defaults.
var usualOIDC = OIDC{Name: "your organisation", UserClaim: usual.UserClaim, RolesClaim: usual.RolesClaim}

// Given reports whether a provider signs users in.
func (o *OIDC) Given() bool { return o.Issuer != "" || o.ClientID != "" || o.RedirectURL != "" }

// Claims returns the options that say whom the claims of a token name.
func (o *OIDC) Claims() *jwtauth.Options {
	j := JWT{UserClaim: o.UserClaim, TenantClaim: o.TenantClaim, RolesClaim: o.RolesClaim, Roles: o.Roles, DefaultRoles: o.DefaultRoles}
	return j.Options()
}

// CORS selects the pages that may call the server.
type CORS struct {
	Origins []string `yaml:"origins" doc:"Origins of pages that may call the server, such as https://app.example.com."`
}

// Limits bounds what one user may take of the server.
type Limits struct {
	Body              Bytes `yaml:"body" doc:"The maximum size of a request's body; of POST /chat, that of the last message." default:"4MiB"`
	ChatBody          Bytes `yaml:"chat_body" doc:"The maximum size of the body of POST /chat, in which pages send the whole conversation." default:"64MiB"`
	JSONValues        int   `yaml:"json_values" doc:"The maximum number of JSON values in a request's body; -1 means no limit." default:"30000"`
	Queue             int   `yaml:"queue" doc:"The maximum number of queued turns of a session; -1 means no limit." default:"100"`
	Replaced          int   `yaml:"replaced" doc:"The maximum number of earlier versions of a chat that edits keep; the oldest is removed; -1 means no limit." default:"50"`
	StreamsPerUser    int   `yaml:"streams_per_user" doc:"The maximum number of open streams of a user; -1 means no limit." default:"20"`
	RequestsPerMinute int   `yaml:"requests_per_minute" doc:"The maximum number of requests of a user per minute; -1 means no limit." default:"600"`
	RunsPerUser       int   `yaml:"runs_per_user" doc:"The maximum number of a user's sessions with a turn under way, in all processes together; -1 means no limit." default:"-1"`
}

// Provider holds the settings of a provider of models.
type Provider struct {
	BaseURL string `yaml:"base_url" doc:"The provider's address, if not its public one."`
	APIKey  string `yaml:"api_key" doc:"The key; empty means the value of the provider's environment variable." secret:"yes"`
}

// Assistant is an agent that the file declares. Each of its fields is part of its version, and is stored as JSON.
type Assistant struct {
	Name         string            `yaml:"name" json:"name" doc:"Letters, digits, - and _. Sessions name their assistant by it."`
	Description  string            `yaml:"description" json:"description,omitempty" doc:"Its purpose, which other assistants read."`
	Model        string            `yaml:"model" json:"model" doc:"PROVIDER:NAME; scripted is a model without a provider, for tests."`
	Models       map[string]string `yaml:"models" json:"models,omitempty" doc:"Alternatives to model, as NAME: PROVIDER:NAME. A turn or a fork may select one by its name."`
	Instructions string            `yaml:"instructions" json:"instructions,omitempty" doc:"The system prompt."`
	Settings     Settings          `yaml:"settings" json:"settings,omitzero" doc:"Settings of each model call. Without a key, its provider's default."`
	Output       Output            `yaml:"output" json:"output,omitzero" doc:"A typed output that ends a turn instead of a text."`
	MaxSteps     int               `yaml:"max_steps" json:"max_steps,omitempty" doc:"The maximum number of model calls in a turn." default:"50"`
	Budget       Budget            `yaml:"budget" json:"budget,omitzero" doc:"A limit of the usage of the assistant, its sub-agents included."`
	OnBusy       string            `yaml:"on_busy" json:"on_busy,omitempty" doc:"How a turn is handled while another one runs, if the request does not say: reject, enqueue, interrupt, rollback or steer. Without the key, POST /chat queues it." default:"reject" oneof:"reject enqueue interrupt rollback steer"`
	OnWaiting    string            `yaml:"on_waiting" json:"on_waiting,omitempty" doc:"How a turn is handled while calls are pending, if the request does not say: refuse, withdraw or enqueue." default:"refuse" oneof:"refuse withdraw enqueue"`
	OnExpired    string            `yaml:"on_expired" json:"on_expired,omitempty" doc:"How a message to a chat is handled if the session has expired. refuse: the server answers 410, and the user can restore the session; restore: it restores the session; new: it begins a new session of the same thread." default:"refuse" oneof:"refuse restore new"`
	Sessions     string            `yaml:"sessions" json:"sessions,omitempty" doc:"thread: a chat keeps its session until that expires; each_turn: each message to a chat begins a new session of its thread." default:"thread" oneof:"thread each_turn"`
	Versions     string            `yaml:"versions" json:"versions,omitempty" doc:"follow: the next turn uses a new version; pin: a session keeps the version that it began with." default:"follow" oneof:"follow pin"`
	Durability   string            `yaml:"durability" json:"durability,omitempty" doc:"When steps are committed: per_tool, per_step, manual, or an interval such as 5s." default:"per_step"`
	TTL          Duration          `yaml:"ttl" json:"ttl,omitempty" doc:"How long a session may be idle before it expires." default:"168h"`
	ToolCache    ToolCache         `yaml:"tool_cache" json:"tool_cache,omitzero" doc:"Cache results of MCP tools within a session, if their server calls them read-only (readOnlyHint) and they need no approval. Without either key nothing is cached."`
	DeferAbove   int               `yaml:"defer_above" json:"defer_above,omitempty" doc:"The size of its tool definitions, in tokens, above which requests leave out deferred tools; -1 means no limit." default:"10000"`
	Tools        []Tool            `yaml:"tools" json:"tools,omitempty" doc:"The tools that the model may call. Each has one of client, mcp, agent."`
	Skills       Skills            `yaml:"skills" json:"skills,omitzero" doc:"Skills that the model loads when a task needs them."`
	Memory       Memory            `yaml:"memory" json:"memory,omitzero" doc:"The memory of earlier turns and other sessions."`
	Workspace    Workspace         `yaml:"workspace" json:"workspace,omitzero" doc:"The directory of files, and the shell, of each session."`
}

// Policy returns the policy of the cache; nil if nothing is cached.
func (c ToolCache) Policy() *cairn.CachePolicy {
	if c == (ToolCache{}) {
		return nil
	}
	return &cairn.CachePolicy{Max: c.MaxEntries, TTL: time.Duration(c.TTL)}
}

// Output declares the typed output of an assistant. The zero value is none.
type Output struct {
	Schema JSON `yaml:"schema" json:"schema,omitempty" doc:"The JSON Schema of the output, which is an object. The model gives the output by a call of the tool __finish__."`
	Native bool `yaml:"native" json:"native,omitempty" doc:"The model gives the output as structured output of its provider, if that supports it. The provider restricts the schema." default:"false"`
}

// Type returns the type of the output; nil if there is none.
func (o *Output) Type() *cairn.OutputType {
	if o.Schema == nil {
		return nil
	}
	t := cairn.RawOutput(json.RawMessage(o.Schema))
	if o.Native {
		t = t.Native()
	}
	return t
}

// Skills are the skills of an assistant. The zero value is none.
type Skills struct {
	Folders []string `yaml:"folders" json:"folders,omitempty" doc:"Folders with skills: each folder with a SKILL.md, up to 6 levels deep. If two skills have one name, the first one counts. Relative paths begin at the working directory."`
	Preload []string `yaml:"preload" json:"preload,omitempty" doc:"Skills whose instructions the model has from the beginning of a session."`
}

// Some reports whether there are folders to look for skills in.
func (s *Skills) Some() bool { return len(s.Folders) > 0 }

// Memory is the memory of an assistant. The zero value is none.
type Memory struct {
	Scope       string   `yaml:"scope" json:"scope,omitempty" doc:"Whose memories they are: none, session, user (a session needs a user) or group." default:"none"`
	Group       string   `yaml:"group" json:"group,omitempty" doc:"The name of the group of assistants that share the memories, for the scope group."`
	Retention   Duration `yaml:"retention" json:"retention,omitempty" doc:"How long a memory is kept. Without it, memories are kept for ever."`
	MaxEntries  int      `yaml:"max_entries" json:"max_entries,omitempty" doc:"The maximum number of memories of a session, user or group. The least important ones are removed first, then the oldest." default:"10000"`
	Trusted     []string `yaml:"trusted" json:"trusted,omitempty" doc:"Tools whose results only you can write; * means all. Memories from sessions with results of other tools are kept for review and are not used until then."`
	Forget      bool     `yaml:"forget" json:"forget,omitempty" doc:"Give the model a tool that forgets memories." default:"false"`
	Extract     string   `yaml:"extract" json:"extract,omitempty" doc:"The model that extracts facts from each turn, as PROVIDER:NAME. Without it, only the texts of turns are remembered."`
	ExtractUSD  float64  `yaml:"extract_usd_per_day" json:"extract_usd_per_day,omitempty" doc:"The maximum cost of extraction in a day (UTC), in US dollars. At the limit, only the texts of turns are remembered. Without it, there is no limit."`
	Consolidate bool     `yaml:"consolidate" json:"consolidate,omitempty" doc:"Have that model also merge facts that say the same, once a day for each user, session or group with new facts." default:"false"`
}

// Some reports whether the assistant has a memory.
func (m *Memory) Some() bool { return m.Scope != "" && m.Scope != "none" }

// Workspace declares the workspaces of an assistant's sessions. The zero value is none.
type Workspace struct {
	Provider     string       `yaml:"provider" json:"provider,omitempty" doc:"Where the files are, and what runs commands: none, memory and dir (no commands), bubblewrap, or container." default:"none"`
	Path         string       `yaml:"path" json:"path,omitempty" doc:"The directory of this machine for the files of sessions; not for memory. It is a cache: the store has the snapshots. If the server is root, the user of the sandbox must be able to enter it." default:"cairn-workspaces"`
	Tools        []string     `yaml:"tools" json:"tools,omitempty" doc:"The tools of the model: read, list, search, write, edit, remove, snapshot, restore, publish, shell, processes, run. Without the key, all that the provider supports, and run if there are interpreters."`
	Interpreters []string     `yaml:"interpreters" json:"interpreters,omitempty" doc:"The languages of the tool run: sh, bash, python3, node, ruby, perl, go."`
	Approve      []string     `yaml:"approve" json:"approve,omitempty" doc:"Regular expressions of commands that a person approves before they run."`
	Network      bool         `yaml:"network" json:"network,omitempty" doc:"Let commands use the network." default:"false"`
	Image        string       `yaml:"image" json:"image,omitempty" doc:"The image of the containers, for the provider container."`
	Repositories []Repository `yaml:"repositories" json:"repositories,omitempty" doc:"Git repositories that a new session's workspace has."`
	Mounts       []Mount      `yaml:"mounts" json:"mounts,omitempty" doc:"Directories of this machine that commands see."`
	Environment  []string     `yaml:"environment" json:"environment,omitempty" doc:"The names of environment variables of the server that commands get. They get no others."`
	MaxTime      Duration     `yaml:"max_time" json:"max_time,omitempty" doc:"The longest time that a command may take." default:"10m"`
	MaxBytes     int64        `yaml:"max_bytes" json:"max_bytes,omitempty" doc:"The maximum size of the files of a snapshot, in bytes." default:"268435456"`
	MaxMemory    int64        `yaml:"max_memory" json:"max_memory,omitempty" doc:"The maximum address space of each process of a command, in bytes; of a container, the memory of all." default:"4294967296"`
	MaxProcesses int          `yaml:"max_processes" json:"max_processes,omitempty" doc:"The maximum number of processes and threads of a command." default:"256"`
}

// Some reports whether the assistant has workspaces.
func (w *Workspace) Some() bool { return w.Provider != "" && w.Provider != "none" }

// Repository is a git repository in a workspace.
type Repository struct {
	URL      string `yaml:"url" json:"url" doc:"The address to clone, or the path of a directory."`
	Revision string `yaml:"revision" json:"revision,omitempty" doc:"A branch or tag. Without it, the default branch."`
	Path     string `yaml:"path" json:"path" doc:"The directory of the working tree in the workspace."`
	Depth    int    `yaml:"depth" json:"depth,omitempty" doc:"How many commits of the history to fetch. Without it, all."`
}

// Mount is a directory of the machine that commands see.
type Mount struct {
	Source   string `yaml:"source" json:"source" doc:"Its absolute path."`
	Target   string `yaml:"target" json:"target,omitempty" doc:"The path that commands see it at. Without it, the same."`
	Writable bool   `yaml:"writable" json:"writable,omitempty" doc:"Let commands change it. A rewind does not undo that." default:"false"`
}

// Settings tune the model calls of an assistant.
type Settings struct {
	Temperature     *float64 `yaml:"temperature" json:"temperature,omitempty" doc:"The sampling temperature, from 0."`
	TopP            *float64 `yaml:"top_p" json:"top_p,omitempty" doc:"The probability mass of nucleus sampling, from 0."`
	MaxOutputTokens int      `yaml:"max_output_tokens" json:"max_output_tokens,omitempty" doc:"The maximum length of a reply, in tokens."`
	ReasoningEffort string   `yaml:"reasoning_effort" json:"reasoning_effort,omitempty" doc:"One of the provider's levels, such as low, medium or high."`
	StopSequences   []string `yaml:"stop_sequences" json:"stop_sequences,omitempty" doc:"Texts that end a reply where one of them would follow."`
	Options         JSON     `yaml:"options" json:"options,omitempty" doc:"A mapping that is merged into the provider's request, at any depth; lists replace the request's."`
}

// ToolCache limits the tool results that a session keeps.
type ToolCache struct {
	MaxEntries int      `yaml:"max_entries" json:"max_entries,omitempty" doc:"The maximum number of cached results of a session." default:"64"`
	TTL        Duration `yaml:"ttl" json:"ttl,omitempty" doc:"How long a cached result is valid." default:"1h"`
}

// Tool is a tool of an assistant. Exactly one of Client, MCP and Agent is set.
type Tool struct {
	Client      string   `yaml:"client" json:"client,omitempty" doc:"The name of a client-executed tool."`
	Description string   `yaml:"description" json:"description,omitempty" doc:"The description of a client tool, for the model."`
	Parameters  JSON     `yaml:"parameters" json:"parameters,omitempty" doc:"The JSON Schema of a client tool's arguments." default:"{type: object}"`
	Result      JSON     `yaml:"result" json:"result,omitempty" doc:"The JSON Schema that results of a client tool must satisfy."`
	Timeout     Duration `yaml:"timeout" json:"timeout,omitempty" doc:"How long a call waits for the client's result, for the MCP server, or for the assistant to end."`

	Deferred bool `yaml:"deferred" json:"deferred,omitempty" doc:"Requests leave out the client tool, or the MCP server's tools, if tool definitions are larger than defer_above. The model finds them by search."`

	ToolCache ToolCache `yaml:"tool_cache" json:"tool_cache,omitzero" doc:"Cache the results of a client tool, the answers of an assistant, or the results of MCP tools within a session. For MCP tools it replaces the assistant's tool_cache and applies to the same tools."`

	ProviderFields map[string]map[string]JSON `yaml:"provider_fields" json:"provider_fields,omitempty" doc:"Fields for providers, by the word before the colon in a model: they are merged into the provider's definition of the tool, or of each tool of the MCP server, such as anthropic: {defer_loading: true}."`

	MCP     *MCP     `yaml:"mcp" json:"mcp,omitempty" doc:"An MCP server, whose tools the assistant gets."`
	Prefix  string   `yaml:"prefix" json:"prefix,omitempty" doc:"A prefix for the names of the MCP server's tools."`
	Allow   []string `yaml:"allow" json:"allow,omitempty" doc:"The tools of the MCP server that are offered, by the server's names; * matches any letters." default:"all"`
	Approve []string `yaml:"approve" json:"approve,omitempty" doc:"The tools of the MCP server whose calls need approval."`

	Effectful []string `yaml:"effectful" json:"effectful,omitempty" doc:"The tools of the MCP server that must not take effect twice: their calls are on the ledger of effects."`

	Agent string `yaml:"agent" json:"agent,omitempty" doc:"The name of another assistant, as a sub-agent."`
}

// FieldsFor returns the fields for providers; nil if there are none.
func (t *Tool) FieldsFor() map[string]map[string]any {
	var all map[string]map[string]any
	for provider, fields := range t.ProviderFields {
		list := make(map[string]any, len(fields))
		for name, value := range fields {
			list[name] = value
		}
		if all == nil {
			all = map[string]map[string]any{}
		}
		all[provider] = list
	}
	return all
}

// Options returns the options that client tools and sub-agents have in common.
func (t *Tool) Options() (list []cairn.ToolOption) {
	if policy := t.ToolCache.Policy(); policy != nil {
		list = append(list, cairn.Cache(*policy))
	}
	for provider, fields := range t.FieldsFor() {
		list = append(list, cairn.ProviderFields(provider, fields))
	}
	return list
}

// MCP is an MCP server: a command to start, or an address.
type MCP struct {
	Command []string          `yaml:"command" json:"command,omitempty" doc:"The command that starts an MCP server."`
	Env     map[string]string `yaml:"env" json:"env,omitempty" doc:"Its environment variables. Each process expands ${NAME} in env, command, url and headers itself."`
	URL     string            `yaml:"url" json:"url,omitempty" doc:"The address of an MCP server."`
	Headers map[string]string `yaml:"headers" json:"headers,omitempty" doc:"Headers of its requests, by name, such as Authorization: Bearer ${SHOP_TOKEN}."`
	// Required and ListTimeout are those of package mcp's Options.
	Required    bool     `yaml:"required" json:"required,omitempty" doc:"A turn fails if the server does not list its tools in time. Otherwise the turn runs without them."`
	ListTimeout Duration `yaml:"list_timeout" json:"list_timeout,omitempty" doc:"How long a turn waits for the server's tools while none are known, such as while a command starts." default:"15s"`

	Resources          bool `yaml:"resources" json:"resources,omitempty" doc:"The model lists and reads the server's resources, with the tools list_resources and read_resource. Patterns of approve match them as resources/list and resources/read." default:"false"`
	Skills             bool `yaml:"skills" json:"skills,omitempty" doc:"The assistant has the skills that the server publishes, too. Their names begin with the server's, and their digests are verified." default:"false"`
	IgnoreInstructions bool `yaml:"ignore_instructions" json:"ignore_instructions,omitempty" doc:"The model does not read the instructions that the server gives for the use of its tools." default:"false"`
}

// Duration is a duration in the form 90s, 24h, 30d or 1w.
type Duration time.Duration

// Bytes is a size in the form 512KiB or 4MiB.
type Bytes int64

// JSON is any value, encoded as JSON. In the file it is YAML.
type JSON json.RawMessage

// MarshalJSON returns the value.
func (j JSON) MarshalJSON() ([]byte, error) { return json.RawMessage(j).MarshalJSON() }

// UnmarshalJSON sets the value.
func (j *JSON) UnmarshalJSON(raw []byte) error { return (*json.RawMessage)(j).UnmarshalJSON(raw) }

// defaults returns the configuration of an empty file.
func defaults() *Config {
	return &Config{
		Listen: "127.0.0.1:8420", Store: "sqlite:cairn.db", Worker: true, WorkConcurrency: 1000,
		Auth: Auth{JWT: usual, OIDC: usualOIDC},
		Log:  Log{Level: "info", Format: "text"}, Retention: Retention{Removed: Duration(30 * 24 * time.Hour)}, Drain: Duration(10 * time.Second),
		Limits: Limits{Body: 4 << 20, ChatBody: 64 << 20, JSONValues: 30_000, Queue: 100, Replaced: 50, StreamsPerUser: 20, RequestsPerMinute: 600, RunsPerUser: -1},
	}
}
