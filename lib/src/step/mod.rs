//! The steps of a task: what they ask, how their answers are read, and the commits that tell of them.
