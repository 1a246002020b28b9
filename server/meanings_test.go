package server

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var writeMeanings = flag.Bool("meanings", false, "write meanings.json from the comments in the source")

// TestMeaningsAreTheSources checks that meanings.json matches the comments in the source, and that the OpenAPI
// document describes everything it shows. go test -run TestMeanings -meanings ./server writes the file.
func TestMeaningsAreTheSources(t *testing.T) {
	source := map[string]string{}
	for pkg, dir := range map[string]string{"cairn": "..", "store": "../store", "driver": "../store/driver", "server": ".", "aisdk": "aisdk", "engine": "../engine", "client": "../client", "wire": "../internal/wire"} {
		readMeanings(t, source, pkg, dir)
	}
	// The document asks for the meaning of each type and field that it shows.
	asked := map[string]string{}
	var missing []string
	d := &document{closed: map[string]bool{}}
	d.defs.Prefix, d.defs.Name, d.defs.Enums = "#/", typeName, enums
	d.defs.Doc = func(of reflect.Type, field string) string {
		key := meaningKey(of, field)
		if source[key] == "" && usual(of, field) == "" {
			missing = append(missing, key)
		} else if source[key] != "" {
			asked[key] = source[key]
		}
		return ""
	}
	if _, err := d.defs.Add(reflect.TypeFor[problemBody]()); err != nil {
		t.Fatal(err)
	}
	for _, rt := range routes() {
		if rt.Summary == "" {
			t.Errorf("%s %s has no summary", rt.Method, rt.Path)
		}
		if _, err := d.operation(rt); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(missing)
	if missing = slices.Compact(missing); len(missing) > 0 {
		t.Errorf("without a comment are %d:\n%s", len(missing), strings.Join(missing, "\n"))
	}
	if *writeMeanings {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "\t")
		if err := e.Encode(asked); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("meanings.json", out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	doc, err := openAPI(routes(), true, false)
	if err != nil {
		t.Fatal(err)
	}
	var shown struct {
		Components struct {
			Schemas map[string]struct {
				Description string
				Properties  map[string]struct{ Description string }
			}
		}
	}
	if err := json.Unmarshal(doc, &shown); err != nil {
		t.Fatal(err)
	}
	schemas := shown.Components.Schemas
	for name, s := range schemas {
		if s.Description == "" {
			t.Errorf("the document does not say what %s is", name)
		}
		for field, p := range s.Properties {
			if p.Description == "" {
				t.Errorf("the document does not say what %s.%s means", name, field)
			}
		}
	}
	if one, two := schemas["Run"].Properties["usage"], schemas["Session"].Properties["usage"]; one == two {
		t.Errorf("the usage of runs and of sessions have the same description: %+v", one)
	}
	if !maps.Equal(asked, meanings()) {
		t.Error("meanings.json is not what the comments say: go test -run TestMeanings -meanings ./server")
	}
}

// readMeanings adds the comments of a package's structs and their fields.
func readMeanings(t *testing.T, into map[string]string, pkg, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			g, ok := n.(*ast.GenDecl)
			if !ok {
				return true
			}
			for _, spec := range g.Specs {
				s, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				doc := s.Doc
				if doc == nil {
					doc = g.Doc
				}
				key := pkg + "." + s.Name.Name
				into[key] = plainWords(doc.Text())
				fields, ok := s.Type.(*ast.StructType)
				if !ok {
					continue
				}
				before, line := "", 0
				for _, f := range fields.Fields.List {
					text := f.Doc.Text()
					if text == "" {
						text = f.Comment.Text()
					}
					if begins := set.Position(f.Pos()).Line; text == "" && begins == line+1 { // one comment for several fields
						text = before
					}
					before, line = text, set.Position(f.End()).Line
					for _, name := range f.Names {
						own := f.Doc != nil || f.Comment != nil || regexp.MustCompile(`\b`+name.Name+`\b`).MatchString(text)
						if own {
							into[key+"."+name.Name] = plainWords(text)
						}
					}
				}
			}
			return true
		})
	}
}

var (
	docLink = regexp.MustCompile(`\[\*?([\w.]+)\]`)
	spaces  = regexp.MustCompile(`\s+`)
)

// plainWords returns a comment on one line, without the marks of links.
func plainWords(text string) string {
	return strings.TrimSpace(spaces.ReplaceAllString(docLink.ReplaceAllString(text, "$1"), " "))
}
