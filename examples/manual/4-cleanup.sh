#!/bin/sh
# What has ended is removed, with what it left; what can go on stays.
. "$(dirname "$0")/lib.sh"

repository test-repo
cat >orchestra.yaml <<'YAML'
workspace: {repos: {project: {path: ./test-repo, branch_prefix: orchestra/}}}
YAML
cat >quick.dot <<'DOT'
digraph quick {
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    work  [shape=parallelogram, tool_command="date +%N > now"]
    start -> work -> exit
}
DOT
cat >asks.dot <<'DOT'
digraph asks {
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    gate  [shape=hexagon, label="Go on?"]
    work  [shape=parallelogram, tool_command="true"]
    start -> gate
    gate -> work [label="[Y] Yes"]
    gate -> exit [label="[N] No"]
    work -> exit
}
DOT
pleach run quick.dot
pleach run quick.dot
code=0
pleach run asks.dot || code=$?
verify "the third one waits" test $code = 4
waits=$(git -C test-repo for-each-ref --format='%(refname:lstrip=4)' 'refs/heads/orchestra/asks/*')
pleach cleanup --older-than 0 | tee cleaned

verify "branches of what is done are removed" test -z \
    "$(git -C test-repo for-each-ref 'refs/heads/orchestra/quick/*')"
verify "their worktrees are removed" test "$(git -C test-repo worktree list | wc -l)" = 2
verify "the one that waits stays" git -C test-repo rev-parse --verify --quiet "orchestra/asks/$waits"
verify "its record stays" git -C test-repo rev-parse --verify --quiet "refs/pleach/sessions/$waits/main"
verify "what was removed is listed" grep -q 'branch orchestra/quick/' cleaned
verify "unmerged work is kept" test -n "$(git -C test-repo for-each-ref refs/pleach/keep)"
