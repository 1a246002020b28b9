//go:build !demo && !notemporal

package hosts

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The URL takes precedence over variables, variables over the profile of a file, and the profile over the defaults.
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
	type env = map[string]string
	const plain, secured = false, true
	for _, test := range []struct {
		url  string
		env  map[string]string
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
		variables := map[string]string{"TEMPORAL_CONFIG_FILE": file}
		maps.Copy(variables, test.env)
		at, err := Parse("--host", test.url)
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
