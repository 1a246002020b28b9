// Package config reads the YAML file of cairn serve, and the files of secrets that it refers to. It reports all
// mistakes at once, each with its line if it has one; a mistake of YAML itself hides the others. Package serve implements the keys.
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
	Assistants      []Assistant         `yaml:"assistants" doc:"The agents. Their names are unique." text:"raw"`
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
}

// Auth says who may use the server.
type Auth struct {
	AllowUnauthenticated bool    `yaml:"allow_unauthenticated" doc:"Serve every request as an administrator's. Needs a loopback address." default:"false"`
	Tokens               []Token `yaml:"tokens" doc:"Bearer tokens; cairn token generates them."`
	JWT                  JWT     `yaml:"jwt" doc:"Signed tokens of an identity provider, alongside auth.tokens or instead of them. issuer, audience and jwks_url are required."`
}

// Token is a bearer token of a user.
type Token struct {
	Token string   `yaml:"token" doc:"The token, at least 16 characters." secret:"yes"`
	User  string   `yaml:"user" doc:"The user's name."`
	Roles []string `yaml:"roles" doc:"The user's roles: user, reviewer, operator, admin." default:"[user]" oneof:"user reviewer operator admin"`
}

// JWT selects the signed tokens that are accepted.
type JWT struct {
	Issuer     string `yaml:"issuer" doc:"The issuer of tokens, as in their iss claim."`
	Audience   string `yaml:"audience" doc:"The value that their aud claim must contain."`
	JWKSURL    string `yaml:"jwks_url" doc:"The address of the issuer's keys: https, or http on this machine."`
	UserClaim  string `yaml:"user_claim" doc:"The claim that names the user. Dots lead into objects." default:"sub"`
	RolesClaim string `yaml:"roles_claim" doc:"The claim that lists the user's roles: user, reviewer, operator, admin, or the names in roles. Dots lead into objects, as in realm_access.roles." default:"roles"`

	Roles        map[string]string `yaml:"roles" doc:"The role for each value of the roles claim, such as support-admin: admin. Other values are ignored. Without the key the values are names of roles." oneof:"user reviewer operator admin"`
	DefaultRoles []string          `yaml:"default_roles" doc:"The roles of a token that names none; without the key such a user may do nothing." oneof:"user reviewer operator admin"`
	Algorithms   []string          `yaml:"algorithms" doc:"The signature algorithms that are accepted, only ones with a public key." default:"[RS256, ES256, EdDSA]"`
}

// Given reports whether an issuer's tokens are accepted.
func (j *JWT) Given() bool { return j.Issuer != "" || j.Audience != "" || j.JWKSURL != "" }

// Options returns the options of the tokens' authenticator.
func (j *JWT) Options() *jwtauth.Options {
	o := &jwtauth.Options{Issuer: j.Issuer, Audience: j.Audience, JWKS: j.JWKSURL, UserClaim: j.UserClaim, RolesClaim: j.RolesClaim,
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
	Name         string    `yaml:"name" json:"name" doc:"Letters, digits, - and _. Sessions name their assistant by it."`
	Description  string    `yaml:"description" json:"description,omitempty" doc:"Its purpose, which other assistants read."`
	Model        string    `yaml:"model" json:"model" doc:"PROVIDER:NAME; scripted is a model without a provider, for tests."`
	Instructions string    `yaml:"instructions" json:"instructions,omitempty" doc:"The system prompt."`
	Settings     Settings  `yaml:"settings" json:"settings,omitzero" doc:"Settings of each model call. Without a key, its provider's default."`
	Output       Output    `yaml:"output" json:"output,omitzero" doc:"A typed output that ends a turn instead of a text."`
	MaxSteps     int       `yaml:"max_steps" json:"max_steps,omitempty" doc:"The maximum number of model calls in a turn." default:"50"`
	OnBusy       string    `yaml:"on_busy" json:"on_busy,omitempty" doc:"How a turn is handled while another one runs, if the request does not say: reject, enqueue, interrupt, rollback or steer. Without the key, POST /chat queues it." default:"reject" oneof:"reject enqueue interrupt rollback steer"`
	OnWaiting    string    `yaml:"on_waiting" json:"on_waiting,omitempty" doc:"How a turn is handled while calls are pending, if the request does not say: refuse, withdraw or enqueue." default:"refuse" oneof:"refuse withdraw enqueue"`
	OnExpired    string    `yaml:"on_expired" json:"on_expired,omitempty" doc:"How a message to a chat is handled if the session has expired. refuse: the server answers 410, and the user can restore the session; restore: it restores the session; new: it begins a new session of the same thread." default:"refuse" oneof:"refuse restore new"`
	Sessions     string    `yaml:"sessions" json:"sessions,omitempty" doc:"thread: a chat keeps its session until that expires; each_turn: each message to a chat begins a new session of its thread." default:"thread" oneof:"thread each_turn"`
	Versions     string    `yaml:"versions" json:"versions,omitempty" doc:"follow: the next turn uses a new version; pin: a session keeps the version that it began with." default:"follow" oneof:"follow pin"`
	Durability   string    `yaml:"durability" json:"durability,omitempty" doc:"When steps are committed: per_tool, per_step, manual, or an interval such as 5s." default:"per_step"`
	TTL          Duration  `yaml:"ttl" json:"ttl,omitempty" doc:"How long a session may be idle before it expires." default:"168h"`
	ToolCache    ToolCache `yaml:"tool_cache" json:"tool_cache,omitzero" doc:"Cache results of MCP tools within a session, if their server calls them read-only (readOnlyHint) and they need no approval. Without either key nothing is cached."`
	DeferAbove   int       `yaml:"defer_above" json:"defer_above,omitempty" doc:"The size of its tool definitions, in tokens, above which requests leave out deferred tools; -1 means no limit." default:"10000"`
	Tools        []Tool    `yaml:"tools" json:"tools,omitempty" doc:"The tools that the model may call. Each has one of client, mcp, agent."`
	Skills       Skills    `yaml:"skills" json:"skills,omitzero" doc:"Skills that the model loads when a task needs them."`
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
		Auth: Auth{JWT: usual},
		Log:  Log{Level: "info", Format: "text"}, Retention: Retention{Removed: Duration(30 * 24 * time.Hour)}, Drain: Duration(10 * time.Second),
		Limits: Limits{Body: 4 << 20, ChatBody: 64 << 20, JSONValues: 30_000, Queue: 100, Replaced: 50, StreamsPerUser: 20, RequestsPerMinute: 600, RunsPerUser: -1},
	}
}
