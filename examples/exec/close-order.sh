#!/bin/sh
# Closes the order in the body, {"number":1001}, which comes on standard input. Exit codes: 0 done, 65 a dead letter, any
# other: try again.
number=$(sed -n 's/.*"number":\([0-9]*\).*/\1/p')
[ -n "$number" ] || { echo "the body has no order number" >&2; exit 65; }
echo "order $number is closed, attempt $DELAYER_JOB_ATTEMPT"
