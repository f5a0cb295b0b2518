#!/bin/sh
# A repository is cloned from its remote, worked on, and pushed back.
. "$(dirname "$0")/lib.sh"

git init --quiet --bare test-remote.git
repository test-source
git -C test-source remote add origin "$place/test-remote.git"
git -C test-source push --quiet -u origin main
cat >orchestra.yaml <<YAML
workspace:
  repos:
    project:
      path: $place/orchestra-workspace/project
      remote: $place/test-remote.git
      branch_prefix: orchestra/
      push: on_completion
agent: builtin
providers: {script: {file: script.yaml}}
YAML
cat >test-git.dot <<'DOT'
digraph test_git {
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    code  [prompt="Create a file called hello.py with a hello world program"]
    start -> code -> exit
}
DOT
pleach run test-git.dot
project=orchestra-workspace/project
sid=$(newest $project)
branch=orchestra/test-git/$sid

verify "it was cloned" test -d $project/.git
verify "the work is committed here" git -C $project cat-file -e "$branch:hello.py"
verify "the remote has the session branch" test \
    "$(git -C test-remote.git rev-parse "$branch")" = "$(git -C $project rev-parse "$branch")"
verify "the newest checkpoint names the commit of the remote" sh -c \
    "git -C $project log -p refs/pleach/sessions/$sid/main | grep -q $(git -C test-remote.git rev-parse "$branch")"
