#!/bin/sh
# A run gets a session branch; every turn that writes is a commit that says who made it; main stays as it was.
. "$(dirname "$0")/lib.sh"

repository test-repo
cat >orchestra.yaml <<'YAML'
workspace:
  repos:
    project:
      path: ./test-repo
      branch_prefix: orchestra/
agent: builtin
providers: {script: {file: script.yaml}}
YAML
cat >test-git.dot <<'DOT'
digraph test_git {
    graph [goal="Add a hello world file"]
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    code  [shape=box, label="Write Code", prompt="Create a file called hello.py with a hello world program"]
    start -> code -> exit
}
DOT
before=$(git -C test-repo rev-parse main)
pleach run test-git.dot
sid=$(newest test-repo)
branch=orchestra/test-git/$sid

verify "the branch is named after pipeline and session" git -C test-repo rev-parse --verify --quiet "$branch"
verify "two turns have written: two commits" test "$(git -C test-repo rev-list --count "main..$branch")" = 2
verify "a message of its own" sh -c "git -C test-repo log --format=%s main..$branch | grep -qx 'Change the greeting'"
verify "the author is the agent" test "$(git -C test-repo log -1 --format='%an <%ae>' "$branch")" = \
    "code (scripted-1) <orchestra@local>"
for trailer in Model Node Session Turn; do
    verify "the trailer Orchestra-$trailer" test -n \
        "$(git -C test-repo log -1 --format="%(trailers:key=Orchestra-$trailer,valueonly)" "$branch")"
done
verify "main is unchanged" test "$(git -C test-repo rev-parse main)" = "$before"
verify "the record names the commit" sh -c \
    "git -C test-repo log -p refs/pleach/sessions/$sid/main | grep -q $(git -C test-repo rev-parse "$branch")"
