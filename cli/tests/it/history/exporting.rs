//! `pleach export --format`: one file with everything that was said and changed, and nothing that must not leave.

use crate::sessions::{graph, tool};
use crate::support::TestEnv;

const PASSWORD: &str = "hunter42!beneath";
const SEVERAL: [&str; 2] = ["first-part-of-it", "second-part-of-it"];

fn exported(env: &TestEnv, format: &str, more: &[&str]) -> String {
    secretly(env, &[&["export", "--format", format], more, &["-"]].concat())
}

/// Runs pleach with secrets in its environment.
fn secretly(env: &TestEnv, args: &[&str]) -> String {
    let mut command = env.command(args);
    command.env("DB_PASSWORD", PASSWORD).env("DEPLOY_SECRET", SEVERAL.join("\n"));
    env.finish(command.output().expect("pleach can be started")).expect(0).stdout
}

/// A run that has changed lines beside secrets somebody has committed, and has made files with secrets the record does not know.
#[test]
fn exports_hold_no_secret() {
    let env = TestEnv::with_repo();
    // Put together here so that no scanner takes this file for a leak.
    let token = ["gh", "p_Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"].concat();
    env.write(
        "repo/settings.txt",
        format!("a\nb\npassword: {PASSWORD}\n{}\n{}\ntoken {token}\nc\n", SEVERAL[0], SEVERAL[1]),
    );
    env.git(&["add", "."]);
    env.git(&["commit", "-qm", "Settings"]);
    let edit = "sed -i 's/^b$/changed/; s/^c$/changed, too/' settings.txt; echo edited";
    env.pipeline(&graph("edit", &(tool("edit", edit) + "start -> edit -> exit")));
    secretly(&env, &["-y", "run", "../pipeline.dot", "-q"]);
    let secrets = [PASSWORD, SEVERAL[0], SEVERAL[1], token.as_str()];
    assert!(
        secrets.iter().all(|secret| env.git(&["log", "-p", "--all", "--not", "main"]).contains(secret)),
        "they are near"
    );
    for format in ["md", "jsonl", "html"] {
        let text = exported(&env, format, &[]);
        for secret in secrets {
            assert!(!text.contains(secret), "{format} has {secret}: {text}");
        }
        for mark in ["[redacted:DB_PASSWORD]", "[redacted:DEPLOY_SECRET]", "[redacted:token]", "changed, too", "edited"]
        {
            assert!(text.contains(mark), "{format} lacks {mark}: {text}");
        }
        let without = exported(&env, format, &["--no-diffs"]);
        assert!(!without.contains("[redacted:") && !without.contains("@@ ") && without.contains("edited"), "{without}");
    }
    let lines = exported(&env, "jsonl", &[]);
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let turn = lines.iter().find(|line| line["type"] == "dev.orchestra.ToolExecution").expect("a turn");
    assert!(turn["patch"]["repo"].as_str().is_some_and(|patch| patch.contains("+changed, too")), "{turn}");
    assert_eq!(turn["messages"][0]["content"][0]["text"], "edited\n");
    assert_eq!(
        lines.iter().map(|line| line["seq"].as_u64()).collect::<Vec<_>>(),
        (1..=lines.len() as u64).map(Some).collect::<Vec<_>>()
    );
    // As a file, which is replaced.
    let sid = env.session();
    env.write("out.md", "old");
    env.pleach(&["export", &sid, "../out.md", "--format", "md"]).expect(0);
    for operands in [&[&sid, "--format", "md"][..], &["--format", "md", &sid], &["--format", "md"]] {
        assert!(env.read("out.md").starts_with("# edit"));
        env.write("out.md", "old");
        env.pleach(&[&["export"], operands, &["../out.md"]].concat()).expect(0);
    }
    assert!(env.read("out.md").starts_with("# edit"));
    env.pleach(&["export", "--format", "md"]).expect(2).fails_with("command-line");
    env.pleach(&["export", "../nowhere/out.md", "--format", "md"]).expect(2).fails_with("output-misplaced");
    env.pleach(&["export", "-", "--format", "md", "--json"]).expect(2).fails_with("option-conflict");
}

const HOSTILE: [&str; 6] = [
    "<script>alert(1)</script>",
    "</pre></div><img src=x onerror=alert(2)>",
    "</style><iframe src=https://evil.example></iframe>",
    "\\\" onmouseover=\\\"alert(3)",
    "javascript:alert(4) &lt;b&gt; <!-- ",
    "\\u202e\\u001b[31m<a href='https://evil.example'>x</a>",
];

/// Every tag of a page, with all that is in it.
fn tags(page: &str) -> Vec<&str> {
    let body = page.split_once("<body>").expect("a body").1;
    body.split('<').skip(1).map(|rest| rest.split_once('>').expect("a tag that ends").0).collect()
}

#[test]
fn html_is_inert() {
    let hostile = HOSTILE.join("\\n");
    let script = format!(
        r#"
scripts:
  - name: code
    when: {{node: code}}
    steps:
      - thinking: "{hostile}"
        text: "{hostile}"
        tools: [{{write_file: {{file_path: "<b>&\"x.txt", content: "{hostile}"}}}}, {{shell: {{command: "cat '<b>&\"x.txt'; exit 1"}}}}]
      - text: "{hostile}"
"#
    );
    let env = TestEnv::with_script(&script);
    let goal = "<script>alert(5)</script> & more";
    let body = format!("graph [goal=\"{goal}\"]  code [prompt=\"{goal}\"]  start -> code -> exit");
    env.run(&graph("hostile", &body), &["-q"]).expect(0);
    let page = exported(&env, "html", &[]);
    // It is all there, as text alone.
    for (text, times) in [("alert(1)", 3), ("alert(2)", 3), ("alert(5)", 2), ("evil.example", 3)] {
        assert!(page.matches(text).count() >= times, "{text}: {page}");
    }
    let known = [
        "main", "header", "p", "h1", "h2", "h3", "span", "div", "dl", "dt", "dd", "nav", "ol", "li", "section",
        "article", "pre", "details", "summary", "a", "body", "html",
    ];
    for tag in tags(&page) {
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(known.contains(&name.trim_start_matches('/')), "<{tag}>");
        let attributes = attributes.trim_end_matches(" open");
        let (key, value) = attributes.split_once('=').unwrap_or((attributes, "\"\""));
        assert!(["", "class", "id", "href"].contains(&key), "<{tag}>");
        let word = value.trim_matches('"').trim_start_matches(if key == "href" { "#" } else { "" });
        assert!(word.chars().all(|c| c.is_ascii_alphanumeric() || c == ' '), "<{tag}>");
        assert!(key != "href" || value.starts_with("\"#"), "<{tag}>");
    }
    let head = page.split_once("<body>").expect("a body").0;
    assert!(head.contains("default-src 'none'") && !head.contains("<script") && !head.contains("<link"), "{head}");
    assert_eq!(head.matches("</style>").count(), 1, "{head}");
    for hidden in ['\u{1b}', '\u{202e}'] {
        assert!(!page.contains(hidden), "{hidden:?}");
    }
    // Markdown shows it as text, too: within fences, or with its angle brackets taken away.
    let text = exported(&env, "md", &[]);
    let mut fence = None;
    for line in text.lines() {
        let ticks = line.len() - line.trim_start_matches('`').len();
        match fence {
            None if ticks >= 3 => fence = Some(ticks),
            Some(open) if ticks == open && line.len() == ticks => fence = None,
            None => assert!(!line.replace("\\<", "").contains('<'), "{line}"),
            Some(_) => {}
        }
    }
    assert_eq!(fence, None, "every fence is closed");
}
