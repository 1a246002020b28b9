package backend

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestScriptsAreNumberedWithoutGaps(t *testing.T) {
	files := fstest.MapFS{"sql/0002_more.sql": {Data: []byte("two")}, "sql/0001_first.sql": {Data: []byte("one")}}
	if list, err := Scripts(files, "sql"); err != nil || !slices.Equal(list, []string{"one", "two"}) {
		t.Errorf("%q, %v", list, err)
	}
	files["sql/0004_last.sql"] = &fstest.MapFile{Data: []byte("four")}
	if list, err := Scripts(files, "sql"); err == nil {
		t.Errorf("%q with a gap", list)
	}
}
