# What must hold after every task.
got=$(sh hello.sh)
if [ "$got" != "Hello, world!" ]; then
    echo "expected 'Hello, world!', got '$got'" >&2
    exit 1
fi
