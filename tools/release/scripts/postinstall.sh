#!/bin/sh
# Runs when the package's files are in place, after an installation and after an upgrade.
set -e

if command -v systemd-sysusers >/dev/null 2>&1 && [ -e /usr/lib/sysusers.d/delayer.conf ]; then
	systemd-sysusers delayer.conf
elif ! grep -q '^delayer:' /etc/passwd; then
	if command -v useradd >/dev/null 2>&1; then
		useradd --system --user-group --no-create-home --home-dir / --shell /usr/sbin/nologin --comment Delayer delayer
	else
		addgroup -S delayer
		adduser -S -D -H -h / -s /sbin/nologin -G delayer -g Delayer delayer
	fi
fi

# The configuration may hold a password. Once somebody has given it to another group, it stays there.
if [ "$(stat -c %g /etc/delayer/delayer.conf)" = 0 ]; then
	chgrp delayer /etc/delayer/delayer.conf
fi

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart delayer.service
fi
