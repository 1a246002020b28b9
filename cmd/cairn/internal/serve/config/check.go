package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/server/jwtauth"
)

// minToken is the minimum number of characters of a token.
const minToken = 16

// Scripted is the provider of the scripted model.
const Scripted = "scripted"

var executorName = regexp.MustCompile(`^[!-~]{1,128}$`)

// check reports values that have the right type but are wrong.
func (d *decoder) check(c *Config) {
	d.checkListen(c)
	if u, err := url.Parse(c.URL); c.URL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" || u.User != nil) {
		d.wrong("url", "must be a URL such as https://example.com/agents, not %q", c.URL)
	}
	d.checkAuth(&c.Auth)
	if c.BasePath != "" && (c.BasePath[0] != '/' || c.BasePath == "/" || path.Clean(c.BasePath) != c.BasePath || strings.ContainsAny(c.BasePath, "?#% ")) {
		d.wrong("base_path", "must be a path such as /agents, not %q", c.BasePath)
	}
	switch {
	case c.TLS.Cert != "" && c.TLS.Key == "":
		d.wrong("tls.key", "is required with tls.cert")
	case c.TLS.Cert == "" && c.TLS.Key != "":
		d.wrong("tls.cert", "is required with tls.key")
	}
	d.checkTimes(c)
	if c.Store == "" {
		d.wrong("store", "is empty")
	}
	if c.WorkConcurrency < 1 {
		d.wrong("work_concurrency", "must be positive, not %d", c.WorkConcurrency)
	}
	switch {
	case c.Executor == "":
	case c.Host == "":
		d.wrong("executor", "requires host")
	case !executorName.MatchString(c.Executor):
		d.wrong("executor", "%q must be 1 to 128 visible ASCII characters", c.Executor)
	}
	d.checkAdvance(c)
	for i, origin := range c.CORS.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
			d.wrong(fmt.Sprintf("cors.origins[%d]", i), "must be an origin such as https://app.example.com, not %q", origin)
		}
	}
	for _, limit := range []struct {
		name  string
		value int
	}{{"json_values", c.Limits.JSONValues}, {"queue", c.Limits.Queue}, {"replaced", c.Limits.Replaced}, {"streams_per_user", c.Limits.StreamsPerUser}, {"requests_per_minute", c.Limits.RequestsPerMinute}, {"runs_per_user", c.Limits.RunsPerUser}} {
		if limit.value == 0 || limit.value < -1 {
			d.wrong("limits."+limit.name, "must be positive, or -1 for no limit, not %d", limit.value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		d.checkProvider(name, c.Providers[name])
	}
	d.checkBudgets(c.Budgets)
	d.checkAssistants(c.Assistants)
}

func (d *decoder) checkAdvance(c *Config) {
	a := &c.Advance
	if reflect.ValueOf(*a).IsZero() {
		return
	}
	if c.Host != "" {
		d.wrong("advance", "must not be set with host")
	}
	if len(a.Secret) < host.MinSecret {
		d.wrong("advance.secret", "must have at least %d characters", host.MinSecret)
	}
	for i, secret := range a.EarlierSecrets {
		if len(secret) < host.MinSecret {
			d.wrong(fmt.Sprintf("advance.earlier_secrets[%d]", i), "must have at least %d characters", host.MinSecret)
		}
	}
	if u, err := url.Parse(a.Start); a.Start != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		d.wrong("advance.start", "must be an http or https URL")
	}
	if a.StartToken != "" && a.Start == "" {
		d.wrong("advance.start_token", "requires start")
	}
	if wait := time.Duration(a.Wait); wait > server.MaxAdvanceWait {
		d.wrong("advance.wait", "%s is more than the maximum of %s", wait, server.MaxAdvanceWait)
	}
}

func (d *decoder) checkTimes(c *Config) {
	if c.Metrics != "" {
		if _, port, err := net.SplitHostPort(c.Metrics); err != nil || port == "" {
			d.wrong("metrics", "must be an address such as 127.0.0.1:9464, not %q", c.Metrics)
		}
	}
	if lease := time.Duration(c.Lease); lease > 0 && lease < time.Second {
		d.wrong("lease", "%s is less than the minimum of 1s", lease)
	}
	if age := time.Duration(c.Retention.EventAge); age > 0 && age < engine.MinEventAge {
		d.wrong("retention.event_age", "%s is less than the minimum of %s", age, engine.MinEventAge)
	}
	if c.Retention.Events < 0 {
		d.wrong("retention.events", "%d is negative", c.Retention.Events)
	}
}

func (d *decoder) checkListen(c *Config) {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil || port == "" {
		d.wrong("listen", "must be an address such as 127.0.0.1:8420, not %q", c.Listen)
		return
	}
	if !Loopback(host) && !c.Auth.Given() {
		d.wrong("listen", "%s is reachable from other machines, which requires auth.tokens, auth.jwt or auth.oidc", c.Listen)
	}
}

// Loopback reports whether only its own machine can reach a host.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

func (d *decoder) checkAuth(a *Auth) {
	given := a.Given()
	switch {
	case given && a.AllowUnauthenticated:
		d.wrong("auth.allow_unauthenticated", "must not be set with auth.tokens, auth.jwt or auth.oidc")
	case !given && !a.AllowUnauthenticated:
		d.wrong("auth", "must have tokens, jwt or oidc; set allow_unauthenticated: true to serve this machine without authentication")
	}
	seen := map[string]int{}
	for i := range a.Tokens {
		t, path := &a.Tokens[i], fmt.Sprintf("auth.tokens[%d]", i)
		if before, twice := seen[t.Token]; twice && t.Token != "" {
			d.wrong(path+".token", "duplicate of auth.tokens[%d]", before)
		}
		seen[t.Token] = i
		switch {
		case len(t.Token) < minToken:
			d.wrong(path+".token", "must have at least %d characters; generate one with cairn token", minToken)
		case strings.ContainsFunc(t.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
			d.wrong(path+".token", "must have only visible ASCII characters")
		}
		switch {
		case t.User == "":
			d.wrong(path+".user", "is empty")
		case strings.Contains(t.User, "::"):
			d.wrong(path+".user", "must not contain ::; set tenant")
		}
		if err := cairn.CheckTenant(t.Tenant); t.Tenant != "" && t.Tenant != server.AllTenants && err != nil {
			d.wrong(path+".tenant", "%s, or be %s", strings.TrimPrefix(cairn.AsError(err).Message, "tenant: "), server.AllTenants)
		}
		if len(t.Roles) == 0 {
			t.Roles = []string{"user"}
		}
	}
	d.checkJWT(&a.JWT)
	d.checkOIDC(&a.OIDC)
}

// Given reports whether there are credentials that the server accepts.
func (a *Auth) Given() bool { return len(a.Tokens) > 0 || a.JWT.Given() || a.OIDC.Given() }

// checkJWT checks the settings for an issuer's tokens by building their authenticator.
func (d *decoder) checkJWT(j *JWT) {
	if !j.Given() {
		if j.UserClaim != usual.UserClaim || j.TenantClaim != "" || j.RolesClaim != usual.RolesClaim || len(j.Roles)+len(j.DefaultRoles)+len(j.Algorithms) > 0 {
			d.wrong("auth.jwt", "requires issuer, audience and jwks_url")
		}
		return
	}
	whole := true
	for _, key := range []struct{ name, value string }{{"issuer", j.Issuer}, {"audience", j.Audience}, {"jwks_url", j.JWKSURL}} {
		if key.value == "" {
			whole = false
			d.wrong("auth.jwt."+key.name, "is required: auth.jwt requires issuer, audience and jwks_url")
		}
	}
	_, err := jwtauth.New(j.Options())
	switch e := cairn.AsError(err); {
	case e == nil || !whole:
	case e.Field == "JWKS":
		d.wrong("auth.jwt.jwks_url", "must be an https URL, or an http URL of this machine, not %q", j.JWKSURL)
	case e.Field == "Algorithms":
		d.wrong("auth.jwt.algorithms", "%s", strings.TrimPrefix(e.Message, "Algorithms: "))
	}
}

// callback is the end of the path of a redirect_url.
const callback = "/console/oidc/callback"

// checkOIDC checks the settings of a provider.
func (d *decoder) checkOIDC(o *OIDC) {
	if !o.Given() {
		if !reflect.DeepEqual(*o, usualOIDC) {
			d.wrong("auth.oidc", "requires issuer, client_id and redirect_url")
		}
		return
	}
	for _, key := range []struct{ name, value string }{{"issuer", o.Issuer}, {"client_id", o.ClientID}, {"redirect_url", o.RedirectURL}} {
		if key.value == "" {
			d.wrong("auth.oidc."+key.name, "is required: auth.oidc requires issuer, client_id and redirect_url")
		}
	}
	if o.Issuer != "" && !secured(o.Issuer) {
		d.wrong("auth.oidc.issuer", "must be an https URL, or an http URL of this machine, not %q", o.Issuer)
	}
	if o.RedirectURL != "" && (!secured(o.RedirectURL) || !strings.HasSuffix(o.RedirectURL, callback)) {
		d.wrong("auth.oidc.redirect_url", "must be an https URL, or an http URL of this machine, that ends with %s, not %q", callback, o.RedirectURL)
	}
}

// secured reports whether a text is an https URL, or an http URL of this machine.
func secured(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && u.User == nil && u.Fragment == "" && (u.Scheme == "https" || u.Scheme == "http" && Loopback(u.Hostname()))
}

func (d *decoder) checkProvider(name string, p Provider) {
	path := "providers." + name
	if !slices.Contains(d.providers, name) {
		d.wrong(path, "unknown provider %q: must be one of %s%s", name, strings.Join(d.providers, ", "), meant(name, d.providers))
		return
	}
	if p.BaseURL != "" {
		u, err := url.Parse(p.BaseURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			d.wrong(path+".base_url", "must be an http or https URL")
		}
	}
}
