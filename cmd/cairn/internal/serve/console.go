package serve

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/user"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/console"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// Console serves the console over a store, without agents.
type Console struct {
	At     stores.Flags `embed:""`
	Listen string       `placeholder:"ADDRESS" default:"127.0.0.1:0" help:"The address to listen on, of this machine only. Default: 127.0.0.1 and a free port."`
	Admin  bool         `help:"Also let the console stop, rename, archive, delete and rewind sessions, decide calls and settle effects. Default: it changes nothing."`
	As     string       `placeholder:"NAME" help:"The name that decisions carry. Default: your name on this machine."`
}

// Help returns the details for --help.
func (Console) Help() string {
	return `It prints a link that signs one browser in, for 8 hours. The link works once, for 5 minutes.

The console has no agents: it begins and resumes no turn. After a decision, "cairn work" or any process that has the agent
resumes the session.`
}

// linkTime is how long the link of a console may be used.
const linkTime = 5 * time.Minute

// Run serves until the process is terminated.
func (cmd *Console) Run(a *cli.App) error {
	host, _, err := net.SplitHostPort(cmd.Listen)
	if err != nil || !config.Loopback(host) {
		return cli.Misuse("--listen: must be an address of this machine such as 127.0.0.1:8421, not %q", cmd.Listen)
	}
	who := &server.Principal{User: cmd.As, Roles: []server.Role{server.RoleOperator}, Tenant: server.AllTenants}
	if cmd.Admin {
		who.Roles = append(who.Roles, server.RoleAdmin)
	}
	if who.User == "" {
		who.User = login()
	}
	if ids.Check(who.User) != "" || strings.Contains(who.User, ids.Separator) {
		return cli.Misuse("--as: invalid name %q", who.User)
	}
	at, err := cmd.At.Address(a.Env)
	if err != nil {
		return err
	}
	return cmd.At.InspectStore(a, func(ctx context.Context, _ store.Importer, eng *engine.Engine) error {
		return cmd.serve(ctx, a, at, eng, who)
	})
}

// login returns the name of the process's user.
func login() string {
	u, err := user.Current()
	if err != nil || u.Username == "" {
		return "console"
	}
	return filepath.Base(strings.ReplaceAll(u.Username, `\`, "/")) // without a domain
}

// serve answers the requests of browsers until ctx is done.
func (cmd *Console) serve(ctx context.Context, a *cli.App, at *stores.Address, eng *engine.Engine, who *server.Principal) error {
	l, err := net.Listen("tcp", cmd.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	once := &link{secret: rand.Text(), until: time.Now().Add(linkTime), who: who}
	signIns := memstore.New(nil) // the store's own servers must not accept the cookie
	_, port, _ := net.SplitHostPort(l.Addr().String())
	h, err := server.New(eng, &server.Options{Authenticate: once.principal, RequestsPerMinute: -1,
		SignIn: &server.SignIn{Records: signIns.Records(), Cookie: "cairn_console_" + port}})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	web := &http.Server{Handler: local(withConsole(h, &console.Options{Links: true}), ""), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(l) }()
	may := "It changes nothing; --admin lets it."
	if cmd.Admin {
		may = "It may change and delete sessions, as " + who.User + "."
	}
	fmt.Fprintf(a.Stderr, "Console of %s. %s Ctrl-C ends.\nOpen this link within 5 minutes. It works once:\n", at, may)
	fmt.Fprintf(a.Stdout, "http://%s/console/#link=%s\n", l.Addr(), once.secret)
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	h.Drain()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), rest)
	defer cancel()
	if web.Shutdown(closing) != nil {
		web.Close()
	}
	return errors.Join(err, signIns.Close())
}

// link signs one browser in. Its secret is in the fragment of an address, which browsers send to no server.
type link struct {
	secret string
	until  time.Time
	who    *server.Principal
	used   atomic.Bool
}

// principal returns the principal of a request with the secret, once.
func (l *link) principal(r *http.Request) (*server.Principal, error) {
	secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || subtle.ConstantTimeCompare([]byte(secret), []byte(l.secret)) != 1 || time.Now().After(l.until) || l.used.Swap(true) {
		return nil, nil
	}
	return l.who, nil
}
