//! Answers that break off, are empty or make no sense.
