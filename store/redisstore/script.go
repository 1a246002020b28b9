package redisstore

import (
	"embed"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// script is one of the programs that run in the server.
type script struct {
	name   string
	doing  string // for errors
	reads  bool
	text   string
	hash   any // a string
	script *redis.Script
}

// reader and writer return the script in the file of a name, which begins with the file common.lua.
func reader(name, doing string) *script {
	return load(name, doing, true, source("common")+source(name))
}
func writer(name, doing string) *script {
	return load(name, doing, false, source("common")+source(name))
}

// about and aboutReading do so for a script whose first argument is the id of a session. They are for ask.
func about(name, doing string) *script {
	return load(name, doing, false, source("common")+source("id")+source(name))
}
func aboutReading(name, doing string) *script {
	return load(name, doing, true, source("common")+source("id")+source(name))
}

// alone returns the script in the file of a name, which is whole.
func alone(name, doing string) *script { return load(name, doing, false, source(name)) }

func load(name, doing string, reads bool, text string) *script {
	sc := redis.NewScript(text)
	return &script{name: name, doing: doing, reads: reads, text: text, hash: sc.Hash(), script: sc}
}

// keyOfCommand is where a command has the name of its key.
const keyOfCommand = 3

// command returns the command that runs a script with one key.
func (sc *script) command(key string, args ...any) []any {
	return append(append(make([]any, 0, 4+len(args)), "evalsha", sc.hash, 1, key), args...)
}

// source returns a file, which is there: it was embedded.
func source(name string) string {
	raw, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(raw)
}
