package torture

import (
	"os"
	"testing"
)

// A process that dies while it writes a record loses only that record.
func TestTornRecordsAreLeftOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, err := openJournal(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := openJournal(dir, "b")
	if err != nil {
		t.Fatal(err)
	}
	a.write(record{Kind: toolStarted, Call: "1"})
	if _, err := a.file.WriteString("\n" + `{"kind":"tool_st`); err != nil {
		t.Fatal(err)
	}
	b.write(record{Kind: toolEnded, Call: "2"})
	list, to, err := readJournal(dir, 0)
	if err != nil || len(list) != 2 || list[0].Call != "1" || list[0].Process != "a" || list[1].Call != "2" || list[1].Process != "b" {
		t.Fatalf("%+v %v", list, err)
	}
	b.write(record{Kind: staged, Call: "3"})
	if list, _, err = readJournal(dir, to); err != nil || len(list) != 1 || list[0].Call != "3" {
		t.Fatalf("from where the last reading ended: %+v %v", list, err)
	}
	if info, err := os.Stat(journalPath(dir)); err != nil || info.Size() <= to {
		t.Fatalf("%v %v", info, err)
	}
}

func TestJournalThatIsNotThereIsEmpty(t *testing.T) {
	t.Parallel()
	if list, to, err := readJournal(t.TempDir(), 0); len(list) != 0 || to != 0 || err != nil {
		t.Fatalf("%v %d %v", list, to, err)
	}
}
