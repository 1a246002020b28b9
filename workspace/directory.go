package workspace

import (
	"context"
	"io"
	"time"
)

// Provider opens the directories of workspaces, and may run commands in them. [Memory], [Dir], [Bubblewrap] and
// [Container] make the providers of this package. The methods may be called concurrently.
type Provider interface {
	// Info describes the provider. The result must always be the same.
	Info() Info
	// Open opens a directory for the workspace with the given id, which is 32 hexadecimal digits. It may return a directory
	// of an earlier call, with its contents, once that one is closed, and never one that is still open, even in another
	// process. A new directory is empty.
	Open(ctx context.Context, id string) (Directory, error)
	// Sweep removes directories that have not been open for the given time.
	Sweep(ctx context.Context, idle time.Duration) error
}

// Info describes a [Provider].
type Info struct {
	// Name is the kind of the provider, such as "bubblewrap".
	Name string
	// Root is the absolute path that commands see the directory at; empty if the provider runs no commands.
	Root string
	// Limits describes, for the model, the limits of commands, and which of them are not enforced.
	Limits string
}

// Commands reports whether the provider's directories are a [Runner].
func (i Info) Commands() bool { return i.Root != "" }

// Kind is the kind of a directory's entry.
type Kind string

// The kinds of entries.
const (
	File Kind = "file"
	Dirs Kind = "dir"
	Link Kind = "link"
	// Special is a device, a named pipe or a socket. Snapshots leave it out, and no tool opens it.
	Special Kind = "special"
)

// Entry describes an entry of a [Directory].
type Entry struct {
	// Path is slash-separated and relative, without "." and "..".
	Path string
	Kind Kind
	// Size is the length of a file in bytes.
	Size int64
	// Executable reports whether a file's owner may execute it. Other permissions are not kept.
	Executable bool
	// Target is the text of a link.
	Target string
	// Stamp is a text that changes with the contents of a file; empty if there is none. Two changes within a second may have
	// the same one, so a stamp only counts if Changed is known and is longer ago.
	Stamp   string
	Changed time.Time
}

// Directory holds the files of one workspace. No path leads out of it, neither by ".." nor by links that commands have
// made. It is used by one goroutine at a time. Errors that wrap fs.ErrNotExist, fs.ErrExist or fs.ErrInvalid, and those
// that are an *fs.PathError, are about the path, and are shown to the model.
type Directory interface {
	// Walk calls fn for each entry below the root, each directory before its entries, until fn returns an error. Links are
	// not followed.
	Walk(ctx context.Context, fn func(Entry) error) error
	// Stat describes the entry at a path; the last element is not followed if it is a link.
	Stat(path string) (Entry, error)
	// Open opens a regular file for reading. A link to one within the directory is followed.
	Open(path string) (io.ReadCloser, Entry, error)
	// Write replaces the file at a path by a new one, or makes it, with the directories above it. It never writes through
	// an existing file, which other paths may have as well.
	Write(path string, executable bool, content io.Reader) error
	// Link makes a symbolic link.
	Link(path, target string) error
	// Mkdir makes a directory, with those above it; nothing if it exists.
	Mkdir(path string) error
	// Remove removes an entry, with all below it; nothing if it does not exist.
	Remove(path string) error
	// Note returns a note that SetNote has kept beside the files; nil for none, and after a crash of the machine.
	Note(name string) ([]byte, error)
	// SetNote keeps a note; nil removes it.
	SetNote(name string, data []byte) error
	// Reset removes the files that commands have outside of the directory, such as in their home directory.
	Reset() error
	// Close ends the use of the directory. Commands must have ended.
	Close() error
}

// Runner is a Directory that runs commands.
type Runner interface {
	Directory
	// Start starts a command. The context is for the start only.
	Start(ctx context.Context, c Command) (Process, error)
}

// Command is a command to run in a [Runner].
type Command struct {
	// Args are the program and its arguments.
	Args []string
	// Dir is the directory to run it in, a path as in Entry.Path; "." is the root.
	Dir string
	// Input is the standard input of the command.
	Input []byte
	// Environment are the variables of the command, as NAME=value, in addition to PATH, HOME, LANG and TERM, which it may
	// replace.
	Environment []string
	// Mounts are directories of the machine that the command sees.
	Mounts []Mount
	// Output receives the standard output and standard error of the command, in order. It must not block.
	Output io.Writer
}

// Process is a running command. Both methods may be called concurrently, and more than once.
type Process interface {
	// Wait returns the exit status once the command has ended, with all processes that it has started; -1 if it was
	// killed. An error means that the sandbox failed, not the command.
	Wait() (status int, err error)
	// Kill kills the command, with all processes that it has started.
	Kill()
}
