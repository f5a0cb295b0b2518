//! The first minutes: a prompt instead of a file.
