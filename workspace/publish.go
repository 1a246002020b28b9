package workspace

import (
	"cmp"
	"context"
	"fmt"
	"mime"
	"path"

	"github.com/cairn-agents/cairn"
)

// publishing are the arguments of the tool that publishes.
type publishing struct {
	Path      string `json:"path" jsonschema:"The file."`
	Name      string `json:"name,omitempty" jsonschema:"The name for the user. Default: the last element of the path."`
	MediaType string `json:"media_type,omitempty" jsonschema:"The type of the file. Default: by the suffix of its name."`
}

// publishTool makes artifacts of files.
func (w *Workspace) publishTool(p pinned) cairn.Tool {
	return newTool(w, "publish", "Give a file to the user, as it is now.", false, p, func(ctx context.Context, v *visit, in publishing) (string, error) {
		at, err := cleanPath(v.info.Root, in.Path)
		if err != nil {
			return "", err
		}
		f, e, err := v.dir.Open(at)
		if err != nil {
			return "", err
		}
		defer f.Close()
		name := cmp.Or(in.Name, path.Base(at))
		media := cmp.Or(in.MediaType, mediaTypes[path.Ext(name)], mime.TypeByExtension(path.Ext(name)))
		if err := v.call.Publish(ctx, name, media, f); err != nil {
			return "", err
		}
		return fmt.Sprintf("Published %s, %s.", name, sizeText(e.Size)), nil
	})
}

// mediaTypes are types of files that the tables of machines name differently, or lack.
var mediaTypes = map[string]string{
	".csv": "text/csv; charset=utf-8", ".md": "text/markdown; charset=utf-8", ".txt": "text/plain; charset=utf-8", ".zip": "application/zip",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
