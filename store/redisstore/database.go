package redisstore

import (
	"context"
	"errors"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/redis/go-redis/v9"
)

// database is the base of the package: the server, the buckets under a prefix, and the execution of scripts. The verbs
// are methods of the Store that embeds it.
type database struct {
	opts    Options
	client  redis.UniversalClient
	buckets []string // prefix of each bucket's keys
	keys    []any    // the same, as arguments
	routes  routes
	user    string // of the server
	// failsOver says that the server may be replaced by another while the store is open: in a cluster, and with
	// Sentinel.
	failsOver bool
	known     backend.Known[storedRow] // rows that commits of this process wrote or read
	closed    chan struct{}

	// expire removes the tree of a root that has expired; it is Store.Remove.
	expire func(ctx context.Context, root string) error

	// intercept, if a test sets it, is called before each script that may write. Its error fails the call.
	intercept func(name string) error
}

// run runs a script on a bucket.
func (d *database) run(ctx context.Context, sc *script, bucket int, args ...any) (reply, error) {
	return d.reply(ctx, sc, sc.command(d.buckets[bucket], args...))
}

// reply runs the command of a script that returns a list or a single text.
func (d *database) reply(ctx context.Context, sc *script, command []any) (reply, error) {
	answer, err := d.answer(ctx, sc, command)
	if err != nil {
		return nil, err
	}
	list, _ := answer.([]any)
	if text, ok := answer.(string); ok {
		list = reply{text}
	}
	if len(list) == 0 {
		return nil, cairn.Errorf(cairn.ErrInternal, "%s: empty response from the server", sc.doing)
	}
	return list, nil
}

// answer runs the command of a script and returns its raw answer, which is a list for most scripts.
func (d *database) answer(ctx context.Context, sc *script, command []any) (any, error) {
	if err := d.check(ctx); err != nil {
		return nil, err
	}
	if d.intercept != nil && sc.effect != reads {
		if err := d.intercept(sc.name); err != nil {
			return nil, fault(sc.doing, err)
		}
	}
	answer, err := d.eval(ctx, sc, command).Result()
	return answer, d.fault(ctx, sc.doing, err)
}

// eval runs the command of a script. It waits up to RetryFor for a server that is not ready, or is being replaced, and
// sends the text of a script that the server does not have. A script that was executed already is recognized. A script that only reads is not run as EVALSHA_RO, which a client may send to a
// replica.
func (d *database) eval(ctx context.Context, sc *script, command []any) *redis.Cmd {
	var deadline time.Time
	for {
		cmd := redis.NewCmd(ctx, command...)
		cmd.SetFirstKeyPos(3)
		err := d.client.Process(ctx, cmd)
		switch {
		case err == nil:
			return cmd
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			command[0], command[1] = "eval", sc.text
			continue
		case !d.waits(err):
			return cmd
		case deadline.IsZero():
			deadline = time.Now().Add(d.opts.RetryFor)
		}
		if time.Now().After(deadline) || !d.pause(ctx) {
			return cmd
		}
	}
}

// runAll runs a listing script on every bucket.
func (d *database) runAll(ctx context.Context, sc *script, args ...any) ([]reply, error) {
	if len(d.buckets) == 1 {
		r, err := d.run(ctx, sc, 0, args...)
		return []reply{r}, err
	}
	if err := d.check(ctx); err != nil {
		return nil, err
	}
	cmds := make([]*redis.Cmd, len(d.buckets))
	d.client.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
		for i, name := range d.buckets {
			cmds[i] = sc.script.EvalSha(ctx, p, []string{name}, args...)
		}
		return nil
	})
	replies := make([]reply, len(cmds))
	for i, cmd := range cmds {
		list, err := cmd.Slice()
		switch {
		case err == nil:
			replies[i] = list
		case redis.HasErrorPrefix(err, "NOSCRIPT"), d.waits(err):
			if replies[i], err = d.run(ctx, sc, i, args...); err != nil {
				return nil, err
			}
		default:
			return nil, d.fault(ctx, sc.doing, err)
		}
	}
	return replies, nil
}

// startPause is the pause between attempts.
const startPause = 50 * time.Millisecond

// waits reports whether a call that failed is to be repeated later.
func (d *database) waits(err error) bool { return notYet(err) || d.failsOver && away(err) }

// notYet reports whether an error means that the server is in a state in which it refuses every command.
func notYet(err error) bool {
	return redis.HasErrorPrefix(err, "LOADING") || redis.HasErrorPrefix(err, "MASTERDOWN") || redis.HasErrorPrefix(err, "CLUSTERDOWN")
}

// pause waits for startPause. It reports whether the call may continue.
func (d *database) pause(ctx context.Context) bool {
	timer := time.NewTimer(startPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-d.closed:
	}
	return false
}

// check returns the error of a call that must not be made: the store is closed or ctx is done.
func (d *database) check(ctx context.Context) error {
	select {
	case <-d.closed:
		return errClosed
	default:
		return ctx.Err()
	}
}

// fault wraps err as the function of that name does. If the store was closed or ctx is done, it returns that instead.
func (d *database) fault(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-d.closed:
		return errClosed
	default:
	}
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	if unpermitted(err) && d.client != nil {
		if err := d.checkRights(ctx, doing); err != nil {
			return err
		}
	}
	return fault(doing, err)
}

// bucketOf returns the bucket of a name, such as a root's id or a namespace.
func (d *database) bucketOf(name string) int {
	if len(d.buckets) == 1 {
		return 0
	}
	return int(crc32.ChecksumIEEE([]byte(name)) % uint32(len(d.buckets)))
}

// bucketOfLog returns the bucket of a log, which is that of its root.
func (d *database) bucketOfLog(log string) int {
	if i := strings.LastIndexByte(log, '@'); i > 0 {
		log = log[:i]
	}
	return d.bucketOf(log)
}

// ask runs a script on the bucket of a session, whose id is the script's first argument. The error is ErrNotFound if
// there is no such session.
func (d *database) ask(ctx context.Context, sc *script, id string, args ...any) (reply, error) {
	command := append(append(make([]any, 0, 5+len(args)), "evalsha", sc.hash, 1, nil, id), args...)
	return d.askCommand(ctx, sc, id, command)
}

// askCommand is ask for a command that is complete but for its key.
func (d *database) askCommand(ctx context.Context, sc *script, id string, command []any) (reply, error) {
	own := d.bucketOf(id)
	bucket, remembered := d.route(id)
	for range 3 {
		command[keyOfCommand] = d.keys[bucket]
		r, err := d.reply(ctx, sc, command)
		if err != nil {
			return nil, err
		}
		switch r.word() {
		case "none":
			if !remembered {
				return nil, driver.NotFound(id)
			}
			d.routes.forget(id) // it was deleted, and may be in another bucket now
			bucket, remembered = own, false
		case "removed":
			return nil, gone(id, r)
		case "over":
			if err := d.look(ctx, r.text(1)); err != nil {
				return nil, err
			}
			return d.askCommand(ctx, sc, id, command)
		case "moved":
			moved, err := strconv.Atoi(r.text(1))
			if err != nil || moved < 0 || moved >= len(d.buckets) {
				return nil, cairn.Errorf(cairn.ErrCorrupt, "session %q: stored bucket %q not found", id, r.text(1))
			}
			d.routes.put(id, moved)
			bucket, remembered = moved, true
		default:
			return r, nil
		}
	}
	return nil, driver.NotFound(id)
}

// look removes the tree of a root if it has expired.
func (d *database) look(ctx context.Context, root string) error {
	err := d.expire(ctx, root)
	if errors.Is(err, cairn.ErrStale) || errors.Is(err, cairn.ErrNotFound) {
		return nil
	}
	return err
}

// remember caches the row that a commit wrote, or that was read for one. The next commit is planned from it in this
// process, so the server, which runs one script at a time, does little more than compare versions and write.
func (d *database) remember(r *storedRow) {
	own := *r
	own.session = backend.CopyRow(r.session) // r.session is the caller's
	d.known.Put(own.session, own)
}

// eventChannel and stopChannel return the names of the channels that the scripts publish to. A prefix contains no
// brace, so stores with different prefixes never share a channel.
func (d *database) eventChannel(log string) string { return d.opts.Prefix + ":{events}:" + log }
func (d *database) stopChannel() string            { return d.opts.Prefix + ":{stops}" }
