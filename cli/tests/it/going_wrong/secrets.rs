//! What agents cannot see or reach.
