#!/bin/sh
# The test of every merge: each page greets Ada.
for page in *.page.sh; do
    sh "$page" | grep -q 'Ada' || { echo "$page does not greet Ada" >&2; exit 1; }
done
echo "ok: every page greets Ada"
