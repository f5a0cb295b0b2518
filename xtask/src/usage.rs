//! What the chores are, and how one ends.

use std::error::Error;
use std::process::ExitCode;

/// What can be typed.
pub const USAGE: &str = "\
usage: cargo xtask docs [--check]        write docs/cli.md from the program's help, or check it and rustdoc
       cargo xtask flaky [FILTER] --times N [--jobs N]   run the tests whose names contain FILTER N times each, so many
                                         at once, and say how often each failed
       cargo xtask crash-sweep           kill a run at every crash point and resume it; takes minutes
       cargo xtask crash-sweep parallel  the same with three agents at once
       cargo xtask crash-sweep return    the same with a run that goes back into a fan-out
       cargo xtask crash-sweep replay    the same with a replay from the middle of one
       cargo xtask crash-sweep jobs EVERY     one in EVERY points with three tasks of a tree at once
       cargo xtask crash-sweep queue EVERY    one in EVERY points of a merge queue of fifty branches
       cargo xtask crash-sweep workspaces EVERY   one in EVERY points of a session over several repositories, and of its
                                         landing
       cargo xtask crash-sweep tree [EVERY]   the same with a run over a tree of tasks; takes an hour, or less when
                                         only one in EVERY points is tried
       cargo xtask bench turn-commit [--sizes 1000,20000,100000] [--turns 10000] [--rounds 15] [--quick] [--cxdb]
       cargo xtask bench gateway [--calls 2000] [--streams 100]
       cargo xtask bench nodes [--nodes 1000]
       cargo xtask bench tree [--tree-sizes 10,100,300,1000]
       cargo xtask bench parallel [--agents 50] [--quick]
       cargo xtask bench jobs [--tasks 40] [--quick]
       cargo xtask bench merge [--quick]
       cargo xtask bench push [--nodes 100] [--quick]
       cargo xtask bench validate [--nodes 2000]
       cargo xtask bench why [--rounds 5] [--quick]
       cargo xtask bench workspaces [--quick]
       cargo xtask bench worktrees [--worktree-sizes 1500,20000,100000] [--rounds 15] [--quick]
       cargo xtask bench history [--turns 10000] [--rounds 5]
       cargo xtask bench status [--commits 100000] [--tasks 1000] [--rounds 15]
       cargo xtask merge-replay REPO [--limit N] [--derived PATTERN]…   merge the merges of a repository once more, without
                                         an agent, and compare the results with what was committed
       cargo xtask merge-replay --generate DIR N [--seed SEED]   make a history with N conflicting merges of all kinds
docs/performance.md says what the benchmarks measure.";

/// How a chore ends that did not break.
pub type Done = Result<ExitCode, Box<dyn Error>>;
