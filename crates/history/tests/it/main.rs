//! What reads, on histories that programs have written: one binary, a module per topic.

#![forbid(unsafe_code)]
