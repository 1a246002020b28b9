//go:build !demo

package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"google.golang.org/grpc/codes"

	"github.com/cairn-agents/cairn"
)

// temporalServer is the server that an address leads to, with the settings of Temporal's own tools: TEMPORAL_* variables over
// a profile of a file. Keys and certificates come from there only.
type temporalServer struct {
	at      *hostAddress
	env     environment
	file    string // that profiles are read from
	name    string // of the profile
	profile envconfig.ClientConfigProfile
	opts    client.Options
}

// The variables of the client's certificate and of the server's authority.
var (
	clientVariables    = []string{"TEMPORAL_TLS_CLIENT_CERT_PATH", "TEMPORAL_TLS_CLIENT_CERT_DATA", "TEMPORAL_TLS_CLIENT_KEY_PATH", "TEMPORAL_TLS_CLIENT_KEY_DATA"}
	authorityVariables = []string{"TEMPORAL_TLS_SERVER_CA_CERT_PATH", "TEMPORAL_TLS_SERVER_CA_CERT_DATA"}
)

// newTemporalServer reads the settings, and completes the address with what its URL leaves out. An error names the variable
// or the field, and shows no key.
func newTemporalServer(at *hostAddress, env environment) (*temporalServer, error) {
	s := &temporalServer{at: at, env: env, file: orElse(env["TEMPORAL_CONFIG_FILE"], envconfig.DefaultConfigFilePath())}
	s.name = orElse(env["TEMPORAL_PROFILE"], envconfig.DefaultConfigFileProfile)
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
		at.place = orElse(s.profile.Address, client.DefaultHostPort)
		if host, port, err := net.SplitHostPort(at.place); err != nil || host == "" || port == "" {
			return nil, misuse("%s: %q is not HOST:PORT", s.source("address", "TEMPORAL_ADDRESS"), at.place)
		}
	}
	at.namespace = cmp.Or(at.namespace, s.profile.Namespace, client.DefaultNamespace)
	s.opts.HostPort, s.opts.Namespace = at.place, at.namespace
	return s, nil
}

// load reads the profile, and the variables over it.
func (s *temporalServer) load() error {
	if named := s.env["TEMPORAL_CONFIG_FILE"]; named != "" {
		if _, err := os.Stat(named); err != nil {
			return misuse("TEMPORAL_CONFIG_FILE: %w", err)
		}
	}
	for _, name := range []string{"TEMPORAL_TLS", "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION"} { // what else is there counts as false
		if value := s.env[name]; !slices.Contains([]string{"", "true", "false", "1", "0"}, strings.ToLower(value)) {
			return misuse("%s: %q is neither true nor false", name, value)
		}
	}
	config, err := envconfig.LoadClientConfig(envconfig.LoadClientConfigOptions{EnvLookup: s.env})
	var broken toml.ParseError
	if errors.As(err, &broken) { // whose own words quote what stands there, which may be a key
		return misuse("%s: line %d, at %q, is not TOML", s.file, broken.Position.Line, broken.LastKey)
	}
	if err != nil {
		return misuse("%s: %w", s.file, err)
	}
	if profile := config.Profiles[s.name]; profile != nil {
		s.profile = *profile
	} else if s.env["TEMPORAL_PROFILE"] != "" {
		return misuse("TEMPORAL_PROFILE: there is no profile %q in %s", s.name, s.file)
	}
	return s.profile.ApplyEnvVars(s.env)
}

// misread says which settings make an error of certificates and keys.
func (s *temporalServer) misread(err error) error {
	named := authorityVariables
	pair := *s.profile.TLS
	pair.ServerCACertPath, pair.ServerCACertData = "", nil
	if _, failed := (&envconfig.ClientConfigProfile{TLS: &pair}).ToClientOptions(envconfig.ToClientOptionsRequest{}); failed != nil {
		named = clientVariables
	}
	return misuse("%s: %w", s.source("tls", named...), err)
}

// source returns where a setting comes from: those of its variables that are set, else the field of the profile.
func (s *temporalServer) source(field string, variables ...string) string {
	set := slices.DeleteFunc(slices.Clone(variables), func(name string) bool { return s.env[name] == "" })
	if len(set) == 0 {
		return fmt.Sprintf("%s of profile %q in %s", field, s.name, s.file)
	}
	return strings.Join(set, ", ")
}

// refused says, in the terms of the settings, why the server did not do what it was asked.
func (s *temporalServer) refused(ctx context.Context, err error) error {
	switch status := serviceerror.ToStatus(err); status.Code() {
	case codes.Unauthenticated, codes.PermissionDenied:
		who := s.certificate()
		if s.profile.APIKey != "" {
			who = "the API key (" + s.source("api_key", "TEMPORAL_API_KEY") + ")"
		}
		return s.failed("refuses %s: %s", orElse(who, "a client without TEMPORAL_API_KEY"), status.Message())
	case codes.Unavailable:
		return s.unreachable(ctx, err)
	case codes.DeadlineExceeded:
		return s.silent(err)
	}
	return s.failed("fails: %w", err)
}

// unreachable asks the server once more, because gRPC tells what is wrong with TLS in nothing but words.
func (s *temporalServer) unreachable(ctx context.Context, err error) error {
	config := s.opts.ConnectionOptions.TLS
	if config == nil {
		if shaken := s.handshake(ctx, &tls.Config{InsecureSkipVerify: true}); shaken == nil || isAlert(shaken) {
			return s.failed("speaks TLS only, which ?tls=true or TEMPORAL_TLS=true asks for")
		}
		return s.silent(err)
	}
	shaken := s.handshake(ctx, config)
	var (
		plain     tls.RecordHeaderError
		distrust  *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
	)
	switch {
	case errors.As(shaken, &plain):
		return s.failed("speaks no TLS, which %s asks for", s.secured())
	case errors.As(shaken, &authority):
		return s.failed("is not trusted: %w (see TEMPORAL_TLS_SERVER_CA_CERT_PATH)", authority)
	case errors.As(shaken, &name):
		return s.failed("is not trusted: %w (see TEMPORAL_TLS_SERVER_NAME)", name)
	case errors.As(shaken, &distrust):
		return s.failed("is not trusted: %w", distrust.Err)
	case isAlert(shaken):
		return s.failed("refuses %s: %w", orElse(s.certificate(), "a client without TEMPORAL_TLS_CLIENT_CERT_PATH"), shaken)
	}
	return s.silent(err)
}

// patience is how long a server may take to refuse a certificate: TLS 1.3 does so after its handshake.
const patience = 2 * time.Second

// handshake returns what goes wrong with TLS until the server says something, or nil if it says nothing.
func (s *temporalServer) handshake(ctx context.Context, config *tls.Config) error {
	config = config.Clone()
	config.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", s.at.place)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := conn.Read(make([]byte, 1)); isAlert(err) {
		return err
	}
	return nil
}

// isAlert reports whether the error is what the other side of TLS has sent as its last word.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// certificate names the client's certificate; nothing if it has none.
func (s *temporalServer) certificate() string {
	if config := s.opts.ConnectionOptions.TLS; config == nil || len(config.Certificates) == 0 {
		return ""
	}
	return "the client certificate (" + s.source("tls", clientVariables...) + ")"
}

// secured names what asks for TLS.
func (s *temporalServer) secured() string {
	if s.at.tls == "true" {
		return "?tls=true"
	}
	names := slices.Concat([]string{"TEMPORAL_TLS", "TEMPORAL_TLS_SERVER_NAME", "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION"}, authorityVariables, clientVariables)
	if s.profile.TLS == nil {
		return s.source("api_key", "TEMPORAL_API_KEY")
	}
	return s.source("tls", names...)
}

func (s *temporalServer) silent(err error) error {
	return cairn.Errorf(cairn.CodeUnavailable, "no Temporal server can be reached at %s: %w", s.at.place, err)
}

// failed returns an error of which the server is the subject.
func (s *temporalServer) failed(format string, args ...any) error {
	return cairn.Errorf(cairn.CodeUnavailable, "the Temporal server at %s "+format, append([]any{s.at.place}, args...)...)
}

// LookupEnv and Environ have Temporal's settings read from the variables.
func (e environment) LookupEnv(name string) (string, bool) {
	value, ok := e[name]
	return value, ok
}

// Environ returns the variables in the form name=value.
func (e environment) Environ() []string {
	var list []string
	for name, value := range e {
		list = append(list, name+"="+value)
	}
	return list
}
