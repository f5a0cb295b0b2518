//! Large repositories, long runs, many sessions.
