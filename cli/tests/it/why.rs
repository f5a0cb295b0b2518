//! `pleach why`: a line and the turn behind it.

use crate::tree_commands::page::{greeting, shows_what_happens};

#[test]
fn the_page_about_why_shows_what_happens() {
    shows_what_happens(&greeting(), "docs/why.md", 7);
}
