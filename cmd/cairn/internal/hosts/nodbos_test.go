//go:build demo || nodbos

package hosts

import "testing"

func TestConnectWithoutDBOS(t *testing.T) {
	t.Parallel()
	const want = "--host: this program was built without hosts on DBOS; use go run ./cmd/cairn or make build"
	wantLack(t, "dbos:sqlite:dbos.db", want)
	wantLack(t, "dbos://127.0.0.1/app", want)
}
