//! Messages of commits that a cheap model writes.

use crate::providers::{answer_of, text, write};
use crate::server::{Play, Seen, Server};
use crate::sessions::graph;
use crate::support::TestEnv;

/// A server for an agent that writes three files, one a turn, and for the cheap model, which is played by `scribe`: it is
/// given the request and how often it was asked before.
fn server(scribe: impl Fn(&Seen, usize) -> Play + Send + Sync + 'static) -> Server {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    Server::start(move |seen, _| {
        if seen.body["model"] == "cheap-model" {
            return scribe(seen, asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        }
        let turns = seen.body["messages"].as_array().map_or(0, Vec::len) / 2;
        match turns {
            0..3 => answer_of("claude-sonnet-4-5", &[text("Hm."), write(&format!("{turns}.txt"))]),
            _ => answer_of("claude-sonnet-4-5", &[text("Done.")]),
        }
    })
}

fn run(server: &Server, subjects: &[&str]) -> TestEnv {
    let env = TestEnv::with_repo();
    for subject in subjects {
        env.git(&["commit", "--quiet", "--allow-empty", "-m", subject]);
    }
    env.configure(&format!(
        "agent: builtin\nproviders:\n  default: anthropic\n  anthropic:\n    models: {{worker: claude-sonnet-4-5, cheap: cheap-model}}\n    \
         settings: {{api_base: '{}', api_key_command: echo sk-ant-test}}\n",
        server.url()
    ));
    env.run(&graph("greet", "work [prompt=\"Greet whoever comes\"] start -> work -> exit"), &[]).expect(0);
    env
}

/// The first lines of the turns' commits, oldest first.
fn subjects(env: &TestEnv) -> Vec<String> {
    let log = env.git(&["log", "--reverse", "--format=%s", &format!("main..{}", env.branch())]);
    log.lines().map(str::to_owned).collect()
}

#[test]
fn n14_the_task_and_project_conventions_are_kept() {
    let typed = server(|_, _| answer_of("cheap-model", &[text("feat(greeting): Add a greeting\n\nIt greets.")]));
    let env = run(&typed, &["feat: add a", "fix(x): mend b", "docs: tell of c"]);
    assert_eq!(subjects(&env), ["feat(greeting): add a greeting"; 3]);
    let seen = typed.seen();
    let asked: Vec<&Seen> = seen.iter().filter(|seen| seen.body["model"] == "cheap-model").collect();
    assert_eq!(asked.len(), 3);
    for asked in asked {
        let told = asked.body["messages"].to_string();
        assert!(told.contains("The author's task:\\nGreet whoever comes"), "{told}");
        assert!(
            told.contains("The project's last commits:\\ndocs: tell of c\\nfix(x): mend b\\nfeat: add a"),
            "{told}"
        );
        assert!(!told.contains("commits:\\nfeat(greeting)"), "its own say nothing of the project: {told}");
    }
    let plain = server(|_, _| answer_of("cheap-model", &[text("feat: add a greeting\n\nIt greets.")]));
    let env = run(&plain, &["Add a", "Mend b"]);
    assert_eq!(subjects(&env), ["Add a greeting"; 3]);
}

#[test]
fn n14_one_failure_does_not_disable_it() {
    let down = Play::Answer(500, Vec::new(), "{}".to_owned());
    let server = server(move |_, before| match before {
        0 => down.clone(),
        _ => answer_of("cheap-model", &[text("Write a greeting\n\nIt greets.")]),
    });
    let env = run(&server, &[]);
    assert_eq!(subjects(&env), ["Add 0.txt", "Write a greeting", "Write a greeting"]);
}
