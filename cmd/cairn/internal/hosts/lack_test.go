//go:build demo || notemporal || nodbos

package hosts

import (
	"errors"
	"testing"

	"github.com/cairn-agents/cairn"
)

// wantLack checks the error for a URL of a host that this program was built without.
func wantLack(t *testing.T, url, want string) {
	t.Helper()
	at, err := Parse("--host", url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = at.Connect(t.Context(), nil, "", 0, nil)
	if err == nil || err.Error() != want || !errors.Is(err, cairn.ErrUnavailable) {
		t.Errorf("%s: %v, want %q", url, err, want)
	}
}
