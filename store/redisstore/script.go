package redisstore

import (
	"embed"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// script is a Lua script that runs in the server.
type script struct {
	name   string
	doing  string // for errors
	reads  bool
	text   string
	hash   any // a string
	script *redis.Script
}

// reader and writer return the script in the file of a name, preceded by common.lua.
func reader(name, doing string) *script {
	return load(name, doing, true, source("common")+source(name))
}
func writer(name, doing string) *script {
	return load(name, doing, false, source("common")+source(name))
}

// about and aboutReading add id.lua, for a script that ask runs: its first argument is the id of a session.
func about(name, doing string) *script {
	return load(name, doing, false, source("common")+source("id")+source(name))
}
func aboutReading(name, doing string) *script {
	return load(name, doing, true, source("common")+source("id")+source(name))
}

// alone returns the script in the file of a name, with nothing before it.
func alone(name, doing string) *script { return load(name, doing, false, source(name)) }

func load(name, doing string, reads bool, text string) *script {
	sc := redis.NewScript(text)
	return &script{name: name, doing: doing, reads: reads, text: text, hash: sc.Hash(), script: sc}
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
