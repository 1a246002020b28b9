package redisstore

import (
	"embed"
	"regexp"
	"slices"

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
	sc := redis.NewScript(string(e) + text)
	return &script{name: name, doing: doing, effect: e, text: string(e) + text, hash: sc.Hash(), script: sc}
}

// commandIn matches a command of a script.
var commandIn = regexp.MustCompile(`\bp?call\('([A-Z]+)'`)

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
