# What the walks share: a place of their own, a scripted model, and checks that say what they look for.
# shellcheck shell=sh
set -eu

if ! command -v pleach >/dev/null; then
    echo "pleach is not on PATH" >&2
    exit 1
fi

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
export HOME="$place/home" XDG_STATE_HOME="$place/state" XDG_CONFIG_HOME="$place/config"
mkdir -p "$HOME"
git config --global user.name "A Walker"
git config --global user.email walker@example.org
git config --global init.defaultBranch main

pleach() {
    command pleach -y "$@"
}

verify() {
    what=$1
    shift
    if "$@" >"$place/said" 2>&1; then
        echo "ok: $what"
    else
        echo "FAILED: $what ($*)" >&2
        cat "$place/said" >&2
        exit 1
    fi
}

# A repository with one commit.
repository() {
    git init --quiet "$1"
    echo hello >"$1/README.md"
    git -C "$1" add .
    git -C "$1" commit --quiet -m init
}

# The newest session of a repository.
newest() {
    git -C "$1" for-each-ref --sort=-committerdate --count=1 --format='%(refname)' refs/pleach/sessions | cut -d/ -f4
}

# A model that answers from a script: no key, no network, yet the agent, its tools and git are real.
cat >script.yaml <<'SCRIPT'
model: scripted-1
scripts:
  - name: code
    when: {node: code}
    steps:
      - text: Add the program.
        tools: [{write_file: {file_path: hello.py, content: "print('hello')\n"}}]
      - text: Change the greeting.
        tools: [{edit_file: {file_path: hello.py, old_string: hello, new_string: hello world}}]
      - text: The program is there.
  - name: tests
    when: {node: tests}
    steps:
      - text: Add a test.
        tools: [{write_file: {file_path: test_hello.py, content: "import hello\n"}}]
      - text: The test is there.
SCRIPT
