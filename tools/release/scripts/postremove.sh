#!/bin/sh
# Runs after the package's files were removed. The user delayer stays, for files that may belong to it.
set -e

if [ "$1" = purge ]; then
	rm -rf /var/log/delayer
fi

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
