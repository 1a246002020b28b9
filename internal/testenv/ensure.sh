#!/bin/sh
# Makes sure that the programs the tests need are there: a line per requirement at the end of this file. What is missing
# is installed; what cannot be installed is an error, so that no test ever has to be skipped.
set -eu

# require WHAT PROBE PACKAGE...: runs PROBE; if it fails, installs the Debian packages and runs it again.
require() {
	what=$1 probe=$2
	shift 2
	if "$probe"; then return; fi
	echo "testenv: $what: missing, installing $*" >&2
	if install "$@" && "$probe"; then return; fi
	echo "testenv: $what: missing; please install it (on Debian: apt-get install $*)" >&2
	exit 1
}

install() {
	if [ "$(id -u)" = 0 ]; then as_root=env; else as_root="sudo -n env"; fi
	# In run level 1 no package starts a service: the tests start servers of their own.
	$as_root apt-get -qq update &&
		$as_root DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq -y install --no-install-recommends "$@"
} </dev/null >&2

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

require "a C compiler, for the race detector" c_compiler gcc libc6-dev
require "a PostgreSQL server" postgres postgresql
require "a Redis server" redis_server redis-server

# A Temporal server comes as a Go module: it is built once, into a directory that is kept. Package testenv knows it, too.
temporal=${XDG_CACHE_HOME:-$HOME/.cache}/cairn/temporal-1.5.1
if [ ! -x "$temporal/temporal" ]; then
	echo "testenv: a Temporal server: missing, building it, which takes some minutes" >&2
	(cd / && GOBIN=$temporal go install -ldflags='-s -w' github.com/temporalio/cli/cmd/temporal@v1.5.1)
fi
