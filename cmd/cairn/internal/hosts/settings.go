//go:build !demo && !notemporal

package hosts

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

// temporalServer is the server at an address, with the settings of Temporal's own tools: TEMPORAL_* variables take
// precedence over a profile of a file. Keys and certificates come from these settings only.
type temporalServer struct {
	at      *Address
	env     variables
	file    string // file of profiles
	name    string // name of the profile
	profile envconfig.ClientConfigProfile
	opts    client.Options
}

// clientVariables set the client's certificate, authorityVariables the server's authority.
var (
	clientVariables    = []string{"TEMPORAL_TLS_CLIENT_CERT_PATH", "TEMPORAL_TLS_CLIENT_CERT_DATA", "TEMPORAL_TLS_CLIENT_KEY_PATH", "TEMPORAL_TLS_CLIENT_KEY_DATA"}
	authorityVariables = []string{"TEMPORAL_TLS_SERVER_CA_CERT_PATH", "TEMPORAL_TLS_SERVER_CA_CERT_DATA"}
)

// newTemporalServer reads the settings, and completes the address with what its URL leaves out. An error names the
// variable or the field, and shows no key.
func newTemporalServer(at *Address, env map[string]string) (*temporalServer, error) {
	s := &temporalServer{at: at, env: env, file: cmp.Or(env["TEMPORAL_CONFIG_FILE"], envconfig.DefaultConfigFilePath())}
	s.name = cmp.Or(env["TEMPORAL_PROFILE"], envconfig.DefaultConfigFileProfile)
	if err := s.load(); err != nil {
		return nil, err
	}
	switch at.tls {
	case "true":
		s.profile.TLS = cmp.Or(s.profile.TLS, &envconfig.ClientConfigTLS{})
		s.profile.TLS.Disabled = false
	case "false":
		s.profile.TLS = &envconfig.ClientConfigTLS{Disabled: true}
	}
	var err error
	if s.opts, err = s.profile.ToClientOptions(envconfig.ToClientOptionsRequest{}); err != nil {
		return nil, s.misread(err)
	}
	if at.place == "" {
		at.place = cmp.Or(s.profile.Address, client.DefaultHostPort)
		if host, port, err := net.SplitHostPort(at.place); err != nil || host == "" || port == "" {
			return nil, cli.Misuse("%s: must be HOST:PORT, not %q", s.source("address", "TEMPORAL_ADDRESS"), at.place)
		}
	}
	at.namespace = cmp.Or(at.namespace, s.profile.Namespace, client.DefaultNamespace)
	s.opts.HostPort, s.opts.Namespace = at.place, at.namespace
	return s, nil
}

// load reads the profile and applies the variables.
func (s *temporalServer) load() error {
	if named := s.env["TEMPORAL_CONFIG_FILE"]; named != "" {
		if _, err := os.Stat(named); err != nil {
			return cli.Misuse("TEMPORAL_CONFIG_FILE: %w", err)
		}
	}
	// The client would take any other value for false.
	for _, name := range []string{"TEMPORAL_TLS", "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION"} {
		if value := s.env[name]; !slices.Contains([]string{"", "true", "false", "1", "0"}, strings.ToLower(value)) {
			return cli.Misuse("%s: must be true or false, not %q", name, value)
		}
	}
	config, err := envconfig.LoadClientConfig(envconfig.LoadClientConfigOptions{EnvLookup: s.env})
	var broken toml.ParseError
	if errors.As(err, &broken) { // its text quotes the file's content, which may be a key
		return cli.Misuse("%s: line %d: invalid TOML at %q", s.file, broken.Position.Line, broken.LastKey)
	}
	if err != nil {
		return cli.Misuse("%s: %w", s.file, err)
	}
	if profile := config.Profiles[s.name]; profile != nil {
		s.profile = *profile
	} else if s.env["TEMPORAL_PROFILE"] != "" {
		return cli.Misuse("TEMPORAL_PROFILE: profile %q not found in %s", s.name, s.file)
	}
	return s.profile.ApplyEnvVars(s.env)
}

// misread names the settings at fault for an error of certificates and keys.
func (s *temporalServer) misread(err error) error {
	named := authorityVariables
	pair := *s.profile.TLS
	pair.ServerCACertPath, pair.ServerCACertData = "", nil
	if _, failed := (&envconfig.ClientConfigProfile{TLS: &pair}).ToClientOptions(envconfig.ToClientOptionsRequest{}); failed != nil {
		named = clientVariables
	}
	return cli.Misuse("%s: %w", s.source("tls", named...), err)
}

// source returns where a setting comes from: those of its variables that are set, else the profile's field.
func (s *temporalServer) source(field string, variables ...string) string {
	set := slices.DeleteFunc(slices.Clone(variables), func(name string) bool { return s.env[name] == "" })
	if len(set) == 0 {
		return fmt.Sprintf("%s of profile %q in %s", field, s.name, s.file)
	}
	return strings.Join(set, ", ")
}

// variables is the environment that Temporal's settings are read from.
type variables map[string]string

// LookupEnv returns the value of a variable, and whether it is set.
func (e variables) LookupEnv(name string) (string, bool) {
	value, ok := e[name]
	return value, ok
}

// Environ returns the variables in the form name=value.
func (e variables) Environ() []string {
	var list []string
	for name, value := range e {
		list = append(list, name+"="+value)
	}
	return list
}
