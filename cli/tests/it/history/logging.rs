//! `pleach log`: what happened, newest first, and no more of it read than is shown.

use serde_json::{Value, json};

use crate::merge_queue::Queue;
use crate::sessions::{graph, tool};
use crate::support::TestEnv;
use crate::terminal::Terminal;
use crate::trees::garden::{APPROVES, Garden, Tree};

fn logged(env: &TestEnv, args: &[&str]) -> Vec<Value> {
    env.pleach(&[&["log", "--json"], args].concat()).expect(0).json_lines()
}

/// Kind and outcome of each line.
fn kinds(lines: &[Value]) -> Vec<String> {
    let kind = |line: &Value| match line["outcome"].as_str() {
        Some(outcome) => format!("{} {outcome}", line["kind"].as_str().expect("a kind")),
        None => line["kind"].as_str().expect("a kind").to_owned(),
    };
    lines.iter().map(kind).collect()
}

/// What a terminal of 80 columns shows of the log, none of it in two rows; none where there is no terminal.
fn in_80_columns(env: &TestEnv, command: &str) -> Option<String> {
    env.write("home/.gitconfig", "[core]\n\tpager = cat\n");
    let shown = Terminal::shows(env, 80, &[&format!("--color never {command}")])?;
    let wide: Vec<&str> = shown.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{wide:#?}");
    Some(shown)
}

/// Two runs: one that is done, one that fails and is resumed in vain.
fn two_runs() -> TestEnv {
    let env = TestEnv::with_repo();
    env.run(&graph("first", &(tool("one", "echo 1 > one.txt") + "start -> one -> exit")), &["-q"]).expect(0);
    let words = "a very long command that goes on ".repeat(6);
    let red = tool("red", &format!("echo {words}; exit 3")) + "start -> red -> exit";
    env.run(&graph("second", &red), &["-q"]).expect(1);
    let failed = env.sessions().into_iter().find(|sid| env.pleach(&["status", sid]).stdout.contains("failed"));
    env.pleach(&["-y", "resume", &failed.expect("a failed session")]).expect(1);
    env
}

#[test]
fn the_log_tells_runs_newest_first() {
    let env = two_runs();
    let all = logged(&env, &[]);
    assert_eq!(kinds(&all), ["end failed", "resume", "end failed", "start", "end done", "start"]);
    let times: Vec<&str> = all.iter().filter_map(|line| line["at"].as_str()).collect();
    assert!(times.windows(2).all(|two| two[0] >= two[1]), "{times:?}");
    let (second, first) = (all[0]["run"].as_str().expect("a run"), all[4]["run"].as_str().expect("a run"));
    assert_ne!(first, second);
    assert_eq!(kinds(&logged(&env, &[first])), ["end done", "start"]);
    assert_eq!(kinds(&logged(&env, &["--failed"])), ["end failed", "attempt fail", "turn exit 3"].repeat(2));
    assert_eq!(kinds(&logged(&env, &["-n", "2"])), ["end failed", "resume"]);
    let turns = logged(&env, &["--turns", &second[..5]]);
    assert_eq!(kinds(&turns)[..2], ["end failed", "attempt fail"]);
    assert_eq!(turns.iter().filter(|line| line["kind"] == "turn" && line["outcome"] == "exit 3").count(), 2);
    let at_one = logged(&env, &["--node", "one"]);
    assert_eq!((kinds(&at_one), at_one[0]["turn"].as_str()), (vec!["turn exit 0".to_owned()], Some("main.1")));
    assert_eq!(logged(&env, &["--model", "opus"]).len(), 0);
    let middle = times[3];
    assert_eq!(logged(&env, &["--since", middle]).len(), 4);
    assert_eq!(logged(&env, &["--until", middle]).len(), 3);
    assert_eq!(kinds(&logged(&env, &[&format!("{first}/main")])), ["end done", "start"]);
    env.pleach(&["log", &format!("{first}/r1")]).expect(2).fails_with("no-such-session").naming(first);
    // For people.
    let Some(shown) = in_80_columns(&env, "log --turns") else { return };
    // Without the time of day.
    let lines: Vec<String> = env.normalise(&shown).lines().map(|line| line.chars().skip(7).collect()).collect();
    insta::assert_snapshot!(lines[1..].join("\n"), @r"
    [SID2]          failed      `red` failed: exit 3: a very long command …
    [SID2]          fail        red · exit 3: a very long command that goe…
    [SID2]/main.2   fail        red · echo a very long command that goes o…
    [SID2]          resumed     at red
    [SID2]          failed      `red` failed: exit 3: a very long command …
    [SID2]          fail        red · exit 3: a very long command that goe…
    [SID2]/main.1   fail        red · echo a very long command that goes o…
    [SID2]          started     second
    [SID]          done        first
    [SID]/main.1   turn        one · echo 1 > one.txt (exit 0)
    [SID]          started     first
    ");
    // Neither is the other.
    env.pleach(&["logs", first]).expect(2).fails_with("no-tree").naming(format!("pleach log {first}"));
    env.pleach(&["log", "T1_test.log"])
        .expect(2)
        .fails_with("no-such-session")
        .naming("pleach logs --show T1_test.log");
}

/// A run of five records, a day each.
fn five_days(session: &str, first_day: u32) -> String {
    let zeros = "0".repeat(40);
    let start = json!({"name": "days", "goal": "", "dot": "", "dot_path": "", "files": {}, "inputs": {}, "config": {},
        "base": {"repo": zeros}, "branches": {"repo": format!("pleach/days/{session}")}});
    let paused = json!({"reason": "interrupted", "node_id": null});
    let done = json!({"workspace_snapshot": {"repo": zeros}});
    let events = [
        ("PipelineStarted", start),
        ("PipelinePaused", paused),
        ("Resumed", json!({})),
        ("Resumed", json!({})),
        ("PipelineCompleted", done),
    ];
    let mut stream = String::new();
    for (number, (kind, data)) in events.into_iter().enumerate() {
        let at = format!("2026-03-{:02}T12:00:00.500Z", first_day + number as u32);
        let event =
            json!([{"type": format!("dev.orchestra.{kind}"), "version": 1, "at": at, "data": data}]).to_string();
        let message = format!("{kind}\n\nPleach-Record: 1\nPleach-Session: {session}\nPleach-Context: main\n");
        let seconds = 1_772_366_400 + (i64::from(first_day) - 1 + number as i64) * 86_400;
        stream += &format!(
            "commit refs/pleach/sessions/{session}/main\ncommitter pleach <pleach@local> {seconds} +0000\ndata {}\n{message}\n\
             deleteall\nM 100644 inline events.json\ndata {}\n{event}\n",
            message.len(),
            event.len()
        );
    }
    stream
}

/// What lies further back than the lines that are asked for may be gone: nobody looks.
#[test]
fn log_is_lazy() {
    let env = TestEnv::with_repo();
    env.write("stream", five_days("aaaaaaaa", 1) + &five_days("bbbbbbbb", 6));
    let import = env.program("sh", &env.repo_path()).args(["-c", "git fast-import --quiet < ../stream"]).status();
    assert!(import.expect("git can be started").success());
    let all = logged(&env, &[]);
    let one = ["end done", "resume", "resume", "pause interrupted", "start"];
    assert_eq!(kinds(&all), [one, one].concat());
    assert_eq!((all[0]["run"].as_str(), all[9]["run"].as_str()), (Some("bbbbbbbb"), Some("aaaaaaaa")));
    assert_eq!(
        kinds(&logged(&env, &["--since", "2026-03-04", "--until", "2026-03-06"])),
        ["start", "end done", "resume"]
    );
    // Of the older run, all but the newest record, and what is in that.
    let objects = env.repo_path().join(".git/objects");
    let remove =
        |object: &str| std::fs::remove_file(objects.join(&object[..2]).join(&object[2..])).expect("a loose object");
    let older = "refs/pleach/sessions/aaaaaaaa/main";
    let gone = env.git(&["rev-list", "--objects", &format!("{older}~1")]);
    gone.lines().filter_map(|line| line.split(' ').next()).for_each(remove);
    remove(&env.git(&["rev-parse", &format!("{older}:events.json")]));
    for most in 1..=4 {
        let shown = env.pleach(&["log", "--json", "-n", &most.to_string()]).expect(0);
        assert_eq!(shown.warnings(), [], "{shown}");
        assert_eq!(shown.json_lines(), all[..most], "{most}");
    }
    assert_eq!(env.pleach(&["log", "--since", "2026-03-06"]).expect(0).warnings(), []);
    assert_eq!(env.pleach(&["log", "bbbb"]).expect(0).warnings(), []);
    // Who asks for all of it is told, and gets the rest.
    let whole = env.pleach(&["log", "--json"]).expect(0);
    whole.warns_once("session-unreadable").naming("aaaaaaaa");
    assert_eq!(whole.json_lines(), all[..5]);
}

#[test]
fn the_log_tells_the_steps_of_tasks() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: test -f T001.txt && grep -q 2 T001.txt"]));
    garden.agent("echo \"$n\" > \"$task.txt\"", APPROVES);
    garden.gardener(&["-q"]).expect(0);
    let env = &garden.env;
    let all = logged(env, &["T001"]);
    let steps: Vec<&Value> = all.iter().filter(|line| line["kind"] == "step").collect();
    assert_eq!(logged(env, &[]).last().map(|line| line["text"].clone()), Some("run over task-tree.json".into()));
    // Each once, though records and commits have it: newest first.
    let outcomes: Vec<&str> = steps.iter().filter_map(|line| line["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["pass", "pass", "pass", "pass", "fail", "pass"]);
    assert!(steps.iter().all(|step| step["task"] == "T001" && step["run"] == env.session().as_str()), "{steps:#?}");
    assert_eq!(kinds(&all).iter().filter(|kind| kind.starts_with("landing")).count(), 1, "{all:#?}");
    let failed = kinds(&logged(env, &["--task", "T001", "--failed"]));
    assert_eq!(failed, ["end failed", "step fail", "attempt fail", "turn exit 1"]);
    assert_eq!(logged(env, &[&env.session()]).len(), all.len());
    // A clone has the branch and not the records.
    env.git(&["clone", "--quiet", ".", "../clone"]);
    let clone = env.root().join("clone");
    let cloned = env.pleach(&["-C", clone.to_str().expect("text"), "log", "--json"]).expect(0).json_lines();
    assert_eq!(cloned.iter().filter(|line| line["task"] == "T001").count(), outcomes.len());
    in_80_columns(env, "log");
}

#[test]
fn the_log_tells_the_merge_queue() {
    let queue = Queue::tested("! grep -q bad *.txt");
    queue.line("good", 3, "three");
    queue.line("wrong", 9, "bad");
    queue.process(1);
    let all = logged(&queue.env, &[]);
    let of = |name: &str| -> Vec<String> {
        let named = all.iter().filter(|line| line["text"].as_str().is_some_and(|text| text.starts_with(name)));
        kinds(&named.cloned().collect::<Vec<_>>())
    };
    assert_eq!(of("good")[0], "landing landed");
    assert_eq!(of("good").last().map(String::as_str), Some("entry waiting"));
    assert_eq!(of("wrong")[0], "entry red");
    let red = logged(&queue.env, &["--failed"]);
    assert_eq!(kinds(&red), ["entry red"]);
    // Those that were closed long ago have no refs of their own, and are told all the same.
    const ARCHIVE: &str = r#"set -e; refs=$(git for-each-ref --format='%(refname)' 'refs/pleach/queue/*/entry/*')
        for ref in $refs; do
            commit=$(git rev-parse $ref | git hash-object -w --stdin)
            tree=$(printf '100644 blob %s\tcommit\n100644 blob %s\tentry.json\n' $commit $(git rev-parse $ref:entry.json) | git mktree)
            printf '040000 tree %s\t%s\n' $tree ${ref##*/} >> ../entries; git update-ref -d $ref
        done
        export GIT_COMMITTER_DATE="@$(($(date +%s) + 3456000)) +0000"
        git update-ref ${ref%/entry/*}/done $(git -c user.name=x -c user.email=x commit-tree -m x $(git mktree < ../entries))"#;
    let archived = queue.env.program("sh", &queue.env.repo_path()).args(["-c", ARCHIVE]).status();
    assert!(archived.expect("sh can be started").success());
    assert_eq!(logged(&queue.env, &[]), all);
    assert!(red[0]["entry"].is_string() && red[0]["commit"].is_string(), "{red:?}");
}

#[test]
fn the_log_goes_through_the_pager_of_git() {
    let env = two_runs();
    env.write("home/.gitconfig", "[core]\n\tpager = sed 's/^/paged: /'\n");
    // What the repository says does not count.
    env.git(&["config", "core.pager", "false"]);
    let Some(terminal) = Terminal::open(&env, "log") else { return };
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.lines().filter(|line| !line.trim().is_empty()).all(|line| line.starts_with("paged: ")), "{shown}");
    assert!(shown.contains("second"), "{shown}");
    // A person who has seen enough is no failure.
    env.write("home/.gitconfig", "[core]\n\tpager = head -n 1\n");
    let (code, shown) = Terminal::open(&env, "log").expect("a terminal").end();
    assert_eq!((code, shown.lines().count()), (0, 1), "{shown}");
    assert!(!env.pleach(&["log"]).stdout.contains("paged"));
}
