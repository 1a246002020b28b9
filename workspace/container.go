package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// ContainerOptions tune [Container].
type ContainerOptions struct {
	// Image is the image of the containers; it must have /bin/sh. It is required, unless Arguments name a root directory,
	// as --rootfs of podman does.
	Image string
	// Program is the command line of docker or podman; empty means podman if it is there, otherwise docker.
	Program string
	// Flags are flags of the program before its command, such as --runtime. Arguments are further arguments of its command
	// run, before the image.
	Flags     []string
	Arguments []string
	// Network lets commands use a network. By default they have none.
	Network bool
	// User is the id of the user and group that commands run as if this process is root; 0 means 65534.
	User int
	// Bounds are limits of each command. Memory is the limit of all its processes together, where the program can limit it.
	Bounds Bounds
}

// container is the provider of Container.
type container struct {
	slots   *slots
	program string
	opts    ContainerOptions
}

// containersNote names the containers that run in a directory. A process that was killed leaves them running.
const containersNote = "containers"

// Container returns a provider that keeps files below a path of this machine, as [Dir] does, and runs each command in a
// container of its own, by the command line of docker or podman. The error is ErrInvalid if a container cannot be run, or
// does not confine its command. The program must run on this machine, since containers mount directories of it.
func Container(path string, opts *ContainerOptions) (Provider, error) {
	c := &container{}
	if opts != nil {
		c.opts = *opts
	}
	o := &c.opts
	var err error
	if o.Bounds, err = o.Bounds.withDefaults(); err != nil {
		return nil, err
	}
	switch {
	case o.User < 0:
		return nil, cairn.Invalid("user", "is negative")
	case strings.HasPrefix(o.Image, "-"):
		return nil, cairn.Invalid("image", "%q begins with a hyphen", o.Image)
	case o.Image == "" && !slices.Contains(o.Arguments, "--rootfs"):
		return nil, cairn.Invalid("image", "is empty")
	}
	if c.program, err = exec.LookPath(defaulted(o.Program, "podman")); err != nil && o.Program == "" {
		c.program, err = exec.LookPath("docker")
	}
	if err != nil {
		return nil, cairn.Invalid("program", "%v: install podman or docker", err)
	}
	uid := -1
	if os.Geteuid() == 0 {
		uid = defaulted(o.User, 65534)
	}
	if c.slots, err = newSlots(path, uid); err != nil {
		return nil, err
	}
	c.slots.abandon = func(ctx context.Context, d *localDirectory) error {
		return (&contained{localDirectory: d, by: c}).clean(ctx)
	}
	if err := c.probe(); err != nil {
		return nil, cairn.Errorf(cairn.ErrInvalid, "container: %w", err)
	}
	return c, nil
}

// Info implements Provider.
func (c *container) Info() Info {
	network := "The network cannot be used."
	if c.opts.Network {
		network = "The network can be used."
	}
	return Info{Name: "container", Root: rootPath, Limits: fmt.Sprintf("%s A command may use %s of memory and %d processes.", network, sizeText(c.opts.Bounds.Memory), c.opts.Bounds.Processes)}
}

// Open implements Provider. It removes the containers that a process has left behind in the directory.
func (c *container) Open(ctx context.Context, id string) (Directory, error) {
	d, err := c.slots.open(id)
	if err != nil {
		return nil, err
	}
	in := &contained{localDirectory: d, by: c}
	if err := in.clean(ctx); err != nil {
		_ = d.Close()
		return nil, cairn.Errorf(cairn.ErrUnavailable, "remove the containers of a process that has ended: %w", err)
	}
	return in, nil
}

// Sweep implements Provider.
func (c *container) Sweep(ctx context.Context, idle time.Duration) error {
	return c.slots.sweep(ctx, idle)
}

// command returns a command line of the program.
func (c *container) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, c.program, append(slices.Clone(c.opts.Flags), args...)...)
}

// remove removes a container, if it is there.
func (c *container) remove(ctx context.Context, name string) error {
	out, err := c.command(ctx, "rm", "--force", name).CombinedOutput()
	if err != nil && !bytes.Contains(bytes.ToLower(out), []byte("no such container")) && !bytes.Contains(out, []byte("no container with")) {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// contained is a directory whose commands run in containers.
type contained struct {
	*localDirectory
	by *container

	mu    sync.Mutex
	names []string // of the containers that run
}

// clean removes containers that were left running.
func (d *contained) clean(ctx context.Context) error {
	note, err := d.Note(containersNote)
	if err != nil || note == nil {
		return err
	}
	var names []string
	if err := json.Unmarshal(note, &names); err != nil {
		return err
	}
	for _, name := range names {
		if err := d.by.remove(ctx, name); err != nil {
			return err
		}
	}
	return d.SetNote(containersNote, nil)
}

// add notes a container before it runs.
func (d *contained) add(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = append(d.names, name)
	return d.save()
}

// drop notes that a container has ended.
func (d *contained) drop(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = slices.DeleteFunc(d.names, func(n string) bool { return n == name })
	_ = d.save() // else the container is removed again
}

func (d *contained) save() error {
	if len(d.names) == 0 {
		return d.SetNote(containersNote, nil)
	}
	raw, err := json.Marshal(d.names)
	if err != nil {
		return err
	}
	return d.SetNote(containersNote, raw)
}

// Start implements Runner.
func (d *contained) Start(_ context.Context, c Command) (Process, error) {
	name := "cairn-" + ids.Short()
	if err := d.add(name); err != nil {
		return nil, err
	}
	marker := ids.New("ready")
	cmd := d.by.command(context.Background(), d.arguments(name, marker, &c)...)
	cmd.Env = os.Environ()
	for _, v := range c.Environment {
		if byName(v) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	out := &marked{marker: []byte(marker + "\n"), to: c.Output}
	c.Output = out
	p, err := startProgram(cmd, &c, out.setUp, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = d.by.remove(ctx, name)
	})
	if err != nil {
		d.drop(name)
		return nil, err
	}
	return &containedProcess{p, sync.OnceFunc(func() { d.drop(name) })}, nil
}

// containedProcess notes the end of its container.
type containedProcess struct {
	Process
	ended func()
}

func (p *containedProcess) Wait() (int, error) {
	status, err := p.Process.Wait()
	p.ended()
	return status, err
}

// byName reports whether a container can take a variable from the environment of the program, where no command line shows
// it. The program itself uses a few.
func byName(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return !slices.Contains([]string{"PATH", "HOME", "USER", "LANG", "TERM", "TMPDIR"}, name) && !strings.HasPrefix(name, "DOCKER_") &&
		!strings.HasPrefix(name, "CONTAINER") && !strings.HasPrefix(name, "XDG_") && !strings.HasPrefix(name, "LD_")
}

// arguments returns those of the program's command run.
func (d *contained) arguments(name, marker string, c *Command) []string {
	o, x := &d.by.opts, &d.by.opts.Bounds
	args := []string{"run", "--rm", "--name", name, "--cap-drop", "all", "--security-opt", "no-new-privileges", "--read-only", "--pids-limit", strconv.Itoa(x.Processes),
		"--memory", strconv.FormatInt(x.Memory, 10), "--ulimit", fmt.Sprintf("nofile=%d:%[1]d", x.Files), "--tmpfs", "/tmp:size=" + strconv.FormatInt(x.FileBytes, 10) + ",mode=1777",
		"--volume", filepath.Join(d.slot, filesDir) + ":" + rootPath, "--volume", filepath.Join(d.slot, homeDir) + ":" + homePath, "--workdir", rootPath}
	if !o.Network {
		args = append(args, "--network", "none")
	}
	if uid := d.uid; uid >= 0 {
		args = append(args, "--user", fmt.Sprintf("%d:%[1]d", uid))
	} else if args = append(args, "--user", fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid())); strings.HasPrefix(filepath.Base(d.by.program), "podman") {
		args = append(args, "--userns", "keep-id")
	}
	if len(c.Input) > 0 {
		args = append(args, "--interactive")
	}
	args = append(args, "--env", "HOME="+homePath, "--env", "TERM=dumb")
	for _, v := range c.Environment {
		if byName(v) {
			v, _, _ = strings.Cut(v, "=")
		}
		args = append(args, "--env", v)
	}
	for _, m := range c.Mounts {
		bind := m.Source + ":" + m.target()
		if !m.Writable {
			bind += ":ro"
		}
		args = append(args, "--volume", bind)
	}
	args = append(args, o.Arguments...)
	if o.Image != "" {
		args = append(args, o.Image)
	}
	script := fmt.Sprintf(`ulimit -c 0 && ulimit -f %d && echo "$0" && cd "$1" && shift && exec "$@"`, x.FileBytes>>9)
	return append(append(args, "/bin/sh", "-c", script, marker, path.Join(rootPath, c.Dir)), c.Args...)
}

// marked passes output on that follows a marker, which the command's shell writes once the container is set up. What
// precedes it is the program's.
type marked struct {
	marker []byte
	to     io.Writer

	mu    sync.Mutex
	seen  bool
	early []byte
}

// Write implements io.Writer.
func (m *marked) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen {
		return m.to.Write(p)
	}
	m.early = append(m.early, p...)
	if i := bytes.Index(m.early, m.marker); i >= 0 {
		m.seen = true
		if rest := m.early[i+len(m.marker):]; len(rest) > 0 {
			_, _ = m.to.Write(rest)
		}
		m.early = nil
	} else if len(m.early) > 64<<10 {
		m.early = m.early[len(m.early)-1000:]
	}
	return len(p), nil
}

// setUp reports whether the command was reached.
func (m *marked) setUp() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

// probe runs a command that checks from within that the container confines it.
func (c *container) probe() error {
	check := `touch probe && ! touch /probe 2>/dev/null && [ ! -e ` + strconv.Quote(c.slots.base) + ` ]`
	if !c.opts.Network {
		check += ` && [ "$(grep -c : /proc/net/dev)" = 1 ]`
	}
	d, err := c.Open(context.Background(), strings.Repeat("0", 32))
	if err != nil {
		return err
	}
	defer d.Close()
	if err := probe(d.(Runner), check, time.Minute); err != nil {
		return fmt.Errorf("%w (user %d must be able to enter %s)", err, c.slots.uid, c.slots.base)
	}
	return d.Remove("probe")
}
