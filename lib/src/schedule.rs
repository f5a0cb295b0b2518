//! What a tree's run does next: which task, which attempt, which gate, and why nothing more.
