//! Retries, outcomes, loops, resuming what failed.
