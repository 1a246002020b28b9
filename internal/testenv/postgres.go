package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// postgresReady begins the log line of a server that is ready: for writing or, if it is a replica, for reading.
const postgresReady = "database system is ready to accept"

// postgresSettings apply to every server. It listens only on a socket in its directory. The settings leave
// durability at its default, so fsync is on.
var postgresSettings = []string{
	"listen_addresses=",
	"max_connections=" + strconv.Itoa(Choose(200, 2000)), // at the end of a soak a test has hundreds of processes
	"shared_buffers=128MB",
	"max_wal_size=2GB",
	"log_checkpoints=off",
}

// PostgresPassword is the password of the only role that needs one. The role has the same name, and does not exist
// until a test creates it. All other roles are trusted, since only the test can reach a server.
const PostgresPassword = "with_password"

// Postgres returns the URL of a database on a PostgreSQL server that is started for this test binary. The server is
// durable: each transaction waits for the disk. The tests of a package share it, so each must create its own
// schema.
func Postgres(tb testing.TB) (url string) {
	tb.Helper()
	return must(tb)(durablePostgres()).URL()
}

// FastPostgres is [Postgres] on a second server that never waits for the disk, for tests whose subject is not
// durability.
func FastPostgres(tb testing.TB) (url string) {
	tb.Helper()
	return must(tb)(fastPostgres()).URL()
}

// LargePostgres is [FastPostgres] on a server whose cache is a quarter of a machine with 16 GB, in `make test` on the
// same server. It is for tests of large databases.
func LargePostgres(tb testing.TB) (url string) {
	tb.Helper()
	if !Soak() {
		return FastPostgres(tb)
	}
	return must(tb)(largePostgres()).URL()
}

// PostgresIn makes [Main] set an environment variable to the URL of [FastPostgres].
func PostgresIn(variable string) func() error {
	return func() error {
		s, err := fastPostgres()
		if err != nil {
			return err
		}
		return os.Setenv(variable, s.URL())
	}
}

// NewPostgres starts a server for one test, durable like that of [Postgres]. The test may stop it. It is removed
// when the test ends.
func NewPostgres(tb testing.TB) *PostgresServer {
	tb.Helper()
	s := must(tb)(StartPostgres())
	tb.Cleanup(s.remove)
	return s
}

// StartPostgres starts a durable server for a program, which may stop it. It is removed when [Run] returns.
func StartPostgres() (*PostgresServer, error) { return startPostgres("postgres-own", initPostgres) }

// Replica starts a read-only server that follows this one. It is removed when the test ends.
func (p *PostgresServer) Replica(tb testing.TB) *PostgresServer {
	tb.Helper()
	s := must(tb)(startPostgres("postgres-replica", func(s *Server, bin, data string) error {
		return s.run(filepath.Join(bin, "pg_basebackup"), "--host="+p.Dir, "--username=postgres", "--pgdata="+data,
			"--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	}))
	tb.Cleanup(s.remove)
	return s
}

// carefree are the settings of servers that never wait for the disk.
var carefree = []string{"fsync=off", "synchronous_commit=off", "full_page_writes=off"}

// PostgresServer is a PostgreSQL server.
type PostgresServer struct{ *Server }

var (
	durablePostgres = sync.OnceValues(func() (*PostgresServer, error) { return startPostgres("postgres", initPostgres) })
	fastPostgres    = sync.OnceValues(func() (*PostgresServer, error) { return startPostgres("postgres-fast", initPostgres, carefree...) })
	largePostgres   = sync.OnceValues(func() (*PostgresServer, error) {
		return startPostgres("postgres-large", initPostgres, append(slices.Clone(carefree), "shared_buffers=4GB")...)
	})
)

func must(tb testing.TB) func(*PostgresServer, error) *PostgresServer {
	return func(s *PostgresServer, err error) *PostgresServer {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return s
	}
}

// startPostgres starts a server on the data directory that fill creates.
func startPostgres(name string, fill func(s *Server, bin, data string) error, settings ...string) (*PostgresServer, error) {
	s, err := launch(program{name: name, ready: postgresReady, abort: syscall.SIGQUIT, prepare: func(s *Server) ([]string, error) {
		bin, err := postgresBin()
		if err != nil {
			return nil, err
		}
		data := filepath.Join(s.Dir, "data")
		if err := fill(s, bin, data); err != nil {
			return nil, err
		}
		command := []string{filepath.Join(bin, "postgres"), "-D", data, "-k", s.Dir}
		for _, setting := range slices.Concat(postgresSettings, settings) {
			command = append(command, "-c", setting)
		}
		return command, nil
	}})
	if err != nil {
		return nil, err
	}
	return &PostgresServer{s}, nil
}

// initPostgres creates an empty cluster.
func initPostgres(s *Server, bin, data string) error {
	err := s.run(filepath.Join(bin, "initdb"), "--pgdata="+data, "--username=postgres", "--auth=trust", "--encoding=UTF8",
		"--locale=C", "--no-sync", "--no-instructions")
	if err != nil {
		return err
	}
	rules := filepath.Join(data, "pg_hba.conf")
	old, err := os.ReadFile(rules)
	if err != nil {
		return err
	}
	first := "local all " + PostgresPassword + " scram-sha-256\n"
	return os.WriteFile(rules, append([]byte(first), old...), 0o600)
}

// URL returns the URL of the server's database.
func (p *PostgresServer) URL() string {
	return "postgres:///postgres?user=postgres&host=" + p.Dir
}

// Socket returns the path of the server's socket.
func (p *PostgresServer) Socket() string { return filepath.Join(p.Dir, ".s.PGSQL.5432") }

// postgresBin returns the directory of the newest PostgreSQL server's programs.
func postgresBin() (string, error) {
	list, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", errors.New("no server found in /usr/lib/postgresql/*/bin; `make test` installs it (on Debian: apt-get install postgresql)")
	}
	newest := slices.MaxFunc(list, func(a, b string) int { return compareVersions(a, b) })
	return filepath.Dir(newest), nil
}

// compareVersions orders paths that differ in a version number.
func compareVersions(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
