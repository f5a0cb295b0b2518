//! Ad-hoc tasks through the built program: created, listed, worked, cancelled, and several processes at once.

mod ends;
mod forecast;
mod lists;
mod makes;
mod page;
mod places;
mod queue;
mod side_by_side;
mod starts;

use serde_json::Value;

use crate::support::{Ran, TestEnv};
use crate::trees::garden::{Garden, Tree};

/// A world with a repository and an agent that writes a file for every task. Its tree is not meant to be worked.
pub fn world() -> Garden {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("tree: {max_retries: 2}\n");
    garden
}

/// Creates a task and gives its id.
#[track_caller]
pub fn task(env: &TestEnv, text: &str, more: &[&str]) -> String {
    let made = env.pleach(&[&["--json", "task", "new", text], more].concat()).expect(0).json();
    made["id"].as_str().expect("an id").to_owned()
}

/// Starts tasks, everything approved.
#[track_caller]
pub fn start(garden: &Garden, more: &[&str]) -> Ran {
    let ran = garden.env.pleach(&[&["-y", "task", "start"], more].concat());
    garden.assert_in_order();
    ran
}

/// A task as `--json` shows it.
#[track_caller]
fn shown(env: &TestEnv, id: &str) -> Value {
    env.pleach(&["--json", "task", "show", id]).expect(0).json()
}

/// Where a task is.
#[track_caller]
pub fn state(env: &TestEnv, id: &str) -> String {
    shown(env, id)["state"].as_str().expect("a word").to_owned()
}

/// The tasks a list has, in order.
#[track_caller]
fn listed(env: &TestEnv, more: &[&str]) -> Vec<String> {
    let list = env.pleach(&[&["--json", "task", "list"], more].concat()).expect(0).json();
    let tasks = list["tasks"].as_array().expect("a list").iter();
    tasks.map(|task| task["id"].as_str().expect("an id").to_owned()).collect()
}
