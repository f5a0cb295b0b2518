#!/bin/sh
# Interrupted between two nodes, with the checkout changed meanwhile, a run continues from the commit it stood at.
. "$(dirname "$0")/lib.sh"

repository test-repo
cat >orchestra.yaml <<'YAML'
workspace: {repos: {project: {path: ./test-repo, branch_prefix: orchestra/}}}
sandbox: {mode: off}
YAML
cat >test-git.dot <<DOT
digraph test_git {
    start  [shape=Mdiamond]
    exit   [shape=Msquare]
    first  [shape=parallelogram, tool_command="echo 1 > one"]
    second [shape=parallelogram, tool_command="cat one > two; touch $place/reached; until test -e $place/go; do sleep 0.1; done"]
    third  [shape=parallelogram, tool_command="cat one two > three"]
    start -> first -> second -> third -> exit
}
DOT
command pleach -y run test-git.dot 2>progress &
run=$!
until test -e reached || ! kill -0 $run; do sleep 0.1; done
# Ctrl-C: the node in flight ends, then the run pauses.
kill -INT $run
until grep -q stopping progress || ! kill -0 $run; do sleep 0.1; done
touch go
code=0
wait $run || code=$?
verify "it has paused" test $code = 3
sid=$(newest test-repo)

git -C test-repo checkout --quiet main
echo changed >test-repo/README.md
pleach resume "$sid"
branch=orchestra/test-git/$sid
verify "the rest was run" test "$(git -C test-repo show "$branch:three")" = "1
1"
verify "the first node was not run again" test "$(git -C test-repo rev-list --count "main..$branch")" = 3
verify "your own change is where you left it" test "$(cat test-repo/README.md)" = changed
