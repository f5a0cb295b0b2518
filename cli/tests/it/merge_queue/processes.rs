//! Several processes on one queue.

use std::process::Stdio;

use super::Queue;

#[test]
fn another_process_on_the_queue_is_told() {
    let queue = Queue::with(
        "merge: {test_command: 'touch ../began; while ! test -e ../go; do sleep 0.05; done', slots: 1}\nsandbox: {mode: off}\nworktrees: {base: ../worktrees}\n",
    );
    queue.queued("one");
    let mut first =
        queue.env.command(&["-y", "merge", "process"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    queue.env.wait_for_file("worktrees/merge/main/began");
    let second = queue.env.pleach(&["-y", "merge", "process", "--json"]).expect(6);
    assert_eq!(second.json()["error"]["code"], "queue-locked");
    // What does not work the queue is not held up.
    queue.queued("two");
    assert_eq!(queue.env.pleach(&["merge", "--json"]).expect(0).json()["queues"][0]["worked"], true);
    queue.env.write("worktrees/merge/main/go", "");
    assert!(first.wait().unwrap().success());
    assert_eq!(queue.process(0)["open"].as_array().unwrap().len(), 0);
    assert!(queue.landed("one.txt").is_some() && queue.landed("two.txt").is_some());
}

/// Branches enough for so many processes, each of which queues its own and works the queue until all have landed.
fn at_once(processes: usize, each: usize) {
    let queue = Queue::with("merge: {slots: 1}\n");
    queue.env.git(&["checkout", "-q", "--detach"]);
    let base = queue.tip();
    let tree = |name: &str| {
        let blob = queue.env.write("blob", name);
        let blob = queue.env.git(&["hash-object", "-w", blob.to_str().unwrap()]);
        let listed = queue.env.git(&["ls-tree", "main"]);
        queue.env.write("tree", format!("{listed}\n100644 blob {}\t{name}.txt\n", blob.trim()));
        let made =
            queue.env.program("sh", &queue.env.repo_path()).args(["-c", "git mktree < ../tree"]).output().unwrap();
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    };
    for process in 0..processes {
        for nth in 0..each {
            let name = format!("p{process}-{nth}");
            let commit = queue.env.git(&["commit-tree", "-m", &name, "-p", &base, &tree(&name)]);
            queue.env.git(&["branch", &name, commit.trim()]);
        }
    }
    let script = r#"
        for n in $(seq 0 $(($2 - 1))); do "$0" merge enqueue "p$1-$n" --into main > /dev/null || exit 9; done
        while :; do
            "$0" -y merge process --into main > /dev/null; code=$?
            case $code in 0|6) ;; *) exit $code ;; esac
            left=0
            for n in $(seq 0 $(($2 - 1))); do git merge-base --is-ancestor "p$1-$n" main || left=1; done
            [ $left = 0 ] && exit 0
        done
    "#;
    let program = env!("CARGO_BIN_EXE_pleach");
    let started = (0..processes).map(|process| {
        let args = ["-c".to_owned(), script.to_owned(), program.to_owned(), process.to_string(), each.to_string()];
        queue.env.program("sh", &queue.env.repo_path()).args(args).spawn().unwrap()
    });
    for mut child in started.collect::<Vec<_>>() {
        assert!(child.wait().unwrap().success());
    }
    let merged = queue.env.git(&["rev-list", "--first-parent", "--count", &format!("{base}..main")]);
    assert_eq!(merged.trim(), (processes * each).to_string(), "each landed once");
    let files = queue.env.git(&["ls-tree", "--name-only", "main"]);
    assert_eq!(files.lines().filter(|name| name.starts_with('p') && name.ends_with(".txt")).count(), processes * each);
}

#[test]
fn i1_two_processes_lose_no_update() {
    at_once(2, 20);
}

#[test]
fn four_processes_lose_no_update() {
    at_once(4, 10);
}

#[test]
fn the_supervision_loop_looks_every_interval() {
    let queue = Queue::with("merge: {test_command: 'true', interval_secs: 1, slots: 1}\n");
    queue.branch("one", &[("one.txt", "1")]);
    queue.branch("two", &[("two.txt", "2")]);
    let watch = ["-y", "merge", "process", "--watch"];
    let mut watching = queue.env.command(&watch).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    queue.enqueue("one");
    queue.env.wait_for_file("repo/one.txt");
    queue.enqueue("two");
    queue.env.wait_for_file("repo/two.txt");
    let stop = queue.env.program("kill", &queue.env.repo_path()).args(["-INT", &watching.id().to_string()]).status();
    assert!(stop.unwrap().success());
    assert!(watching.wait().unwrap().success());
    queue.env.assert_no_process_left();
}

#[test]
fn a_commit_queued_during_tests_is_not_taken_for_landed() {
    let test = "touch ../began; while ! test -e ../go; do sleep 0.05; done";
    let queue = Queue::with(&format!(
        "merge: {{test_command: '{test}', slots: 1}}\nsandbox: {{mode: off}}\nworktrees: {{base: ../worktrees}}\n"
    ));
    queue.queued("one");
    let work = ["-y", "merge", "process", "--into", "main"];
    let mut first = queue.env.command(&work).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    queue.env.wait_for_file("worktrees/merge/main/began");
    let tree = queue.env.git(&["rev-parse", "one^{tree}"]);
    let newer = queue.env.git(&["commit-tree", "-m", "Newer", "-p", "one", &tree]);
    queue.env.git(&["update-ref", "refs/heads/one", &newer]);
    queue.enqueue("one");
    queue.env.write("worktrees/merge/main/go", "");
    assert!(first.wait().unwrap().success());
    assert_eq!(queue.env.git(&["rev-parse", "main"]), newer, "what lands is what is queued");
    assert_eq!(queue.why("one")["head"], newer);
}

#[test]
fn who_watches_waits_for_another_process() {
    let test = "touch ../began; while ! test -e ../go; do sleep 0.05; done";
    let queue = Queue::with(&format!(
        "merge: {{test_command: '{test}', interval_secs: 1, slots: 1}}\nsandbox: {{mode: off}}\nworktrees: {{base: \
         ../worktrees}}\n"
    ));
    queue.queued("one");
    let mut first = queue.env.command(&["-y", "merge", "process"]).stdout(Stdio::null()).spawn().unwrap();
    queue.env.wait_for_file("worktrees/merge/main/began");
    let watch = ["-y", "merge", "process", "--watch"];
    let mut watching = queue.env.command(&watch).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = std::io::BufReader::new(watching.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert!(line.contains("merge queue of `main`"), "{line}");
    queue.env.write("worktrees/merge/main/go", "");
    assert!(first.wait().unwrap().success());
    queue.queued("two");
    queue.env.wait_for_file("repo/two.txt");
    queue.env.program("kill", &queue.env.repo_path()).args(["-INT", &watching.id().to_string()]).status().unwrap();
    assert!(watching.wait().unwrap().success());
}

/// Run by hand: too long for every change.
#[test]
#[ignore = "takes minutes: two hundred landings by two, then by four processes"]
fn two_hundred_landings_lose_no_update() {
    at_once(2, 100);
    at_once(4, 50);
}
