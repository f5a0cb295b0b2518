//! What happened when, over all runs, and what was said in them.
