package redisstore

import (
	"embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// effect is what a script does to the server's memory. The server refuses a script as a whole, before it begins, if it
// is full or does not accept writes and the script's effect does not allow that.
type effect string

const (
	// reads is the effect of a script that only reads. It runs on every server.
	reads effect = "#!lua flags=no-writes\n"
	// frees is the effect of a script that removes keys, or replaces values by others of about the same size. It also
	// runs on a full server: otherwise a full server could not be emptied, nor a run on it ended.
	frees effect = "#!lua flags=allow-oom\n"
	// grows is the effect of every other script.
	grows effect = "#!lua\n"
)

// script is a Lua script that runs in the server.
type script struct {
	name   string
	doing  string // for errors
	effect effect
	text   string
	hash   any // a string
	script *redis.Script
}

// keyed returns the script in the file of a name, preceded by common.lua.
func keyed(name, doing string, e effect) *script {
	return load(name, doing, e, source("common")+source(name))
}

// about is keyed with id.lua, for a script that ask runs: its first argument is the id of a session.
func about(name, doing string, e effect) *script {
	return load(name, doing, e, source("common")+source("id")+source(name))
}

// alone returns the script in the file of a name, with nothing before it.
func alone(name, doing string, e effect) *script { return load(name, doing, e, source(name)) }

func load(name, doing string, e effect, text string) *script {
	if e != reads {
		text = checked(name, text)
	}
	sc := redis.NewScript(string(e) + text)
	return &script{name: name, doing: doing, effect: e, text: string(e) + text, hash: sc.Hash(), script: sc}
}

// firstWrite is the line of a script that precedes its first write.
const firstWrite = "-- Nothing fails from here on.\n"

var (
	// commandIn matches a command of a script.
	commandIn = regexp.MustCompile(`\bp?call\('([A-Z]+)'`)
	// functionIn matches a function that a script defines.
	functionIn = regexp.MustCompile(`(?ms)^local function (\w+)\(.*?^end$`)
	// executedIn matches a command that a script has executed if it comes to the lines that follow.
	executedIn = regexp.MustCompile(`(?m)^local [^\n]*= call\('([A-Z]+)'`)
	// firstIn matches the first command of a text.
	firstIn = regexp.MustCompile(`^(?:if )?call\('([A-Z]+)'`)
)

// checked has a script check, in place of the line firstWrite, that its user may run the commands that follow. The user
// may lose a right at any moment, and a command that is denied after the first write would leave half of what the
// script writes. PUBLISH needs no check, since announce allows for it, nor does a command that was executed before, or
// is the first one. A check takes a quarter of a microsecond.
func checked(name, text string) string {
	before, after, found := strings.Cut(text, firstWrite)
	if !found {
		panic("script " + name + " has no line " + firstWrite)
	}
	functions := map[string]string{}
	for _, f := range functionIn.FindAllStringSubmatch(before, -1) {
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
	for _, found := range append(executedIn.FindAllStringSubmatch(before, -1), firstIn.FindAllStringSubmatch(after, 1)...) {
		known = append(known, found[1])
	}
	for _, command := range commandsIn(reached) {
		if !slices.Contains(known, command) {
			rights = append(rights, fmt.Sprintf("may('%s', KEYS[1])", command))
		}
	}
	if len(rights) == 0 {
		return text
	}
	return fmt.Sprintf("%sdo\nlocal may = redis.acl_check_cmd\nif not (%s) then\nreturn redis.error_reply('%s')\nend\nend\n%s",
		before, strings.Join(rights, " and "), denied, after)
}

// denied is the error of a script whose user may not run one of its commands.
const denied = "NOPERM a command of the script"

// commandsIn returns the commands in the text of scripts, sorted.
func commandsIn(text string) []string {
	var list []string
	for _, match := range commandIn.FindAllStringSubmatch(text, -1) {
		list = append(list, match[1])
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// keyOfCommand is the index of the key in a command.
const keyOfCommand = 3

// command returns the command that runs a script with one key.
func (sc *script) command(key string, args ...any) []any {
	return append(append(make([]any, 0, 4+len(args)), "evalsha", sc.hash, 1, key), args...)
}

// source returns an embedded file, which must exist.
func source(name string) string {
	raw, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(raw)
}
