. ./lib.sh
greet Ada
