//! Conversations of the built-in agent: their size, their circles, what is asked of providers.
