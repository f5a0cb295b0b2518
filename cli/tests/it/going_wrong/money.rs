//! What a model costs, what is billed, and limits that hold.
