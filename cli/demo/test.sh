#!/bin/sh
# The test of the demo's repository.
got=$(printf 'one two\nthree\n' | sh wc.sh)
if [ "$got" = 3 ]; then
    echo "ok: 3 words"
else
    echo "expected 3 words, got '$got'" >&2
    exit 1
fi
