#!/usr/bin/env bash
# engines.sh DIR [ENGINE…] unpacks servers other than the system's redis-server into DIR, so that tests run on them:
#
#   PATH=DIR/valkey9:$PATH go test ./internal/store
#
# The engines are in the table below; without a name all of them are made. Each DIR/ENGINE has redis-server, redis-cli and
# redis-sentinel. They come from Debian's packages, whose signatures apt checks, and run on the C library of their own suite. Nothing
# is installed, and no root is needed. What is already there is kept.
set -euo pipefail

# The packages, pinned. A mirror drops a version when the next one comes: then the suite's newest is taken, with a warning.
#       engine   suite   package        version
engines=(
	"redis8  trixie  redis-server   5:8.0.2-3+deb13u3"
	"valkey8 trixie  valkey-server  8.1.1+dfsg1-3+deb13u3"
	"valkey9 sid     valkey-server  9.1.2-1"
)
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

fail() {
	echo "engines.sh: $*" >&2
	exit 1
}

[ $# -ge 1 ] || fail "usage: engines.sh DIR [ENGINE…], with the engines $(printf '%s\n' "${engines[@]}" | cut -d' ' -f1 | xargs)"
command -v apt-get >/dev/null && command -v dpkg >/dev/null || fail "it unpacks Debian's packages, which takes apt-get and dpkg"
[ "$(dpkg --print-architecture)" = amd64 ] || fail "it is written for amd64, and this machine is $(dpkg --print-architecture)"
[ -e "$keyring" ] || fail "$keyring is missing: install debian-archive-keyring"
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift
trap 'rm -rf "$dir/.apt" "$dir"/.new-*' EXIT

# apt SUITE COMMAND…: apt-get as if only that suite existed, and nothing were installed.
apt() {
	local at=$dir/.apt/$1
	shift
	apt-get -qq -o Dir::Etc::sourcelist="$at/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
		-o Dir::State="$at" -o Dir::State::status=/dev/null -o Dir::Cache="$at" -o Debug::NoLocking=true \
		-o APT::Install-Recommends=false -o Acquire::Languages=none -o APT::Sandbox::User="$(id -un)" "$@"
}

# update SUITE reads the suite's list of packages, once.
update() {
	local at=$dir/.apt/$1
	[ ! -d "$at" ] || return 0
	mkdir -p "$at"/{lists,archives}/partial
	echo "deb [signed-by=$keyring] $mirror $1 main" >"$at/sources.list"
	apt "$1" -o APT::Update::Error-Mode=any update || fail "can't read Debian's suite $1 at $mirror"
}

# make_engine NAME SUITE PACKAGE VERSION
make_engine() {
	local name=$1 suite=$2 package=$3 version=$4
	[ "$(cat "$dir/$name/pinned" 2>/dev/null)" != "$version" ] || return 0
	update "$suite"
	apt "$suite" clean
	if ! apt "$suite" -y --download-only install "$package=$version" 2>/dev/null; then
		echo "engines.sh: warning: Debian $suite no longer has $package $version; taking its newest. Run all suites on it, then change the table." >&2
		apt "$suite" -y --download-only install "$package" || fail "can't download $package of Debian $suite"
	fi
	local new=$dir/.new-$name root=$dir/$name/root kind=${package%-server} tool program file
	rm -rf "$new" "${dir:?}/$name"
	mkdir -p "$new/root"
	for file in "$dir/.apt/$suite/archives"/*.deb; do dpkg-deb -x "$file" "$new/root"; done
	local lib=$root/usr/lib/x86_64-linux-gnu
	for tool in server sentinel cli; do
		program=$kind-$tool
		[ "$tool" != sentinel ] || program=$kind-server # it is one program, which goes by its name
		printf '#!/bin/sh\nexec %s/ld-linux-x86-64.so.2 --argv0 %s --library-path %s %s/usr/bin/%s "$@"\n' \
			"$lib" "$kind-$tool" "$lib" "$root" "$program" >"$new/redis-$tool"
		chmod +x "$new/redis-$tool"
	done
	echo "$version" >"$new/pinned"
	mv "$new" "$dir/$name"
}

wanted=" ${*:-$(printf '%s\n' "${engines[@]}" | cut -d' ' -f1 | xargs)} "
for line in "${engines[@]}"; do
	read -r name suite package version <<<"$line"
	case $wanted in *" $name "*) ;; *) continue ;; esac
	wanted=${wanted/ $name / }
	make_engine "$name" "$suite" "$package" "$version"
	echo "$name: $("$dir/$name/redis-server" --version)"
done
[ -z "${wanted// /}" ] || fail "no such engine: ${wanted# }"
