package workspace

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

// BubblewrapOptions tune [Bubblewrap]. nil and the zero value mean the defaults.
type BubblewrapOptions struct {
	// Program is the path of bwrap; empty means that it is looked up.
	Program string
	// Network lets commands use the network of the machine. By default they have none, not even other programs of the
	// machine.
	Network bool
	// User is the id of the user and group that commands run as if this process is root; 0 means 65534, "nobody". It must
	// not run anything else.
	User int
	// Bounds are limits of the kernel.
	Bounds Bounds
}

// Bounds are limits that the kernel enforces on commands. A zero field means its default.
type Bounds struct {
	// Processes is the maximum number of processes and threads of a command; by default 256.
	Processes int
	// Memory is the maximum address space of each process, in bytes; by default 4 GiB. Programs reserve more than they
	// use: Node.js needs about 40 GiB.
	Memory int64
	// FileBytes is the maximum size of a file that a command writes; by default 256 MiB. The temporary directory of a
	// command, which is in memory, has the same size.
	FileBytes int64
	// Files is the maximum number of open files of each process; by default 1024.
	Files int
}

func (b Bounds) withDefaults() (Bounds, error) {
	if b.Processes < 0 || b.Memory < 0 || b.FileBytes < 0 || b.Files < 0 {
		return b, cairn.Invalid("bounds", "a limit is negative")
	}
	b.Processes = defaulted(b.Processes, 256)
	b.Memory = defaulted(b.Memory, 4<<30)
	b.FileBytes = defaulted(b.FileBytes, 256<<20)
	b.Files = defaulted(b.Files, 1024)
	return b, nil
}

// The paths that commands see.
const (
	rootPath = "/workspace"
	homePath = "/agent"
)

// bubblewrap is the provider of Bubblewrap.
type bubblewrap struct {
	slots   *slots
	program string
	opts    BubblewrapOptions
	system  []string // arguments that bind the system
}

// Bubblewrap returns a provider that keeps files below a path of this machine, as [Dir] does, and runs commands by
// Bubblewrap: in namespaces of their own, with the programs of the machine, which they cannot change, and without its other
// files, processes and network. Nothing runs without that protection: New runs a command, and the error is ErrInvalid if
// the sandbox does not hold, for example because the kernel permits no user namespaces.
//
// If this process is root, commands run as an unprivileged user; that user must be able to enter the path. It takes Linux
// and bwrap 0.8 or later.
func Bubblewrap(path string, opts *BubblewrapOptions) (Provider, error) {
	b := &bubblewrap{}
	if opts != nil {
		b.opts = *opts
	}
	var err error
	if b.opts.Bounds, err = b.opts.Bounds.withDefaults(); err != nil {
		return nil, err
	}
	if b.program, err = exec.LookPath(defaulted(b.opts.Program, "bwrap")); err != nil {
		return nil, cairn.Invalid("program", "%v: install Bubblewrap", err)
	}
	uid := -1
	if os.Geteuid() == 0 {
		uid = defaulted(b.opts.User, 65534)
	}
	if b.opts.User < 0 {
		return nil, cairn.Invalid("user", "is negative")
	}
	if b.slots, err = newSlots(path, uid); err != nil {
		return nil, err
	}
	if err := b.bindSystem(); err != nil {
		return nil, cairn.Errorf(cairn.ErrInvalid, "path: %w", err)
	}
	if err := b.probe(); err != nil {
		return nil, cairn.Errorf(cairn.ErrInvalid, "bubblewrap: %w", err)
	}
	return b, nil
}

// Info implements Provider.
func (b *bubblewrap) Info() Info {
	x := b.opts.Bounds
	network := "The network cannot be used."
	if b.opts.Network {
		network = "The network can be used."
	}
	return Info{Name: "bubblewrap", Root: rootPath, Limits: fmt.Sprintf("%s Each process may use %s of memory, and a command %d processes; the memory of all processes together is not limited.",
		network, sizeText(x.Memory), x.Processes)}
}

// sizeText returns a number of bytes for people.
func sizeText(n int64) string {
	switch {
	case n >= 1<<30:
		return strconv.FormatFloat(float64(n)/(1<<30), 'g', 3, 64) + " GiB"
	case n >= 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<20), 'g', 3, 64) + " MiB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

// Open implements Provider.
func (b *bubblewrap) Open(_ context.Context, id string) (Directory, error) {
	d, err := b.slots.open(id)
	if err != nil {
		return nil, err
	}
	return &wrapped{d, b}, nil
}

// Sweep implements Provider.
func (b *bubblewrap) Sweep(ctx context.Context, idle time.Duration) error {
	return b.slots.sweep(ctx, idle)
}

// The users that commands see: their own only.
const (
	passwdText = "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:" + homePath + ":/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
	groupText  = "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"
)

// bindSystem prepares the arguments that bind the programs of the machine and the few files of /etc that they need.
func (b *bubblewrap) bindSystem() error {
	etc := filepath.Join(b.slots.base, "etc")
	if err := os.MkdirAll(etc, 0o755); err != nil {
		return err
	}
	b.system = []string{"--ro-bind", "/usr", "/usr"}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if to, err := os.Readlink(dir); err == nil {
			b.system = append(b.system, "--symlink", to, dir)
		} else {
			b.system = append(b.system, "--ro-bind-try", dir, dir)
		}
	}
	files := []string{"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "mime.types", "ssl/openssl.cnf"}
	if b.opts.Network {
		files = append(files, "ssl", "ca-certificates", "pki", "resolv.conf", "hosts", "nsswitch.conf", "services", "protocols", "gai.conf")
	}
	for _, name := range files {
		b.system = append(b.system, "--ro-bind-try", "/etc/"+name, "/etc/"+name)
	}
	for name, text := range map[string]string{"passwd": passwdText, "group": groupText} {
		name = filepath.Join(etc, name)
		if err := os.WriteFile(name+".new", []byte(text), 0o644); err != nil {
			return err
		}
		if err := os.Rename(name+".new", name); err != nil {
			return err
		}
		b.system = append(b.system, "--ro-bind", name, "/etc/"+filepath.Base(name))
	}
	return nil
}

// wrapped is a directory whose commands run by Bubblewrap.
type wrapped struct {
	*localDirectory
	by *bubblewrap
}

// setLimits is the script that limits itself, reports on file descriptor 3 that it has done so, and becomes the command in
// a directory.
// The limit of processes counts within the sandbox's own user namespace, where no other process runs.
const setLimits = `ulimit -c 0 && ulimit -v %d && ulimit -f %d && ulimit -n %d &&
{ if (ulimit -u %[4]d) 2>/dev/null; then ulimit -u %[4]d; else ulimit -p %[4]d; fi; } && printf 1 >&3 && exec 3>&- && cd "$0" && exec "$@"`

// Start implements Runner.
func (d *wrapped) Start(_ context.Context, c Command) (Process, error) {
	b, x := d.by, &d.by.opts.Bounds
	args := []string{"--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--uid", "1000", "--gid", "1000", "--hostname", "workspace"}
	if b.opts.Network {
		args = append(args, "--share-net")
	}
	args = append(args, b.system...)
	size := strconv.FormatInt(x.FileBytes, 10)
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm", "--size", size, "--tmpfs", "/tmp",
		"--dir", "/run", "--dir", "/var/tmp", "--bind", filepath.Join(d.slot, homeDir), homePath, "--bind", filepath.Join(d.slot, filesDir), rootPath)
	for _, m := range c.Mounts {
		bind := "--ro-bind"
		if m.Writable {
			bind = "--bind"
		}
		args = append(args, bind, m.Source, m.target())
	}
	args = append(args, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", rootPath, "--", "/bin/sh", "-c",
		fmt.Sprintf(setLimits, x.Memory>>10, x.FileBytes>>9, x.Files, x.Processes), path.Join(rootPath, c.Dir))
	cmd := exec.Command(b.program, append(args, c.Args...)...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + homePath, "USER=agent", "LANG=C.UTF-8", "TERM=dumb"}, c.Environment...)
	asUser(cmd, b.slots.uid)
	ready, reports, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reports.Close()
	cmd.ExtraFiles = []*os.File{reports}
	p, err := startProgram(cmd, &c, func() bool {
		n, _ := ready.Read(make([]byte, 1))
		_ = ready.Close()
		return n == 1
	}, nil)
	if err != nil {
		_ = ready.Close()
	}
	return p, err
}

// probe runs a command that checks from within that the sandbox holds.
func (b *bubblewrap) probe() error {
	id := strings.Repeat("0", 32)
	dir, err := b.slots.open(id)
	if err != nil {
		return err
	}
	defer dir.Close()
	d := &wrapped{dir, b}
	check := `touch probe && ! touch /probe 2>/dev/null && ! touch /usr/probe 2>/dev/null && [ "$(ls /proc | grep -c '^[0-9]')" -lt 20 ] && [ ! -e /etc/shadow ] && [ ! -e ` + strconv.Quote(b.slots.base) + ` ]`
	if !b.opts.Network {
		check += ` && [ "$(grep -c : /proc/net/dev)" = 1 ]`
	}
	if err := probe(d, check, 20*time.Second); err != nil {
		if b.slots.uid >= 0 {
			err = fmt.Errorf("%w (commands run as user %d, who must be able to enter %s)", err, b.slots.uid, b.slots.base)
		}
		return err
	}
	return dir.Remove("probe")
}
