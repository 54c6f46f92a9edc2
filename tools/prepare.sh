#!/bin/sh
# Makes sure that the tests' tools are there: redis-server; with the word race, a C compiler for the race detector;
# with the word browser, Chromium, promtool, PHP and npm, and on Linux systemd-analyze, logrotate and rpm. Installs
# them where it may, else says how.
set -eu

missing=
command -v redis-server >/dev/null || missing="$missing redis-server"
if [ "${1-}" = race ]; then
	command -v "$(go env CC)" >/dev/null || missing="$missing gcc libc6-dev"
fi
if [ "${1-}" = browser ]; then
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
		missing="$missing chromium"
	command -v promtool >/dev/null || missing="$missing prometheus"
	command -v php >/dev/null || missing="$missing php-cli"
	if [ "$(uname)" = Linux ]; then
		command -v systemd-analyze >/dev/null || missing="$missing systemd"
		PATH="$PATH:/usr/sbin" command -v logrotate >/dev/null || missing="$missing logrotate"
		command -v rpm >/dev/null || missing="$missing rpm"
	fi
	command -v npm >/dev/null || missing="$missing nodejs npm"
fi
[ -n "$missing" ] || exit 0

say_how() {
	echo "Missing:$missing. Install with one of:" >&2
	echo "  Debian, Ubuntu:  sudo apt-get install$missing" >&2
	echo "  macOS:           brew install redis prometheus php node; brew install --cask chromium; xcode-select --install" >&2
	exit 1
}

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

echo "Installing:$missing"
if command -v apt-get >/dev/null; then
	as_root true 2>/dev/null || say_how
	# The packages must not start servers of their own.
	export DEBIAN_FRONTEND=noninteractive
	as_root apt-get update -qq
	# shellcheck disable=SC2086
	as_root env RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $missing >/dev/null
elif command -v brew >/dev/null && [ "$missing" = " redis-server" ]; then
	brew install redis
else
	say_how
fi
command -v redis-server >/dev/null || say_how
