// Package workspace gives each session of an agent a directory of files, with tools to read, write and search them, and
// a shell in a sandbox.
//
// A [Workspace] is set as [cairn.Agent].Workspace. Its files follow the transcript: each call that may have changed them
// stores a snapshot, and names it in its result. So a process that takes a session over, on any machine, has the files of
// the last result; a rewind brings back the files of its checkpoint, and a branch begins with the files of its last message.
// Changes of a call that was killed or discarded are undone.
//
// # Providers
//
// A [Provider] has the directories, which are caches of the snapshots:
//
//   - [Memory] keeps files in the process, and runs no commands.
//   - [Dir] keeps them on a disk, and runs no commands.
//   - [Bubblewrap] keeps them on a disk, and runs commands in namespaces of their own. It is the one for a shell.
//   - [Container] runs each command in a container of docker or podman.
//
// A provider of your own, such as one for sandboxes of a service, implements Provider, [Directory] and [Runner].
//
// # Snapshots
//
// A snapshot is a tree: a blob per directory, and blobs of at most 4 MiB for files, named by their SHA-256 and kept in the
// session's store ([driver.BlobProvider]). It has regular files, with the permission to execute them, directories, and
// symbolic links that stay inside; other permissions, times and special files are left out. Files whose size, times and
// inode are as in the snapshot before are not read again. The blobs end with the tree of sessions that named them, a
// day after it was purged.
//
// # Trust
//
// Tools reach files only through [os.Root], regardless of links, hard links, pipes and devices that a command has made. Commands run
// as an unprivileged user without a network, with the system's programs and nothing else of the machine. [Bubblewrap] and
// [Container] fail if a probe shows that the sandbox does not hold. Limits that cannot be enforced are part of the shell's
// description, see [Info]. The kernel is shared: code that may attack it belongs in a virtual machine.
package workspace
