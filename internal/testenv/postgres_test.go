package testenv_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/internal/testenv"
)

const victimVariable = "CAIRN_TESTENV_VICTIM"

func TestMain(m *testing.M) { testenv.Main(m) }

// socket returns the socket of a server.
func socket(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432")
}

// connect opens a connection on which a PostgreSQL server has responded.
func connect(path string) (net.Conn, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	// A request for encryption, which every server answers with one byte.
	_, err = conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47})
	if err == nil {
		_, err = io.ReadFull(conn, make([]byte, 1))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func serves(path string) bool {
	conn, err := connect(path)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

func TestPostgresIsOneServerForAllTests(t *testing.T) {
	t.Parallel()
	first, second := testenv.Postgres(t), testenv.Postgres(t)
	if first != second {
		t.Errorf("two servers: %s and %s", first, second)
	}
	if !serves(socket(t, first)) {
		t.Errorf("%s does not serve", first)
	}
	if fast := testenv.FastPostgres(t); fast == first || !serves(socket(t, fast)) {
		t.Errorf("the fast server %s does not serve", fast)
	}
}

func TestPostgresComesBackAfterACrash(t *testing.T) {
	t.Parallel()
	s := testenv.NewPostgres(t)
	s.Kill()
	if serves(s.Socket()) {
		t.Error("it serves after Kill")
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if !serves(s.Socket()) {
		t.Error("it does not serve after Start")
	}
	if replica := s.Replica(t); !serves(replica.Socket()) {
		t.Error("its replica does not serve")
	}
}

// TestVictim runs in the process that TestServerDiesWithItsTest starts.
func TestVictim(t *testing.T) {
	if os.Getenv(victimVariable) == "" {
		return
	}
	os.Stdout.WriteString("victim " + filepath.Dir(socket(t, testenv.Postgres(t))) + "\n")
	select {}
}

func TestServerDiesWithItsTest(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVictim$")
	cmd.Env = append(os.Environ(), victimVariable+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var dir string
	for lines := bufio.NewScanner(out); dir == "" && lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "victim "); ok {
			dir = rest
		}
	}
	if dir == "" {
		t.Fatal("the victim started no server")
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	conn, err := connect(filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the server lives on: %v", err)
	}
}
