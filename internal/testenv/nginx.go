package testenv

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Nginx starts an nginx for one test and returns the URL that it listens on. settings is what goes into the http block of
// its configuration, with LISTEN for its address. It stops when the test ends.
func Nginx(tb testing.TB, settings string) (url string) {
	tb.Helper()
	var address string
	s, err := launch(program{name: "nginx", ready: "getrlimit", abort: syscall.SIGKILL, prepare: func(s *Server) ([]string, error) {
		bin, err := nginxProgram()
		if err != nil {
			return nil, err
		}
		if address, err = freeAddress(); err != nil {
			return nil, err
		}
		text := "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr notice;\nevents {}\nhttp {\n\taccess_log off;\n"
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			text += "\t" + kind + "_temp_path " + kind + ";\n"
		}
		text += strings.ReplaceAll(settings, "LISTEN", address) + "\n}\n"
		file := filepath.Join(s.Dir, "nginx.conf")
		return []string{bin, "-p", s.Dir, "-e", "stderr", "-c", file}, os.WriteFile(file, []byte(text), 0o644)
	}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	return "http://" + address
}

// nginxProgram returns the path of nginx, which Debian keeps out of the path of other users than root.
func nginxProgram() (string, error) {
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("nginx not found; `make test` installs it (on Debian: apt-get install nginx)")
}
