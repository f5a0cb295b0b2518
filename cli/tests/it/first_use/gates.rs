//! Human gates: what a person sees, answers and adds.
