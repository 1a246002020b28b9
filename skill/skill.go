package skill

import (
	"context"
	"io/fs"
)

// The names of the tools that a [Set] gives an agent. Tools of the agent must not have them.
const (
	// LoadTool loads the instructions of a skill.
	LoadTool = "load_skill"
	// ReadTool reads lines of a file of a skill.
	ReadTool = "read_skill_file"
)

// Limits of the format, in characters, and of the texts that the model reads at once.
const (
	// MaxName is the maximum length of a skill's name.
	MaxName = 64
	// MaxDescription is the maximum length of a description.
	MaxDescription = 1024
	// MaxCompatibility is the maximum length of a compatibility note.
	MaxCompatibility = 500
	// MaxBody is the maximum size of a skill's instructions, in bytes.
	MaxBody = 256 << 10
	// MaxFile is the maximum size of a file that the model can read, in bytes.
	MaxFile = 4 << 20
)

// Info describes a skill: the front matter of its SKILL.md.
type Info struct {
	// Name identifies the skill: 1 to 64 lower-case letters, digits and single hyphens between them.
	Name string `json:"name"`
	// Description states the skill's purpose and when to use it. The model reads it in the catalogue.
	Description string `json:"description"`
	// License and Compatibility are for people; the model does not read them.
	License       string `json:"license,omitempty"`
	Compatibility string `json:"compatibility,omitempty"`
	// Metadata is further information from the author.
	Metadata map[string]string `json:"metadata,omitempty"`
	// AllowedTools are patterns of tool names, such as "git_*", that loading the skill switches on. They only affect
	// tools that the agent has and that are off, and they waive no approval.
	AllowedTools []string `json:"allowed_tools,omitempty"`
	// Origin names a source other than the operator, such as "the MCP server docs". The model reads it with the
	// instructions. Empty for a source that the operator trusts.
	Origin string `json:"origin,omitempty"`
	// Digests are the digests of the skill's files by path, SKILL.md included, in the form "sha256:" and 64 hexadecimal
	// digits. If there are any, a session pins them: it reads files with these digests, and no others, until a turn begins
	// with new ones. Nil means that files are read as they are.
	Digests map[string]string `json:"digests,omitempty"`
	// Warnings are mistakes in the skill that do not prevent its use. A Set logs them.
	Warnings []string `json:"-"`
}

// Skill is a skill with its instructions.
type Skill struct {
	Info
	// Body is the instructions, in Markdown.
	Body string
	// Digest is the digest of the SKILL.md that Body is from, if Digests are set.
	Digest string
	// Files are the other files of the skill, which the model reads with [ReadTool].
	Files []File
}

// File is a file of a skill.
type File struct {
	// Path is relative to the skill's folder, with slashes.
	Path string
	// Size is its size in bytes.
	Size int64
}

// Provider finds skills in some place. Its methods may be called concurrently.
type Provider interface {
	// List returns the skills that there are, in any order. It is called when a turn begins. After an error the session
	// keeps the skills that it has.
	List(ctx context.Context) ([]Info, error)
	// Load returns a skill by name, or an error that matches [fs.ErrNotExist].
	Load(ctx context.Context, name string) (*Skill, error)
	// ReadFile returns a file of a skill. The path is valid in the sense of [fs.ValidPath]. The error matches
	// [fs.ErrNotExist] if the skill has no such file.
	ReadFile(ctx context.Context, name, path string) ([]byte, error)
}

// Define returns a provider of one skill that is written in Go. files holds the files that its instructions refer to;
// nil means none. s.Files is ignored. [New] reports a name or description that is not valid.
func Define(s Skill, files fs.FS) Provider { return &defined{s, files} }

type defined struct {
	skill Skill
	files fs.FS
}

func (d *defined) List(context.Context) ([]Info, error) { return []Info{d.skill.Info}, nil }

func (d *defined) Load(_ context.Context, name string) (*Skill, error) {
	if name != d.skill.Name {
		return nil, notFound(name)
	}
	s := d.skill
	s.Files = nil
	if d.files != nil {
		var err error
		if s.Files, err = (&tree{fsys: d.files}).list("."); err != nil {
			return nil, err
		}
	}
	return &s, nil
}

func (d *defined) ReadFile(_ context.Context, name, path string) ([]byte, error) {
	if name != d.skill.Name || d.files == nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
	}
	return (&tree{fsys: d.files}).read(path, MaxFile)
}
