//! What has become of a tree's tasks: a fold over their step commits.
