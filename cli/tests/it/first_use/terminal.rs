//! Messages, the live line, ids that can be left out, JSON.
