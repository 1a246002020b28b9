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
	"time"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/internal/testenv"
)

// A whole conversation passes through a server that speaks TLS and may require a client certificate or headers.
func TestDemoOnSecuredTemporal(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t, t.TempDir())
	ours.issue(t, "client")
	read := func(file string) string { return string(must(os.ReadFile(ours.path(file)))) }
	for name, test := range map[string]struct {
		strict  bool
		headers map[string]string
		host    string // after temporal:, with {address}
		env     map[string]string
		file    string // content of the file of profiles, with {address}
	}{
		"TLS": {
			host: "//{address}?tls=true&", env: map[string]string{"TEMPORAL_TLS": "false", "TEMPORAL_TLS_SERVER_CA_CERT_PATH": ours.path("ca.pem")},
		},
		"client certificate": {
			strict: true, host: "//{address}?", env: map[string]string{
				"TEMPORAL_TLS_SERVER_CA_CERT_PATH": ours.path("ca.pem"),
				"TEMPORAL_TLS_CLIENT_CERT_PATH":    ours.path("client.pem"), "TEMPORAL_TLS_CLIENT_KEY_PATH": ours.path("client.key"),
			},
		},
		"client certificate in variables": {
			strict: true, host: "?", env: map[string]string{
				"TEMPORAL_ADDRESS": "{address}", "TEMPORAL_TLS_SERVER_CA_CERT_DATA": read("ca.pem"),
				"TEMPORAL_TLS_CLIENT_CERT_DATA": read("client.pem"), "TEMPORAL_TLS_CLIENT_KEY_DATA": read("client.key"),
			},
		},
		"API key": {
			headers: map[string]string{"Authorization": "Bearer s3cr3t-word"}, host: "//{address}/default?", env: map[string]string{
				"TEMPORAL_API_KEY": "s3cr3t-word", "TEMPORAL_TLS_SERVER_CA_CERT_PATH": ours.path("ca.pem"),
			},
		},
		"profile": {
			strict: true, headers: map[string]string{"Authorization": "Bearer s3cr3t-word", "X-Tenant": "t1", "X-Site": "s1"}, host: "?",
			env: map[string]string{"TEMPORAL_PROFILE": "cloud", "TEMPORAL_GRPC_META_X_SITE": "s1"},
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

// Any obstacle between this process and a TLS server is reported on one line, with the variable or the field at
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
		"broken.toml":  "[profile.default]\napi_key = " + letters, // without their quotes
		"partial.toml": "[profile.default.tls]\nclient_cert_path = '" + ours.path("client.pem") + "'",
	} {
		if err := os.WriteFile(ours.path(file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := ours.server(t, true)
	old.MaxVersion = tls.VersionTLS12
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
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
	type env = map[string]string
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
		env  map[string]string
		code int
		want []string // the first is the line's beginning
	}{
		"TLS without asking":        {"//{tls}", nil, cli.ExitFailure, []string{"the Temporal server at {tls} requires TLS; set ?tls=true or TEMPORAL_TLS=true"}},
		"TLS that wants a client":   {"//{old}", nil, cli.ExitFailure, []string{"the Temporal server at {old} requires TLS"}},
		"no TLS, asked by URL":      {"//{plain}?tls=true", nil, cli.ExitFailure, []string{"the Temporal server at {plain} does not support TLS, which ?tls=true requires"}},
		"no TLS, asked by variable": {"//{plain}", ca, cli.ExitFailure, []string{"the Temporal server at {plain} does not support TLS, which TEMPORAL_TLS_SERVER_CA_CERT_PATH requires"}},
		"no TLS, asked by key":      {"//{plain}", env{"TEMPORAL_API_KEY": secret}, cli.ExitFailure, []string{"the Temporal server at {plain} does not support TLS, which TEMPORAL_API_KEY requires"}},
		"unknown authority": {"//{tls}?tls=true", nil, cli.ExitFailure,
			[]string{"the Temporal server at {tls} is not trusted: x509: certificate signed by unknown authority (see TEMPORAL_TLS_SERVER_CA_CERT_PATH)"}},
		"another name": {"//{tls}", with(ca, env{"TEMPORAL_TLS_SERVER_NAME": "elsewhere"}), cli.ExitFailure,
			[]string{"the Temporal server at {tls} is not trusted: x509: ", "elsewhere (see TEMPORAL_TLS_SERVER_NAME)"}},
		"no client certificate": {"//{strict}", ca, cli.ExitFailure,
			[]string{"the Temporal server at {strict} refuses a client without TEMPORAL_TLS_CLIENT_CERT_PATH: remote error: tls: certificate required"}},
		"no client certificate, TLS 1.2": {"//{old}", ca, cli.ExitFailure,
			[]string{"the Temporal server at {old} refuses a client without TEMPORAL_TLS_CLIENT_CERT_PATH: remote error: tls: "}},
		"client certificate of another authority": {"//{strict}", with(ca, pair(theirs.path("client.pem"), theirs.path("client.key"))), cli.ExitFailure,
			[]string{"the Temporal server at {strict} refuses the client certificate (TEMPORAL_TLS_CLIENT_CERT_PATH, TEMPORAL_TLS_CLIENT_KEY_PATH): remote error: tls: "}},
		"wrong API key": {"//{key}", with(ca, env{"TEMPORAL_API_KEY": secret}), cli.ExitFailure,
			[]string{"the Temporal server at {key} refuses the API key (TEMPORAL_API_KEY): Request unauthorized."}},
		"no API key": {"//{key}", ca, cli.ExitFailure,
			[]string{"the Temporal server at {key} refuses a client without TEMPORAL_API_KEY: Request unauthorized."}},
		"no namespace": {"//{tls}/nowhere", ca, cli.ExitNotFound, []string{`the Temporal server at {tls} has no namespace "nowhere"`}},
		"no server":    {"//127.0.0.1:1?tls=true", nil, cli.ExitFailure, []string{"cannot reach a Temporal server at 127.0.0.1:1"}},
		"mute":         {"//{mute}?tls=true", nil, cli.ExitFailure, []string{"cannot reach a Temporal server at {mute}"}},

		"no authority's file":    {"//{tls}", env{"TEMPORAL_TLS_SERVER_CA_CERT_PATH": "{dir}/no.pem"}, cli.ExitUsage, []string{"TEMPORAL_TLS_SERVER_CA_CERT_PATH: ", "open {dir}/no.pem: no such file"}},
		"no authority in it":     {"//{tls}", env{"TEMPORAL_TLS_SERVER_CA_CERT_PATH": "{dir}/text.pem"}, cli.ExitUsage, []string{"TEMPORAL_TLS_SERVER_CA_CERT_PATH: "}},
		"no certificate's file":  {"//{tls}", with(ca, pair("{dir}/no.pem", "{dir}/client.key")), cli.ExitUsage, []string{pairNames, "open {dir}/no.pem: no such file"}},
		"no certificate in it":   {"//{tls}", with(ca, pair("{dir}/text.pem", "{dir}/client.key")), cli.ExitUsage, []string{pairNames, "certificate input"}},
		"key of another":         {"//{tls}", with(ca, pair("{dir}/client.pem", "{dir}/server.key")), cli.ExitUsage, []string{pairNames, "private key does not match public key"}},
		"certificate alone":      {"//{tls}", env{"TEMPORAL_TLS_CLIENT_CERT_PATH": "{dir}/client.pem"}, cli.ExitUsage, []string{"TEMPORAL_TLS_CLIENT_CERT_PATH: ", "other must be present too"}},
		"key as data, no key":    {"//{tls}", env{"TEMPORAL_TLS_CLIENT_CERT_DATA": secret, "TEMPORAL_TLS_CLIENT_KEY_DATA": secret}, cli.ExitUsage, []string{"TEMPORAL_TLS_CLIENT_CERT_DATA, TEMPORAL_TLS_CLIENT_KEY_DATA: "}},
		"certificate of profile": {"//{tls}", env{"TEMPORAL_CONFIG_FILE": "{dir}/partial.toml"}, cli.ExitUsage, []string{`tls of profile "default" in {dir}/partial.toml: `, "other must be present too"}},
		"no file":                {"//{tls}", env{"TEMPORAL_CONFIG_FILE": "{dir}/no.toml"}, cli.ExitUsage, []string{"TEMPORAL_CONFIG_FILE: ", "{dir}/no.toml: no such file"}},
		"no TOML":                {"//{tls}", env{"TEMPORAL_CONFIG_FILE": "{dir}/broken.toml"}, cli.ExitUsage, []string{"{dir}/broken.toml: ", `line 2: invalid TOML at "profile.default.api_key"`}},
		"no profile":             {"//{tls}", env{"TEMPORAL_PROFILE": "cloud"}, cli.ExitUsage, []string{`TEMPORAL_PROFILE: profile "cloud" not found in ` + os.DevNull}},
		"neither true nor false": {"//{tls}", env{"TEMPORAL_TLS": "yes"}, cli.ExitUsage, []string{`TEMPORAL_TLS: must be true or false, not "yes"`}},
		"no port":                {"", env{"TEMPORAL_ADDRESS": "localhost"}, cli.ExitUsage, []string{`TEMPORAL_ADDRESS: must be HOST:PORT, not "localhost"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if name == "mute" { // takes the whole time
				b.reach = testenv.Choose(2*time.Second, 0)
			}
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
