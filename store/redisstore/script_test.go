package redisstore

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rights", false, "rewrite the checks of rights in the scripts")

// firstWrite is the line of a script that precedes its first write.
const firstWrite = "-- Nothing fails from here on.\n"

var (
	// functionIn matches a function that a script defines.
	functionIn = regexp.MustCompile(`(?ms)^local function (\w+)\(.*?^end$`)
	// executedIn matches a command that a script has executed if it comes to the lines that follow.
	executedIn = regexp.MustCompile(`(?m)^local [^\n]*= call\('([A-Z]+)'`)
	// firstIn matches the first command of a text.
	firstIn = regexp.MustCompile(`^\s*(?:if )?(?:redis\.)?call\('([A-Z]+)'`)
	// checkIn matches a check of rights.
	checkIn = regexp.MustCompile(`(?ms)^do\n\tlocal may.*?^end\n`)
)

// unchecked returns the text of a script without its check of rights.
func unchecked(text string) string { return checkIn.ReplaceAllString(text, "") }

// checked returns the text of a script, which the text of preceding files begins, with a check before its line
// firstWrite: its user may run the commands that follow. PUBLISH needs no check, since announce allows for it, nor does
// a command that was executed before, or is the first one.
func checked(t *testing.T, preceding, text string) string {
	before, after, found := strings.Cut(text, firstWrite)
	if !found {
		t.Fatalf("the script has no line %q:\n%s", firstWrite, text)
	}
	functions := map[string]string{}
	for _, f := range functionIn.FindAllStringSubmatch(preceding+before, -1) {
		functions[f[1]] = f[0]
	}
	reached := after
	for range functions { // as deep as functions may call each other
		for _, name := range slices.Sorted(maps.Keys(functions)) {
			if regexp.MustCompile(`\b` + name + `[(,]`).MatchString(reached) {
				reached += functions[name]
				delete(functions, name)
			}
		}
	}
	rights, known := []string{}, []string{"PUBLISH"}
	for _, found := range append(executedIn.FindAllStringSubmatch(preceding+before, -1), firstIn.FindAllStringSubmatch(after, 1)...) {
		known = append(known, found[1])
	}
	for _, command := range commandsIn(reached) {
		if !slices.Contains(known, command) {
			rights = append(rights, fmt.Sprintf("not may('%s', key) and '%[1]s'", command))
		}
	}
	if len(rights) == 0 {
		return text
	}
	var lines []string
	for line := range slices.Chunk(rights, 4) {
		lines = append(lines, strings.Join(line, " or "))
	}
	// Without a loop, which would take the server twice the time: this is part of every write.
	return fmt.Sprintf("%sdo\n\tlocal may, key = redis.acl_check_cmd, KEYS[1]\n\tlocal lacks = %s\n\tif lacks then\n"+
		"\t\treturn redis.error_reply('NOPERM ' .. lacks)\n\tend\nend\n%s%s", before, strings.Join(lines, "\n\t\tor "), firstWrite, after)
}

// A script that writes checks before its first write that its user may run the commands that follow: the user may lose
// a right at any moment, and a command that is denied after the first write would leave half of what the script writes.
func TestScriptsCheckRights(t *testing.T) {
	list := []*script{
		scriptAppend, scriptBranch, scriptCall, scriptCalls, scriptCheckpoints, scriptClaim, scriptCountTree, scriptDelete,
		scriptDiscard, scriptDrop, scriptDue, scriptEvents, scriptGather, scriptHidden, scriptImport, scriptInside, scriptLayout, scriptList,
		scriptLook, scriptMemoryDrop, scriptMemoryRead, scriptMemoryScopes, scriptMemoryWrite, scriptNamespaces, scriptOver, scriptOverdue, scriptPrune, scriptPurge, scriptPut, scriptRead, scriptRemoval,
		scriptBlobDrop, scriptBlobList, scriptBlobName, scriptBlobOwners, scriptBlobPut, scriptBlobRead, scriptBlobSweep,
		scriptRecordDelete, scriptRecordGet, scriptRecordList, scriptRecordPut, scriptRelease, scriptRemove, scriptRenew,
		scriptRestore, scriptRights, scriptRuns, scriptSaid, scriptSchema, scriptStage, scriptStep, scriptStop, scriptSwept, scriptTrim, scriptUsageRead, scriptUsageRows,
		scriptUsageSums, scriptUsageWrite, scriptWrite,
	}
	files, err := sources.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".lua")
		library := name == "common" || name == "id" || name == "record" || name == "memory" || name == "blob"
		if !library && !slices.ContainsFunc(list, func(sc *script) bool { return sc.name == name }) {
			t.Errorf("the test does not list the script %s", name)
		}
	}
	for _, sc := range list {
		own := source(sc.name)
		preceding := strings.TrimSuffix(strings.TrimPrefix(sc.text, string(sc.effect)), own)
		want := own
		if sc.effect != reads {
			want = checked(t, unchecked(preceding), unchecked(own))
		}
		if want == own {
			continue
		}
		if !*rewrite {
			t.Errorf("%s.lua does not check the rights to what it runs; go test -run TestScriptsCheckRights -rights makes it this:\n%s", sc.name, want)
		} else if err := os.WriteFile("lua/"+sc.name+".lua", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
