//go:build !demo

package main

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/internal/testenv"
)

// What the URL says counts before a variable, that before the profile of a file, and that before what is usual.
func TestTemporalSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "temporal.toml")
	text := `
[profile.default]
address = "file:1"
namespace = "of-file"

[profile.cloud]
address = "cloud:2"
api_key = "key of cloud"
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	type env = environment
	const plain, secured = false, true
	for _, test := range []struct {
		url  string
		env  environment
		want string // place, namespace and API key
		tls  bool
	}{
		{"temporal:", env{"TEMPORAL_CONFIG_FILE": os.DevNull}, "localhost:7233 default", plain},
		{"temporal:", nil, "file:1 of-file", plain},
		{"temporal:", env{"TEMPORAL_ADDRESS": "[::1]:3", "TEMPORAL_NAMESPACE": "of-env"}, "[::1]:3 of-env", plain},
		{"temporal://url/of-url", env{"TEMPORAL_ADDRESS": "env:3", "TEMPORAL_NAMESPACE": "of-env"}, "url:7233 of-url", plain},
		{"temporal:///of-url", env{"TEMPORAL_ADDRESS": "env:3"}, "env:3 of-url", plain},
		{"temporal:", env{"TEMPORAL_PROFILE": "cloud"}, "cloud:2 default key of cloud", secured},
		{"temporal:", env{"TEMPORAL_PROFILE": "cloud", "TEMPORAL_API_KEY": "other"}, "cloud:2 default other", secured},
		{"temporal:?tls=false", env{"TEMPORAL_PROFILE": "cloud"}, "cloud:2 default key of cloud", plain},
		{"temporal:?tls=true", env{"TEMPORAL_TLS": "false"}, "file:1 of-file", secured},
		{"temporal:?tls=false", env{"TEMPORAL_TLS": "true"}, "file:1 of-file", plain},
		{"temporal:", env{"TEMPORAL_TLS": "1"}, "file:1 of-file", secured},
		{"temporal:", env{"TEMPORAL_TLS_SERVER_NAME": "h"}, "file:1 of-file", secured},
	} {
		variables := environment{"TEMPORAL_CONFIG_FILE": file}
		maps.Copy(variables, test.env)
		at, err := parseHost("--host", test.url)
		if err != nil {
			t.Fatal(err)
		}
		s, err := newTemporalServer(at, variables)
		if err != nil {
			t.Errorf("%s %v: %v", test.url, test.env, err)
			continue
		}
		got := strings.TrimSpace(s.opts.HostPort + " " + s.opts.Namespace + " " + s.profile.APIKey)
		if got != test.want || (s.opts.ConnectionOptions.TLS != nil) != test.tls {
			t.Errorf("%s %v: %s, TLS %v", test.url, test.env, got, s.opts.ConnectionOptions.TLS != nil)
		}
		if shown := at.String(); !strings.HasPrefix(shown, "temporal://"+s.opts.HostPort+"/"+s.opts.Namespace) || strings.Contains(shown, "key") {
			t.Errorf("%s %v is shown as %s", test.url, test.env, shown)
		}
	}
}

// A whole conversation goes through a server that speaks TLS, and that wants to know who is there.
func TestDemoOnSecuredTemporal(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t, t.TempDir())
	ours.issue(t, "client")
	read := func(file string) string { return string(must(os.ReadFile(ours.path(file)))) }
	for name, test := range map[string]struct {
		strict  bool
		headers map[string]string
		host    string // after temporal:, with {address}
		env     environment
		file    string // of profiles, with {address}
	}{
		"TLS": {
			host: "//{address}?tls=true&", env: environment{"TEMPORAL_TLS": "false", "TEMPORAL_TLS_SERVER_CA_CERT_PATH": ours.path("ca.pem")},
		},
		"client certificate": {
			strict: true, host: "//{address}?", env: environment{
				"TEMPORAL_TLS_SERVER_CA_CERT_PATH": ours.path("ca.pem"),
				"TEMPORAL_TLS_CLIENT_CERT_PATH":    ours.path("client.pem"), "TEMPORAL_TLS_CLIENT_KEY_PATH": ours.path("client.key"),
			},
		},
		"client certificate in variables": {
			strict: true, host: "?", env: environment{
				"TEMPORAL_ADDRESS": "{address}", "TEMPORAL_TLS_SERVER_CA_CERT_DATA": read("ca.pem"),
				"TEMPORAL_TLS_CLIENT_CERT_DATA": read("client.pem"), "TEMPORAL_TLS_CLIENT_KEY_DATA": read("client.key"),
			},
		},
		"API key": {
			headers: map[string]string{"Authorization": "Bearer s3cr3t-word"}, host: "//{address}/default?", env: environment{
				"TEMPORAL_API_KEY": "s3cr3t-word", "TEMPORAL_TLS_SERVER_CA_CERT_PATH": ours.path("ca.pem"),
			},
		},
		"profile": {
			strict: true, headers: map[string]string{"Authorization": "Bearer s3cr3t-word", "X-Tenant": "t1", "X-Site": "s1"}, host: "?",
			env: environment{"TEMPORAL_PROFILE": "cloud", "TEMPORAL_GRPC_META_X_SITE": "s1"},
			file: fmt.Sprintf(`
				[profile.cloud]
				address = "{address}"
				namespace = "default"
				api_key = "s3cr3t-word"
				grpc_meta = { X-Tenant = "t1" }
				[profile.cloud.tls]
				server_ca_cert_path = %q
				client_cert_path = %q
				client_key_path = %q
			`, ours.path("ca.pem"), ours.path("client.pem"), ours.path("client.key")),
		},
	} {
		f := newFront(t, ours.server(t, test.strict), test.headers)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			there := strings.NewReplacer("{address}", f.address)
			for name, value := range test.env {
				b.env[name] = there.Replace(value)
			}
			if test.file != "" {
				b.env["TEMPORAL_CONFIG_FILE"] = filepath.Join(b.dir, "temporal.toml")
				if err := os.WriteFile(b.env["TEMPORAL_CONFIG_FILE"], []byte(there.Replace(test.file)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			b.env["CAIRN_HOST"] = "temporal:" + there.Replace(test.host) + fmt.Sprintf("queue=q%d", queueNumber.Add(1))
			wantDemoOnHost(t, b)
			if f.passed.Load() == 0 {
				t.Error("nothing went through the server that speaks TLS")
			}
		})
	}
}

// Whatever stands between this process and a server that speaks TLS is told in one line, with the variable or the field at
// fault, and without a key.
func TestWrongTemporalSettings(t *testing.T) {
	t.Parallel()
	const (
		letters = "topsecret"
		secret  = letters + "-1"
	)
	dir := t.TempDir()
	ours := newAuthority(t, dir)
	ours.issue(t, "client")
	theirs := newAuthority(t, t.TempDir())
	theirs.issue(t, "client")
	for file, text := range map[string]string{
		"text.pem":     "no certificate",
		"broken.toml":  "[profile.default]\napi_key = " + letters, // which lack their quotes
		"partial.toml": "[profile.default.tls]\nclient_cert_path = '" + ours.path("client.pem") + "'",
	} {
		if err := os.WriteFile(ours.path(file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := ours.server(t, true)
	old.MaxVersion = tls.VersionTLS12
	mute, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mute.Close() })
	places := strings.NewReplacer(
		"{dir}", dir,
		"{plain}", testenv.Temporal(t),
		"{tls}", newFront(t, ours.server(t, false), nil).address,
		"{strict}", newFront(t, ours.server(t, true), nil).address,
		"{old}", newFront(t, old, nil).address,
		"{key}", newFront(t, ours.server(t, false), map[string]string{"Authorization": "Bearer right"}).address,
		"{mute}", mute.Addr().String(),
	)
	type env = environment
	ca := env{"TEMPORAL_TLS_SERVER_CA_CERT_PATH": ours.path("ca.pem")}
	with := func(base, more env) env {
		all := maps.Clone(base)
		maps.Copy(all, more)
		return all
	}
	pair := func(cert, key string) env {
		return env{"TEMPORAL_TLS_CLIENT_CERT_PATH": cert, "TEMPORAL_TLS_CLIENT_KEY_PATH": key}
	}
	const pairNames = "TEMPORAL_TLS_CLIENT_CERT_PATH, TEMPORAL_TLS_CLIENT_KEY_PATH: "
	for name, test := range map[string]struct {
		host string // after temporal:, with {places}
		env  environment
		code int
		want []string // the first is what the line begins with
	}{
		"TLS without asking":        {"//{tls}", nil, exitFailure, []string{"the Temporal server at {tls} speaks TLS only, which ?tls=true or TEMPORAL_TLS=true asks for"}},
		"TLS that wants a client":   {"//{old}", nil, exitFailure, []string{"the Temporal server at {old} speaks TLS only, "}},
		"no TLS, asked by URL":      {"//{plain}?tls=true", nil, exitFailure, []string{"the Temporal server at {plain} speaks no TLS, which ?tls=true asks for"}},
		"no TLS, asked by variable": {"//{plain}", ca, exitFailure, []string{"the Temporal server at {plain} speaks no TLS, which TEMPORAL_TLS_SERVER_CA_CERT_PATH asks for"}},
		"no TLS, asked by key":      {"//{plain}", env{"TEMPORAL_API_KEY": secret}, exitFailure, []string{"the Temporal server at {plain} speaks no TLS, which TEMPORAL_API_KEY asks for"}},
		"unknown authority": {"//{tls}?tls=true", nil, exitFailure,
			[]string{"the Temporal server at {tls} is not trusted: x509: certificate signed by unknown authority (see TEMPORAL_TLS_SERVER_CA_CERT_PATH)"}},
		"another name": {"//{tls}", with(ca, env{"TEMPORAL_TLS_SERVER_NAME": "elsewhere"}), exitFailure,
			[]string{"the Temporal server at {tls} is not trusted: x509: ", "elsewhere (see TEMPORAL_TLS_SERVER_NAME)"}},
		"no client certificate": {"//{strict}", ca, exitFailure,
			[]string{"the Temporal server at {strict} refuses a client without TEMPORAL_TLS_CLIENT_CERT_PATH: remote error: tls: certificate required"}},
		"no client certificate, TLS 1.2": {"//{old}", ca, exitFailure,
			[]string{"the Temporal server at {old} refuses a client without TEMPORAL_TLS_CLIENT_CERT_PATH: remote error: tls: "}},
		"client certificate of another authority": {"//{strict}", with(ca, pair(theirs.path("client.pem"), theirs.path("client.key"))), exitFailure,
			[]string{"the Temporal server at {strict} refuses the client certificate (TEMPORAL_TLS_CLIENT_CERT_PATH, TEMPORAL_TLS_CLIENT_KEY_PATH): remote error: tls: "}},
		"wrong API key": {"//{key}", with(ca, env{"TEMPORAL_API_KEY": secret}), exitFailure,
			[]string{"the Temporal server at {key} refuses the API key (TEMPORAL_API_KEY): Request unauthorized."}},
		"no API key": {"//{key}", ca, exitFailure,
			[]string{"the Temporal server at {key} refuses a client without TEMPORAL_API_KEY: Request unauthorized."}},
		"no namespace": {"//{tls}/nowhere", ca, exitNotFound, []string{`the Temporal server at {tls} has no namespace "nowhere"`}},
		"nobody":       {"//127.0.0.1:1?tls=true", nil, exitFailure, []string{"no Temporal server can be reached at 127.0.0.1:1"}},
		"mute":         {"//{mute}?tls=true", nil, exitFailure, []string{"no Temporal server can be reached at {mute}"}},

		"no authority's file":    {"//{tls}", env{"TEMPORAL_TLS_SERVER_CA_CERT_PATH": "{dir}/no.pem"}, exitUsage, []string{"TEMPORAL_TLS_SERVER_CA_CERT_PATH: ", "open {dir}/no.pem: no such file"}},
		"no authority in it":     {"//{tls}", env{"TEMPORAL_TLS_SERVER_CA_CERT_PATH": "{dir}/text.pem"}, exitUsage, []string{"TEMPORAL_TLS_SERVER_CA_CERT_PATH: "}},
		"no certificate's file":  {"//{tls}", with(ca, pair("{dir}/no.pem", "{dir}/client.key")), exitUsage, []string{pairNames, "open {dir}/no.pem: no such file"}},
		"no certificate in it":   {"//{tls}", with(ca, pair("{dir}/text.pem", "{dir}/client.key")), exitUsage, []string{pairNames, "certificate input"}},
		"key of another":         {"//{tls}", with(ca, pair("{dir}/client.pem", "{dir}/server.key")), exitUsage, []string{pairNames, "private key does not match public key"}},
		"certificate alone":      {"//{tls}", env{"TEMPORAL_TLS_CLIENT_CERT_PATH": "{dir}/client.pem"}, exitUsage, []string{"TEMPORAL_TLS_CLIENT_CERT_PATH: ", "other must be present too"}},
		"key as data, no key":    {"//{tls}", env{"TEMPORAL_TLS_CLIENT_CERT_DATA": secret, "TEMPORAL_TLS_CLIENT_KEY_DATA": secret}, exitUsage, []string{"TEMPORAL_TLS_CLIENT_CERT_DATA, TEMPORAL_TLS_CLIENT_KEY_DATA: "}},
		"certificate of profile": {"//{tls}", env{"TEMPORAL_CONFIG_FILE": "{dir}/partial.toml"}, exitUsage, []string{`tls of profile "default" in {dir}/partial.toml: `, "other must be present too"}},
		"no file":                {"//{tls}", env{"TEMPORAL_CONFIG_FILE": "{dir}/no.toml"}, exitUsage, []string{"TEMPORAL_CONFIG_FILE: ", "{dir}/no.toml: no such file"}},
		"no TOML":                {"//{tls}", env{"TEMPORAL_CONFIG_FILE": "{dir}/broken.toml"}, exitUsage, []string{"{dir}/broken.toml: ", `line 2, at "profile.default.api_key", is not TOML`}},
		"no profile":             {"//{tls}", env{"TEMPORAL_PROFILE": "cloud"}, exitUsage, []string{`TEMPORAL_PROFILE: there is no profile "cloud" in ` + os.DevNull}},
		"neither true nor false": {"//{tls}", env{"TEMPORAL_TLS": "yes"}, exitUsage, []string{`TEMPORAL_TLS: "yes" is neither true nor false`}},
		"no port":                {"", env{"TEMPORAL_ADDRESS": "localhost"}, exitUsage, []string{`TEMPORAL_ADDRESS: "localhost" is not HOST:PORT`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			for name, value := range test.env {
				b.env[name] = places.Replace(value)
			}
			stdout, stderr, code := b.run("hello\n", "demo", "--host", "temporal:"+places.Replace(test.host))
			if code != test.code || stdout != "" || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, letters) {
				t.Errorf("exit %d, want %d\n%s%s", code, test.code, stdout, stderr)
			}
			for i, words := range test.want {
				words = places.Replace(words)
				if i == 0 {
					words = "cairn: --host: " + words
				}
				wantWords(t, stderr, words)
			}
			if made, err := os.ReadDir(b.dir); err != nil || len(made) > 0 {
				t.Errorf("there are %v, %v", made, err)
			}
		})
	}
}
