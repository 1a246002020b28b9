package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/redis/go-redis/v9"
)

// clientCommands are the commands that the client sends itself, beside those of the scripts. A space precedes a
// subcommand.
var clientCommands = []string{"EVAL", "EVALSHA", "INFO", "PING", "SELECT", "SUBSCRIBE", "UNSUBSCRIBE", "TIME"}

// clusterCommands are further ones that it sends to a cluster.
var clusterCommands = []string{"ASKING", "CLUSTER SLOTS", "COMMAND"}

// scriptCommands returns the commands of all scripts, sorted.
var scriptCommands = sync.OnceValue(func() []string {
	files, err := sources.ReadDir("lua")
	if err != nil {
		panic(err)
	}
	var all strings.Builder
	for _, file := range files {
		all.WriteString(source(strings.TrimSuffix(file.Name(), ".lua")))
	}
	return commandsIn(all.String())
})

// granted returns the rules of ACL SETUSER that give a user every right that the store needs under a prefix.
func granted(prefix string) []string {
	rules := []string{keyRule(prefix), channelRule(prefix)}
	commands := slices.Concat(scriptCommands(), clientCommands, clusterCommands)
	slices.Sort(commands)
	for _, command := range slices.Compact(commands) {
		rules = append(rules, commandRule(command))
	}
	return rules
}

func keyRule(prefix string) string     { return "~" + prefix + ":*" }
func channelRule(prefix string) string { return "&" + prefix + ":*" }
func commandRule(command string) string {
	return "+" + strings.ReplaceAll(strings.ToLower(command), " ", "|")
}

// scriptRights needs no key: its user may have no right to any.
var scriptRights = alone("rights", "check the user's rights", reads)

// right is something that the user may do, and the rule that allows it.
type right struct{ what, rule string }

// commands returns the commands that the user must have the right to.
func (d *database) commands() []string {
	list := slices.Concat(scriptCommands(), clientCommands)
	if d.cluster() {
		list = append(list, clusterCommands...)
	}
	return list
}

// lacking returns the rights to commands, and to the keys and channels that these use, that the user lacks on a server.
func (d *database) lacking(ctx context.Context, server redis.Scripter, commands []string) (list []right, err error) {
	args := []any{d.opts.Prefix + ":", d.eventChannel(""), d.stopChannel()}
	for _, command := range commands {
		args = append(args, command)
	}
	found, err := server.Eval(ctx, scriptRights.text, nil, args...).StringSlice()
	for _, command := range []string{"eval", "evalsha"} {
		if unpermitted(err) && strings.Contains(err.Error(), "'"+command+"'") {
			return []right{{"run EVAL and EVALSHA", "+eval +evalsha"}}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	for _, what := range found {
		switch what {
		case "keys":
			list = append(list, right{"read and write the keys " + d.opts.Prefix + ":*", keyRule(d.opts.Prefix)})
		case "channels":
			list = append(list, right{"use the channels " + d.opts.Prefix + ":*", channelRule(d.opts.Prefix)})
		default:
			list = append(list, right{"run " + what, commandRule(what)})
		}
	}
	return list, nil
}

// forbidden returns the error of a user who lacks rights.
func (d *database) forbidden(doing string, list []right) error {
	var what, rules []string
	for _, r := range list {
		what, rules = append(what, r.what), append(rules, r.rule)
	}
	return cairn.Errorf(cairn.ErrUnavailable, "%s: Redis user %q lacks the right to %s; grant it with ACL SETUSER %s %s",
		doing, d.user, strings.Join(what, ", to "), d.user, strings.Join(rules, " "))
}

// lacks returns the rights to commands that the user lacks on any server. The error is that of a server that cannot be
// asked.
func (d *database) lacks(ctx context.Context, commands []string) (list []right, err error) {
	var mu sync.Mutex
	err = d.everyServer(ctx, func(ctx context.Context, server *redis.Client) error {
		lacks, err := d.lacking(ctx, server, commands)
		mu.Lock()
		defer mu.Unlock()
		for _, r := range lacks {
			if !slices.Contains(list, r) {
				list = append(list, r)
			}
		}
		return err
	})
	return list, err
}

// checkRights returns an error if the user lacks a right on one of the servers that can be reached.
func (d *database) checkRights(ctx context.Context, doing string) error {
	if list, _ := d.lacks(ctx, d.commands()); len(list) > 0 {
		return d.forbidden(doing, list)
	}
	return nil
}

// unpermitted reports whether an error means that the user lacks a right. Scripts get other texts than clients, which
// depend on the server's version.
func unpermitted(err error) bool {
	return err != nil && (redis.HasErrorPrefix(err, "NOPERM") || strings.Contains(err.Error(), "The user executing the script can't") ||
		strings.Contains(err.Error(), "ACL failure in script"))
}

// cluster reports whether the server is a cluster.
func (d *database) cluster() bool {
	_, yes := d.client.(*redis.ClusterClient)
	return yes
}

// everyServer calls do for the server, or for each primary of a cluster concurrently. It returns the first error.
func (d *database) everyServer(ctx context.Context, do func(context.Context, *redis.Client) error) error {
	switch c := d.client.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, do)
	case *redis.Client:
		return do(ctx, c)
	}
	return fmt.Errorf("unknown client %T", d.client)
}
