package workspace

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
)

// maxText is the maximum size of a file that tools edit, in bytes.
const maxText = 8 << 20

// reading are the arguments of the tool that reads.
type reading struct {
	Path  string `json:"path" jsonschema:"The file."`
	Line  int    `json:"line,omitempty" jsonschema:"The first line to return, from 1. Default: 1." schema:"min=1"`
	Lines int    `json:"lines,omitempty" jsonschema:"How many lines to return. Default: as many as fit." schema:"min=1"`
}

// images are the types of files that models see, by suffix.
var images = map[string]string{".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}

// maxImage is the maximum size of an image that models see.
const maxImage = 4 << 20

// readTool returns the text of files, and shows images.
func (w *Workspace) readTool(p pinned) cairn.Tool {
	return newTool(w, "read", "Read a text file, or look at an image (PNG, JPEG, GIF, WebP).", false, p, func(_ context.Context, v *visit, in reading) (string, error) {
		name, err := cleanPath(v.info.Root, in.Path)
		if err != nil {
			return "", err
		}
		f, e, err := v.dir.Open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		if media, ok := images[strings.ToLower(path.Ext(name))]; ok {
			return v.show(f, e, media)
		}
		return readLines(f, e, in, v.limits.Output)
	})
}

// show attaches an image to the result.
func (v *visit) show(f io.Reader, e Entry, media string) (string, error) {
	if e.Size > maxImage {
		return "", cairn.Invalid("path", "the image has %s, more than %s", sizeText(e.Size), sizeText(maxImage))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxImage))
	if err != nil {
		return "", err
	}
	if err := v.call.Attach(cairn.File{Name: path.Base(e.Path), MediaType: media, Data: data}); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %s", media, sizeText(e.Size)), nil
}

// readLines returns lines of a text.
func readLines(f io.Reader, e Entry, in reading, limit int) (string, error) {
	r := bufio.NewReaderSize(f, 64<<10)
	if start, _ := r.Peek(8000); bytes.IndexByte(start, 0) >= 0 {
		return "", cairn.Invalid("path", "%q is not a text file; it has %s", e.Path, sizeText(e.Size))
	}
	first := max(in.Line, 1)
	for n := 1; n < first; n++ {
		if err := skipLine(r); err == io.EOF {
			return "", cairn.Invalid("line", "the file has %d lines", n-1)
		} else if err != nil {
			return "", err
		}
	}
	var text []byte
	line := first
	for ; in.Lines == 0 || line < first+in.Lines; line++ {
		got, err := r.ReadSlice('\n')
		for len(text)+len(got) <= limit && err == bufio.ErrBufferFull {
			text = append(text, got...)
			got, err = r.ReadSlice('\n')
		}
		if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
			return "", err
		}
		if room := limit - len(text); len(got) > room {
			if line == first {
				text = append(text, got[:room]...)
				return cleanText(text) + fmt.Sprintf("\n[line %d is longer than can be shown]", line), nil
			}
			return cleanText(text) + fmt.Sprintf("[lines %d to %d; the file is longer]", first, line-1), nil
		}
		text = append(text, got...)
		if err == io.EOF {
			return cleanText(text), nil
		}
	}
	if _, err := r.Peek(1); err == nil {
		return cleanText(text) + fmt.Sprintf("[lines %d to %d; the file is longer]", first, line-1), nil
	}
	return cleanText(text), nil
}

func skipLine(r *bufio.Reader) error {
	for some := false; ; some = true {
		got, err := r.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == io.EOF && (some || len(got) > 0) {
			return nil
		}
		return err
	}
}

// cleanText returns bytes as text that a session can keep.
func cleanText(b []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\ufffd"), "\x00", "\ufffd")
}

// writing are the arguments of the tool that writes.
type writing struct {
	Path       string `json:"path" jsonschema:"The file. Directories above it are made."`
	Content    string `json:"content" jsonschema:"The whole content."`
	Executable bool   `json:"executable,omitempty" jsonschema:"Make the file executable."`
}

// writeTool writes whole files.
func (w *Workspace) writeTool(p pinned) cairn.Tool {
	return newTool(w, "write", "Write a file: a new one, or in place of an existing one.", true, p, func(_ context.Context, v *visit, in writing) (string, error) {
		name, err := cleanPath(v.info.Root, in.Path)
		if err != nil {
			return "", err
		}
		executable := in.Executable
		if e, err := v.dir.Stat(name); err == nil && e.Kind == File {
			executable = executable || e.Executable
		}
		if err := v.dir.Write(name, executable, strings.NewReader(in.Content)); err != nil {
			return "", err
		}
		return fmt.Sprintf("Wrote %s, %d bytes.", name, len(in.Content)), nil
	})
}

// editing are the arguments of the tool that edits.
type editing struct {
	Path string `json:"path" jsonschema:"The file."`
	Old  string `json:"old" jsonschema:"The text to replace, exactly as it is in the file. It must be there once, unless all is true." schema:"minLength=1"`
	New  string `json:"new" jsonschema:"The text to put in its place."`
	All  bool   `json:"all,omitempty" jsonschema:"Replace each occurrence."`
}

// editTool replaces texts in files.
func (w *Workspace) editTool(p pinned) cairn.Tool {
	return newTool(w, "edit", "Replace a text in a file.", true, p, func(_ context.Context, v *visit, in editing) (string, error) {
		name, err := cleanPath(v.info.Root, in.Path)
		if err != nil {
			return "", err
		}
		f, e, err := v.dir.Open(name)
		if err != nil {
			return "", err
		}
		data, err := io.ReadAll(io.LimitReader(f, maxText+1))
		_ = f.Close()
		if err != nil {
			return "", err
		}
		if len(data) > maxText {
			return "", cairn.Invalid("path", "%q has more than %s", name, sizeText(maxText))
		}
		text := string(data)
		n := strings.Count(text, in.Old)
		switch {
		case in.Old == in.New:
			return "", cairn.Invalid("new", "is the same as old")
		case n == 0:
			return "", cairn.Invalid("old", "is not in %q: read the file again", name)
		case n > 1 && !in.All:
			return "", cairn.Invalid("old", "is %d times in %q: give more of the text around it, or set all", n, name)
		}
		if err := v.dir.Write(name, e.Executable, strings.NewReader(strings.ReplaceAll(text, in.Old, in.New))); err != nil {
			return "", err
		}
		return fmt.Sprintf("Replaced %d in %s.", n, name), nil
	})
}

// removing are the arguments of the tool that removes.
type removing struct {
	Path string `json:"path" jsonschema:"The file or directory."`
}

// removeTool removes files and directories.
func (w *Workspace) removeTool(p pinned) cairn.Tool {
	return newTool(w, "remove", "Remove a file, or a directory with all that is in it.", true, p, func(_ context.Context, v *visit, in removing) (string, error) {
		name, err := cleanPath(v.info.Root, in.Path)
		if err != nil {
			return "", err
		}
		if name == "." {
			return "", cairn.Invalid("path", "is the workspace itself")
		}
		if _, err := v.dir.Stat(name); err != nil {
			return "", err
		}
		return "Removed " + name + ".", v.dir.Remove(name)
	})
}

// listing are the arguments of the tool that lists.
type listing struct {
	Path    string `json:"path,omitempty" jsonschema:"The directory. Default: the root of the workspace."`
	Pattern string `json:"pattern,omitempty" jsonschema:"A pattern of names or paths below it, such as *.go or src/**/*.ts. Default: all entries of the directory itself."`
}

// listTool lists directories.
func (w *Workspace) listTool(p pinned) cairn.Tool {
	return newTool(w, "list", "List a directory, or find files below it by a pattern.", false, p, func(ctx context.Context, v *visit, in listing) (string, error) {
		below, err := v.directory(in.Path)
		if err != nil {
			return "", err
		}
		match, err := globOf(in.Pattern)
		if err != nil {
			return "", err
		}
		var lines []string
		err = v.dir.Walk(ctx, func(e Entry) error {
			rest, ok := within(below, e.Path)
			if ok && (in.Pattern == "" && !strings.Contains(rest, "/") || in.Pattern != "" && e.Kind != Dirs && match(rest)) && utf8.ValidString(rest) {
				lines = append(lines, line(rest, e))
			}
			return nil
		})
		if err != nil {
			return "", err
		}
		if len(lines) == 0 {
			return "(nothing)", nil
		}
		slices.Sort(lines)
		return bounded(lines, v.limits.Output), nil
	})
}

// directory returns the path of a directory; "." for the root.
func (v *visit) directory(name string) (string, error) {
	if name == "" {
		return ".", nil
	}
	clean, err := cleanPath(v.info.Root, name)
	if err != nil || clean == "." {
		return clean, err
	}
	e, err := v.dir.Stat(clean)
	if err != nil {
		return "", err
	}
	if e.Kind != Dirs {
		return "", cairn.Invalid("path", "%q is not a directory", name)
	}
	return clean, nil
}

// within returns the part of a path below a directory.
func within(dir, name string) (rest string, ok bool) {
	if dir == "." {
		return name, true
	}
	return strings.CutPrefix(name, dir+"/")
}

// line describes an entry for the model.
func line(name string, e Entry) string {
	switch e.Kind {
	case Dirs:
		return name + "/"
	case Link:
		return name + " -> " + cleanText([]byte(e.Target))
	case Special:
		return name + " (not a file)"
	}
	return fmt.Sprintf("%s (%s)", name, sizeText(e.Size))
}

// bounded joins lines up to a size, and says how many are left out.
func bounded(lines []string, limit int) string {
	size := 0
	for i, l := range lines {
		if size += len(l) + 1; size > limit {
			return strings.Join(lines[:i], "\n") + fmt.Sprintf("\n[%d more]", len(lines)-i)
		}
	}
	return strings.Join(lines, "\n")
}
