#!/bin/sh
# Makes sure that the programs the tests need are there: a line per requirement below. All are looked for first, so that
# what is missing is said at once, and what cannot be installed is an error at once: no test is ever skipped.
set -eu

c_compiler() {
	echo '#include <stdlib.h>' | $(go env CC) -fsyntax-only -xc - 2>/dev/null
}

postgres() {
	for postgres in /usr/lib/postgresql/*/bin/postgres; do
		if [ -x "$postgres" ]; then return; fi
	done
	return 1
}

redis_server() {
	command -v redis-server >/dev/null
}

nginx_proxy() {
	command -v nginx >/dev/null || [ -x /usr/sbin/nginx ]
}

# A Temporal server comes as a Go module: it is built once, into a directory that package testenv knows as well.
temporal=${XDG_CACHE_HOME:-$HOME/.cache}/cairn/temporal-1.5.1
temporal_server() {
	[ -x "$temporal/temporal" ]
}

# Sandboxes of workspaces: Bubblewrap, and containers of a static BusyBox by podman.
bubblewrap_sandbox() {
	command -v bwrap >/dev/null
}

# Commands in a sandbox see the programs in /usr only.
python_interpreter() {
	[ -x /usr/bin/python3 ] || [ -x /usr/local/bin/python3 ]
}

podman_containers() {
	command -v podman >/dev/null && command -v runc >/dev/null
}

busybox_programs() {
	command -v busybox >/dev/null
}

node_js() {
	command -v node >/dev/null && command -v npm >/dev/null
}

chromium_browser() {
	command -v chromium >/dev/null || command -v google-chrome >/dev/null
}

# The clients that servers are tested with come from npm, into a directory that package testenv knows as well: it is named
# after what is locked.
here=$(cd "$(dirname "$0")" && pwd)
clients=${XDG_CACHE_HOME:-$HOME/.cache}/cairn/clients-$(sha256sum "$here/clients/package-lock.json" | cut -c1-12)
npm_clients() {
	[ -e "$clients/installed" ]
}

# The runtime of Cloudflare's workers, likewise.
workerd=${XDG_CACHE_HOME:-$HOME/.cache}/cairn/workerd-$(sha256sum "$here/workerd/package-lock.json" | cut -c1-12)
workerd_runtime() {
	[ -e "$workerd/installed" ]
}

# promtool checks rules of Prometheus. It is unpacked alone, into a directory that package testenv knows as well, since its
# package brings a server that would be started.
promtool=${XDG_CACHE_HOME:-$HOME/.cache}/cairn/promtool
prometheus_tool() {
	command -v promtool >/dev/null || [ -x "$promtool/promtool" ]
}

missing= packages= installing=

# require PROBE WHAT PACKAGE...: runs PROBE; if it fails, the Debian packages are to be installed.
require() {
	probe=$1 what=$2
	shift 2
	if "$probe"; then return; fi
	missing="$missing $probe" packages="$packages $*"
	echo "testenv: $what: missing, installing $*" >&2
}

require c_compiler "a C compiler, for the race detector" gcc libc6-dev
require postgres "a PostgreSQL server" postgresql
require redis_server "a Redis server" redis-server
require nginx_proxy "nginx, as a proxy in front of servers" nginx
require bubblewrap_sandbox "Bubblewrap, for sandboxes" bubblewrap
require python_interpreter "a Python interpreter, for code in sandboxes" python3-minimal
require podman_containers "podman, for containers" podman runc
require busybox_programs "a static BusyBox, for containers" busybox-static
require node_js "Node.js with npm, for the clients of the server" nodejs npm
require chromium_browser "a Chromium, for pages with the clients of the server" chromium
if ! npm_clients; then
	installing="$installing clients"
	echo "testenv: the clients of the server: missing, installing them by npm" >&2
fi
if ! workerd_runtime; then
	installing="$installing workerd"
	echo "testenv: the runtime of Cloudflare's workers: missing, installing it by npm" >&2
fi
if ! temporal_server; then
	installing="$installing temporal"
	echo "testenv: a Temporal server: missing, building it, which takes some minutes" >&2
fi
if ! prometheus_tool; then
	installing="$installing promtool"
	echo "testenv: promtool: missing, unpacking it from the package prometheus" >&2
fi

# refuse WHY: ends with what there is to do.
refuse() {
	echo "testenv: $1: please install it (on Debian: apt-get install$packages)" >&2
	exit 1
}

as_root=env
if [ "$(id -u)" != 0 ]; then as_root="sudo -n env"; fi
if [ -n "$packages" ]; then
	if ! $as_root true 2>/dev/null; then refuse "there is neither root nor sudo without a password"; fi
	if ! command -v apt-get >/dev/null; then refuse "there is no apt-get"; fi
	{
		# In run level 1 no package starts a service: the tests start servers of their own.
		$as_root apt-get -qq update &&
			$as_root DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq -y install --no-install-recommends $packages
	} </dev/null >&2 || refuse "apt-get failed"
	for probe in $missing; do
		if ! "$probe"; then refuse "$probe is still missing"; fi
	done
fi

for what in $installing; do
	case $what in
	clients)
		rm -rf "$clients" && mkdir -p "$clients" && cp "$here"/clients/*.json "$clients"
		(cd "$clients" && npm ci --no-audit --no-fund >&2) && touch "$clients/installed"
		;;
	workerd)
		rm -rf "$workerd" && mkdir -p "$workerd" && cp "$here"/workerd/*.json "$workerd"
		(cd "$workerd" && npm ci --no-audit --no-fund >&2) && touch "$workerd/installed"
		;;
	temporal)
		(cd / && GOBIN=$temporal go install -ldflags='-s -w' github.com/temporalio/cli/cmd/temporal@v1.5.1)
		;;
	promtool)
		unpacked=$(mktemp -d)
		{
			cd "$unpacked" && { apt-get -qq download prometheus || { $as_root apt-get -qq update && apt-get -qq download prometheus; }; } &&
				dpkg -x prometheus_*.deb . && mkdir -p "$promtool" && mv usr/bin/promtool "$promtool"
		} </dev/null >&2 || packages=" prometheus" refuse "promtool cannot be unpacked"
		cd / && rm -rf "$unpacked"
		;;
	esac
done
