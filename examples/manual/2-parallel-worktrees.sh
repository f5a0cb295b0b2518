#!/bin/sh
# Agents that write at once have a worktree each, which are merged at the fan-in.
. "$(dirname "$0")/lib.sh"

repository test-repo
cat >orchestra.yaml <<'YAML'
workspace: {repos: {project: {path: ./test-repo, branch_prefix: orchestra/}}}
worktrees: {base: ./test-repo/.orchestra/worktrees}
agent: builtin
providers: {script: {file: script.yaml}}
YAML
cat >test-parallel-git.dot <<'DOT'
digraph test_parallel_git {
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    fork  [shape=component]
    join  [shape=tripleoctagon]
    code  [prompt="Write the program"]
    tests [prompt="Write a test"]
    look  [shape=parallelogram, tool_command="cd .. && ls -d */"]
    start -> fork
    fork -> code -> join
    fork -> tests -> join
    join -> look -> exit
}
DOT
pleach run test-parallel-git.dot
sid=$(newest test-repo)
branch=orchestra/test-parallel-git/$sid
work=test-repo/.orchestra/worktrees/$sid

verify "the worktrees lie below .orchestra/worktrees" test -d "$work/main"
verify "those of the branches are gone after the merge" test ! -d "$work/code"
verify "the session branch has the commits of one agent" sh -c \
    "git -C test-repo log --format=%an $branch | grep -q '^code '"
verify "and of the other" sh -c "git -C test-repo log --format=%an $branch | grep -q '^tests '"
verify "both changes are in the final state" git -C test-repo cat-file -e "$branch:hello.py"
verify "both changes are in the final state" git -C test-repo cat-file -e "$branch:test_hello.py"
verify "your own git sees nothing of it" test -z "$(git -C test-repo status --porcelain)"
