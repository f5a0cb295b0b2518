#!/bin/sh
# Interrupted in the middle of an agent, a run goes back to one of its turns, and the agent goes on with the next.
. "$(dirname "$0")/lib.sh"

repository test-repo
cat >script.yaml <<SCRIPT
model: scripted-1
scripts:
  - name: code
    when: {node: code}
    steps:
      - text: Add the program.
        tools: [{write_file: {file_path: hello.py, content: "print('hello')\n"}}]
      - text: Change the greeting.
        tools: [{edit_file: {file_path: hello.py, old_string: hello, new_string: hello world}}]
      - text: Try it.
        tools: [{shell: {command: "touch $place/reached; until test -e $place/go; do sleep 0.1; done"}}]
      - text: The program is there.
SCRIPT
cat >orchestra.yaml <<'YAML'
workspace: {repos: {project: {path: ./test-repo, branch_prefix: orchestra/}}}
agent: builtin
providers: {script: {file: script.yaml}}
sandbox: {mode: off}
YAML
cat >test-git.dot <<'DOT'
digraph test_git {
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    code  [prompt="Write a program that greets."]
    start -> code -> exit
}
DOT
command pleach -y run test-git.dot 2>progress &
run=$!
until test -e reached || ! kill -0 $run; do sleep 0.1; done
# Ctrl-C: the turn in flight ends and is recorded, then the run pauses.
kill -INT $run
until grep -q stopping progress || ! kill -0 $run; do sleep 0.1; done
touch go
code=0
wait $run || code=$?
verify "it has paused" test $code = 3
sid=$(newest test-repo)
branch=orchestra/test-git/$sid

pleach status "$sid" >status
verify "status lists the turns" test "$(grep -c 'main\.[123]' status)" = 3
first=$(git -C test-repo log --format=%H --grep='Orchestra-Turn: main.1' "$branch")

pleach resume "$sid" --turn main.1
back=$(git -C test-repo log --format=%H --grep='Pleach-Returns: main.1' "$branch")
verify "the files are those of the turn" git -C test-repo diff --quiet "$first" "$back"
pleach turns --json "$sid" >turns
verify "what came after it is left, and still recorded" test "$(grep -o '"left":true' turns | wc -l)" = 2
verify "the agent went on with the next turn, not from the beginning" \
    test "$(git -C test-repo log --format=%s --grep='Orchestra-Turn' "$back..$branch")" = "Change the greeting"
verify "new turns are numbered on" \
    test "$(git -C test-repo log -1 --format='%(trailers:key=Orchestra-Turn,valueonly)' "$branch" | head -n 1)" = main.4
verify "the work is complete" test "$(git -C test-repo show "$branch:hello.py")" = "print('hello world')"
