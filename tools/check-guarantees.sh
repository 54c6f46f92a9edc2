#!/bin/sh
# Fails unless every test that docs/guarantees.md names is in the folder it names.
set -eu
status=0
for name in $(grep -oE '[a-z0-9/]+/(Test|Example)[A-Za-z]+' docs/guarantees.md | sort -u); do
	folder=${name%/*} test=${name##*/}
	if ! grep -qE "^func $test\(" "$folder"/*_test.go; then
		echo "docs/guarantees.md: $name: no such test" >&2
		status=1
	fi
done
exit $status
