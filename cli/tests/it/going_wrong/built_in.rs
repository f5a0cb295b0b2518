//! Conversations of the built-in agent: their size, their circles, what is asked of providers.

use serde_json::json;

use super::answers::{answer, asked, call, one_node, server, world};
use crate::providers::text;
use crate::server::Play;

#[test]
fn n08_the_same_command_with_another_output_is_no_circle() {
    let again = |command: &'static str, times: usize| {
        server(move |_, before| -> Play {
            match before {
                n if n < times => answer(&[call(&format!("c{n}"), "shell", &json!({"command": command}))]),
                _ => answer(&[text("Done.")]),
            }
        })
    };
    let waits = again("echo more >> log; wc -l < log", 15);
    world(&waits, "").run(&one_node(""), &[]).expect(0);
    assert_eq!(asked(&waits).len(), 16);

    let circles = again("echo the same", 99);
    let ran = world(&circles, "").run(&one_node(""), &[]).expect(1);
    assert!(ran.stdout.contains("the agent goes in circles"), "{ran}");
    assert_eq!(asked(&circles).len(), 13);
}
