//! How the program is linked while it is worked on.

#![expect(clippy::disallowed_macros, reason = "cargo reads what a build script prints")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The tests start it thousands of times, and to move its addresses takes as long as all else it does at a start. What is
    // passed on stays as the compiler would have it.
    #[expect(clippy::disallowed_methods, reason = "cargo tells build scripts in the environment")]
    let is_debug = std::env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    if is_debug && cfg!(target_os = "linux") {
        println!("cargo::rustc-link-arg-bin=pleach=-no-pie");
    }
}
