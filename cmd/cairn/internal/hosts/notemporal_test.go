//go:build demo || notemporal

package hosts

import "testing"

func TestConnectWithoutTemporal(t *testing.T) {
	t.Parallel()
	wantLack(t, "temporal://127.0.0.1", "--host: this program was built without hosts on Temporal; use go run ./cmd/cairn or make build")
}
