# What the pages are made with.
greet() { echo "Hello, $1."; }
