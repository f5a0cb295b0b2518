//! A run as one file, for people and for programs.
