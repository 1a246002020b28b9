package skill

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParse(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", MaxDescription+1)
	for name, test := range map[string]struct {
		text     string
		want     Info
		body     string
		warnings []string
		err      string
	}{
		"complete": {
			"---\nname: pdf\ndescription: Reads PDF files.\nlicense: MIT\ncompatibility: needs poppler\nmetadata:\n  author: ann\n  version: \"1.0\"\nallowed-tools: Bash(git add:*) Read\n---\n\n# PDF\n\nRead it.\n",
			Info{Name: "pdf", Description: "Reads PDF files.", License: "MIT", Compatibility: "needs poppler",
				Metadata: map[string]string{"author": "ann", "version": "1.0"}, AllowedTools: []string{"Bash(git add:*)", "Read"}},
			"# PDF\n\nRead it.", nil, "",
		},
		"line ends of Windows and a mark": {"\ufeff---\r\nname: pdf\r\ndescription: a\r\n---\r\nb\r\n", Info{Name: "pdf", Description: "a"}, "b", nil, ""},
		"a description of several lines":  {"---\nname: pdf\ndescription: >\n  a\n  b\n---\nc", Info{Name: "pdf", Description: "a b"}, "c", nil, ""},
		"an unquoted colon": {"---\nname: pdf\ndescription: Use it: for PDF.\n---\nb", Info{Name: "pdf", Description: "Use it: for PDF."}, "b",
			[]string{"front matter: a value with a colon must be in quotes"}, ""},
		"no name":              {"---\ndescription: a\n---\nb", Info{Name: "pdf", Description: "a"}, "b", []string{"name: is missing; using the folder's name"}, ""},
		"another name":         {"---\nname: docx\ndescription: a\n---\nb", Info{Name: "docx", Description: "a"}, "b", []string{`name: "docx" differs from the folder "pdf"`}, ""},
		"a list of tools":      {"---\nname: pdf\ndescription: a\nallowed-tools: [Read, Write]\n---\nb", Info{Name: "pdf", Description: "a", AllowedTools: []string{"Read", "Write"}}, "b", []string{"allowed-tools: must be a string with patterns between spaces"}, ""},
		"a number":             {"---\nname: pdf\ndescription: 7\n---\nb", Info{Name: "pdf", Description: "7"}, "b", []string{"description: must be a string"}, ""},
		"an unknown field":     {"---\nname: pdf\ndescription: a\nmodel: x\n---\nb", Info{Name: "pdf", Description: "a"}, "b", []string{"model: unknown field"}, ""},
		"no instructions":      {"---\nname: pdf\ndescription: a\n---", Info{Name: "pdf", Description: "a"}, "", []string{"has no instructions"}, ""},
		"a long description":   {"---\nname: pdf\ndescription: " + long + "\n---\nb", Info{Name: "pdf", Description: long[:2*MaxDescription]}, "b", []string{"description: longer than 1024 characters"}, ""},
		"no description":       {"---\nname: pdf\n---\nb", Info{}, "", nil, "SKILL.md: description: is missing"},
		"no front matter":      {"# PDF", Info{}, "", nil, "SKILL.md: must begin with front matter between two lines of ---"},
		"an open front matter": {"---\nname: pdf\n", Info{}, "", nil, "SKILL.md: must begin with front matter between two lines of ---"},
		"not YAML":             {"---\n{\n---\n", Info{}, "", nil, "SKILL.md: front matter: "},
		"not UTF-8":            {"---\nname: pdf\ndescription: \xff\n---\nb", Info{}, "", nil, "SKILL.md: not UTF-8"},
	} {
		s, err := Parse("pdf", []byte(test.text))
		if err != nil || test.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), test.err) || test.err == "" {
				t.Errorf("%s: error %v, want %q", name, err, test.err)
			}
			continue
		}
		warnings := s.Warnings
		s.Warnings = nil
		if !reflect.DeepEqual(s.Info, test.want) || s.Body != test.body || !reflect.DeepEqual(warnings, test.warnings) {
			t.Errorf("%s: %+v, warnings %q, want %+v, %q, %q", name, s, warnings, test.want, test.body, test.warnings)
		}
	}
	if _, err := Parse("", []byte("---\nname: P D F\ndescription: a\n---\nb")); err == nil || !strings.Contains(err.Error(), `got "P D F"`) {
		t.Errorf("a name with spaces, without a folder: %v", err)
	}
	if s, err := Parse("pdf", []byte("---\nname: P D F\ndescription: a\n---\nb")); err != nil || s.Name != "pdf" || len(s.Warnings) != 2 {
		t.Errorf("a name with spaces: %+v, %v", s, err)
	}
}

// A SKILL.md that can be read has a name and a description that the catalogue can list.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"---\nname: pdf\ndescription: a: b\n---\nc", "---\n---\n", "---\nname: [a]\ndescription: {b: c}\nmetadata: 7\nallowed-tools: a(b c) d\n---"} {
		f.Add("pdf", text)
	}
	f.Fuzz(func(t *testing.T, dir, text string) {
		s, err := Parse(dir, []byte(text))
		if err != nil {
			return
		}
		if problem := s.problem(); problem != "" {
			t.Errorf("%q was read, though %s", text, problem)
		}
		if strings.ContainsAny(s.Description, "\n\r") || !utf8.ValidString(s.Description) {
			t.Errorf("%q has the description %q", text, s.Description)
		}
	})
}
