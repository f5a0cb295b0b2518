//! What the next node is told, and what never becomes a command.
