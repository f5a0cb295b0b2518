//! Agents that never stop.
