package open_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/internal/testenv"
)

var update = flag.Bool("update", false, "write the tools of the MCP servers anew (with CAIRN_SOAK=1)")

const (
	serversDir = "testdata/mcpservers"
	toolsFile  = "testdata/mcptools.json"
)

// mcpServer is a server and what its tools/list answered, without texts: names and schemas.
type mcpServer struct {
	Package string    `json:"package"`
	Version string    `json:"version"`
	License string    `json:"license"`
	Tools   []mcpTool `json:"tools"`
}

type mcpTool struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"inputSchema"`
}

// commands are the servers' command lines, after node_modules/.bin/.
var commands = []struct{ name, program, arg string }{
	{"@modelcontextprotocol/server-filesystem", "mcp-server-filesystem", "."},
	{"@modelcontextprotocol/server-memory", "mcp-server-memory", ""},
	{"@modelcontextprotocol/server-sequential-thinking", "mcp-server-sequential-thinking", ""},
	{"@notionhq/notion-mcp-server", "notion-mcp-server", ""},
	{"@playwright/mcp", "playwright-mcp", "--headless"},
}

// mcpServers returns what the file has of the servers.
func mcpServers(t *testing.T) (list []mcpServer) {
	t.Helper()
	raw, err := os.ReadFile(toolsFile)
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestMCPServersAreAsListed lists the tools of the locked servers anew. It installs them without their scripts, and
// calls nothing but tools/list.
func TestMCPServersAreAsListed(t *testing.T) {
	if !testenv.Soak() {
		t.Skip("needs the npm registry; make soak runs it")
	}
	dir := installed(t)
	var list []mcpServer
	for _, c := range commands {
		var about struct{ Version, License string }
		raw, err := os.ReadFile(filepath.Join(dir, "node_modules", c.name, "package.json"))
		if err == nil {
			err = json.Unmarshal(raw, &about)
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, mcpServer{Package: c.name, Version: about.Version, License: about.License, Tools: tools(t, dir, c.program, c.arg)})
	}
	var out strings.Builder
	for i := range list {
		for j := range list[i].Tools {
			raw, err := json.Marshal(list[i].Tools[j])
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s %s\n", list[i].Package, raw)
		}
	}
	if *update {
		write(t, list)
	}
	var have strings.Builder
	for _, s := range mcpServers(t) {
		for _, tool := range s.Tools {
			raw, err := json.Marshal(tool)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&have, "%s %s\n", s.Package, raw)
		}
	}
	if have.String() != out.String() {
		t.Errorf("%s is out of date: run this test with -update", toolsFile)
	}
}

// write writes the file with a line for each tool.
func write(t *testing.T, list []mcpServer) {
	t.Helper()
	var b strings.Builder
	b.WriteString("[")
	for i, s := range list {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n{\"package\":%q,\"version\":%q,\"license\":%q,\"tools\":[", s.Package, s.Version, s.License)
		for j, tool := range s.Tools {
			raw, err := json.Marshal(tool)
			if err != nil {
				t.Fatal(err)
			}
			if j > 0 {
				b.WriteString(",")
			}
			b.WriteString("\n" + string(raw))
		}
		b.WriteString("\n]}")
	}
	b.WriteString("\n]\n")
	if err := os.WriteFile(toolsFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// installed returns a directory with the locked servers, below the user's cache directory.
func installed(t *testing.T) string {
	t.Helper()
	lock, err := os.ReadFile(filepath.Join(serversDir, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(cache, "cairn", "mcpservers-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json")); err == nil {
		return dir
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		raw, err := os.ReadFile(filepath.Join(serversDir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error { // of what a server does not run
		if err == nil && !d.IsDir() && regexp.MustCompile(`\.(map|md|d\.[cm]?ts)$`).MatchString(path) {
			err = os.Remove(path)
		}
		return err
	})
	return dir
}

// tools starts a server and lists its tools.
func tools(t *testing.T, dir, program, arg string) (list []mcpTool) {
	t.Helper()
	args := []string{}
	if arg != "" {
		args = append(args, arg)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules", ".bin", program), args...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "NOTION_TOKEN=none")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	_, _ = fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"cairn","version":"1"}}}`)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var m struct {
			ID     int
			Result struct{ Tools []mcpTool }
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		switch m.ID {
		case 1:
			_, _ = fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			_, _ = fmt.Fprintln(in, `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`)
		case 2:
			for _, tool := range m.Result.Tools {
				tool.Schema = facts(t, tool.Schema)
				list = append(list, tool)
			}
			slices.SortFunc(list, func(a, b mcpTool) int { return strings.Compare(a.Name, b.Name) })
			return list
		}
	}
	t.Fatalf("%s has listed no tools: %v", program, lines.Err())
	return nil
}

// facts returns a schema without its texts.
func facts(t *testing.T, raw json.RawMessage) json.RawMessage {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	var strip func(any)
	strip = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, inner := range v {
				strip(inner)
			}
		case map[string]any:
			for _, name := range []string{"description", "title", "example"} {
				if _, text := v[name].(string); text {
					delete(v, name)
				}
			}
			for _, inner := range v {
				strip(inner)
			}
		}
	}
	strip(v)
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
