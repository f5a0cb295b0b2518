//! Why a line is there: the turn, the prompt and the reason behind it, after merges, squashes and landings.
