//! Agents and providers that go wrong, and money that holds. The tests are named after what they hold: `n01` is a looping
//! agent, `n02` a dollar limit, and so on.

mod answers;
mod built_in;
mod commit_messages;
mod money;
mod providers;
pub mod runaway;
mod secrets;
