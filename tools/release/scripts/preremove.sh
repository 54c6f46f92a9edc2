#!/bin/sh
# Runs before the package's files are removed. $1 is Debian's action or, of RPM, how many versions will be left.
set -e

case "$1" in
upgrade | failed-upgrade | 1) exit 0 ;; # another version comes, and restarts the service
esac

if [ -d /run/systemd/system ]; then
	systemctl disable --now delayer.service
elif command -v rc-service >/dev/null 2>&1; then
	rc-service --ifstarted delayer stop
	rc-update --all del delayer || true
fi
