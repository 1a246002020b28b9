package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// resultsVariable names the file to which a soak appends its results.
const resultsVariable = "CAIRN_SOAK_RESULTS"

// Report logs the result of a torture test as a row of a table in docs/results/stops.md: date, commit, command and test,
// followed by cells. A soak appends the row to the file that CAIRN_SOAK_RESULTS names.
func Report(tb testing.TB, cells ...string) {
	tb.Helper()
	row := append([]string{time.Now().UTC().Format(time.DateOnly), commit(), "`" + command() + "`", filepath.Base(workDir()) + " " + tb.Name()}, cells...)
	line := "| " + strings.Join(row, " | ") + " |"
	tb.Log(line)
	if path := os.Getenv(resultsVariable); path != "" && Soak() {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(f, line)
			f.Close()
		}
		if err != nil {
			tb.Errorf("the result is not kept: %v", err)
		}
	}
}

// commit returns the tested commit, or "unknown".
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// command returns the command that started the test.
func command() string {
	if !Soak() {
		return "make test"
	}
	words := []string{"make", "soak"}
	for _, name := range []string{"KILLS", "HOURS"} {
		if v := os.Getenv(name); v != "" {
			words = append(words, name+"="+v)
		}
	}
	return strings.Join(append(words, "ONLY="+filepath.Base(workDir())), " ")
}

func workDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return "unknown"
	}
	return dir
}
