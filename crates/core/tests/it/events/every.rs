//! One event of each type, most with every field filled; some a second time with as little as possible.

use std::collections::BTreeMap;

use pleach_core::event::{
    AgentSpoke, AgentTurn, AgentWaits, AttemptStarted, BranchPushed, BudgetExceeded, Checkpoint, CleanedItem,
    CleanedKind, CleanupCompleted, Commits, ConflictKind, ConflictedPath, ContextForked, ContextJoined, Event,
    FailureClass, Feedback, FeedbackKind, FetchedStart, ForkKind, HumanInteraction, KeptItem, Landed, Landing,
    MergeComplete, MergeEscalated, MergeResolution, MessageRange, NodeExecution, NodeStarted, Outcome, ParallelBranch,
    ParallelBranchCompleted, ParallelBranchStarted, ParallelCompleted, ParallelStarted, PauseReason, PhaseMerged,
    PipelineCancelled, PipelineCompleted, PipelineFailed, PipelinePaused, PipelineStarted, PriceUnknown, PushFailed,
    Recorded, RepoCloned, RepoFetched, Resumed, RetryAt, Route, RunStarted, SessionBranchCreated, SideCall, Snapshot,
    SnapshotRecorded, Status, StayingItem, StepFinished, TaskLanded, TaskOf, TaskStarted, ToolCall, ToolExecution,
    TurnCommitted, Usage, WarningCode, WorktreeCreated, WorktreeMergeConflict, WorktreeMerged,
};
use pleach_core::ids::{BranchName, CommitId, NodeId, RepoName, RepoPath, TurnId};
use serde_json::{Value, json};

fn node(id: &str) -> NodeId {
    id.parse().unwrap()
}

fn repo() -> RepoName {
    "repo".parse().unwrap()
}

fn branch() -> BranchName {
    "pleach/hello/abcdefgh".parse().unwrap()
}

fn commit(digit: u8) -> CommitId {
    CommitId::from_bytes([digit * 17; 20])
}

fn at(digit: u8) -> Snapshot {
    Snapshot::from([(repo(), commit(digit))])
}

fn turn(number: u64) -> TurnId {
    format!("main.{number}").parse().unwrap()
}

fn map<V>(pairs: impl IntoIterator<Item = (&'static str, V)>) -> std::collections::BTreeMap<String, V> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

pub fn every_event() -> Vec<Recorded> {
    let events = [
        session(),
        nodes(),
        turns(),
        checkpoints(),
        tasks(),
        money(),
        marks(),
        resumed(),
        told(),
        parallel(),
        remotes(),
        cleanups(),
        resolutions(),
    ]
    .concat();
    let begin: jiff::Timestamp = "2026-11-15T01:02:03.450Z".parse().unwrap();
    let at = |index: usize| begin + jiff::SignedDuration::from_millis(i64::try_from(index).unwrap() * 25);
    events.into_iter().enumerate().map(|(index, event)| Recorded { at: at(index), event }).collect()
}

/// What goes between repositories and their remotes.
fn remotes() -> Vec<Event> {
    let (remote, record) = ("https://git.example/b.git".to_owned(), "refs/pleach/sessions/abcdefgh/main".to_owned());
    vec![
        RepoCloned {
            repo: repo(),
            remote: remote.clone(),
            commit: commit(1),
            depth: Some(50),
            extra: Default::default(),
        }
        .into(),
        RepoFetched {
            repo: repo(),
            remote: remote.clone(),
            commit: commit(2),
            start: FetchedStart::Upstream,
            extra: Default::default(),
        }
        .into(),
        BranchPushed {
            repo: repo(),
            remote: remote.clone(),
            refs: BTreeMap::from([(format!("refs/heads/{}", branch()), commit(3)), (record.clone(), commit(4))]),
            extra: Default::default(),
        }
        .into(),
        PushFailed {
            repo: repo(),
            remote,
            refs: vec![record],
            why: "pre-receive hook declined".into(),
            retry_in: Some(20),
            extra: Default::default(),
        }
        .into(),
    ]
}

fn cleanups() -> Vec<Event> {
    let item = |kind, name: &str| CleanedItem {
        kind,
        name: name.into(),
        repo: repo(),
        session: None,
        commit: None,
        bytes: None,
        remote: None,
    };
    let session = Some("abcdefgh".parse().unwrap());
    let cleaned = CleanupCompleted {
        dry_run: false,
        removed: vec![
            CleanedItem {
                session: session.clone(),
                bytes: Some(81_920),
                ..item(CleanedKind::Worktree, "/w/abcdefgh/main")
            },
            CleanedItem { session, commit: Some(commit(1)), ..item(CleanedKind::Branch, branch().as_str()) },
            item(CleanedKind::Lock, "session-hgfedcba"),
        ],
        kept: vec![KeptItem { reference: "refs/pleach/keep/abcdefgh-1".into(), repo: repo() }],
        stays: vec![StayingItem {
            name: "session hgfedcba".into(),
            repo: repo(),
            why: "it is paused and can be resumed".into(),
        }],
        recent: 2,
        bytes: 81_920,
        extra: Default::default(),
    };
    vec![cleaned.into()]
}

/// What is told and not recorded.
fn told() -> Vec<Event> {
    let target: BranchName = "main".parse().unwrap();
    vec![
        RunStarted {
            tree: "task-tree.json".into(),
            repo: repo(),
            target: target.clone(),
            commit: commit(3),
            extra: Default::default(),
        }
        .into(),
        TaskStarted {
            task: "P1.T2".parse().unwrap(),
            title: "Greet the reader".into(),
            repo: Some(repo()),
            session: "abcdefgh".parse().unwrap(),
            number: Some(2),
            of: Some(5),
            resumed: true,
            extra: Default::default(),
        }
        .into(),
        TaskStarted {
            task: "P1".parse().unwrap(),
            title: "Greetings".into(),
            repo: None,
            session: "abcdefgh".parse().unwrap(),
            number: None,
            of: None,
            resumed: false,
            extra: Default::default(),
        }
        .into(),
        TaskLanded {
            task: "P1.T2".parse().unwrap(),
            status: Some("complete".into()),
            repo: repo(),
            target: target.clone(),
            commit: commit(4),
            done: 2,
            extra: Default::default(),
        }
        .into(),
        PhaseMerged {
            task: "P1".parse().unwrap(),
            repo: repo(),
            target,
            commit: commit(5),
            done: 2,
            extra: Default::default(),
        }
        .into(),
        MergeComplete {
            entry: "01J00000000000000000000001".parse().unwrap(),
            task: Some("task-abc234".parse().unwrap()),
            auto: true,
            branch: Some("pleach/tasks/main/task-abc234".parse().unwrap()),
            target: "main".parse().unwrap(),
            tier: Some("clean".into()),
            why: None,
            unverified: false,
            extra: Default::default(),
        }
        .into(),
        MergeEscalated {
            entry: "01J00000000000000000000002".parse().unwrap(),
            task: None,
            branch: Some("topic".parse().unwrap()),
            target: "main".parse().unwrap(),
            conflicts: 2,
            extra: Default::default(),
        }
        .into(),
        WarningCode::RebuiltGreen.with("P1.T2 was built anew on `main` and its tests pass there").into(),
        AgentSpoke {
            node_id: node("plan"),
            message: json!({"role": "assistant", "content": [{"type": "text", "text": "Hello"}]}),
            extra: Default::default(),
        }
        .into(),
        AgentWaits { node_id: node("plan"), why: Some("the model is busy".into()), extra: Default::default() }.into(),
    ]
}

/// A person's No, the run resumed at that node, and another context beside it.
fn resumed() -> Vec<Event> {
    let refused = executed(Outcome::final_failure("No"), Route::FailureTarget { to: node("plan") });
    vec![
        NodeExecution { output_digest: Some("cbf29ce484222325".into()), ..refused }.into(),
        Resumed { from: Some(node("test")), ..Resumed::default() }.into(),
        ContextForked {
            from: "main".parse().unwrap(),
            context: "tests".parse().unwrap(),
            kind: ForkKind::Parallel,
            node_id: node("tests"),
            base: at(2),
            branches: [(repo(), "pleach/hello/abcdefgh--tests".parse().unwrap())].into(),
            join: None,
            replayed: None,
            extra: Default::default(),
        }
        .into(),
    ]
}

fn session() -> Vec<Event> {
    vec![
        PipelineStarted {
            name: "hello".parse().unwrap(),
            goal: "Greet the reader".into(),
            dot: "digraph hello {\n\tstart -> exit // \u{e4}\n}\n".into(),
            dot_path: "examples/hello.dot".into(),
            files: map([("plan.md", "Plan: \"$goal\"\n".to_owned())]),
            inputs: map([("name", "World".to_owned())]),
            config: json!({"agent": "builtin", "budget": {"usd": 1.5}}),
            base: at(1),
            branches: [(repo(), branch())].into(),
            targets: [(repo(), "main".parse().unwrap())].into(),
            record_repo: None,
            simulated: true,
            task: None,
            resolves: None,
            extra: Default::default(),
        }
        .into(),
        Resumed::default().into(),
        SessionBranchCreated { repo: repo(), branch: branch(), base: commit(1), extra: Default::default() }.into(),
        WorktreeCreated { repo: repo(), name: "main".into(), extra: Default::default() }.into(),
        PipelinePaused {
            reason: PauseReason::WaitsForPerson,
            node_id: Some(node("approve")),
            why: None,
            extra: Default::default(),
        }
        .into(),
        PipelinePaused { reason: PauseReason::Interrupted, node_id: None, why: None, extra: Default::default() }.into(),
        PipelineCompleted { workspace_snapshot: at(2), extra: Default::default() }.into(),
        PipelineFailed { reason: "no way on".into(), node_id: Some(node("b")), extra: Default::default() }.into(),
        PipelineCancelled::default().into(),
    ]
}

fn executed(outcome: Outcome, route: Route) -> NodeExecution {
    NodeExecution {
        node_id: node("implement"),
        visit: 2,
        attempt: 3,
        outcome,
        route,
        duration_ms: 26_000,
        prompt: Some(3),
        response: Some(8),
        stderr: None,
        trees: at(3),
        output_digest: None,
        warnings: vec![WarningCode::FileHeldBack.with("big.bin was held back")],
        extra: Default::default(),
    }
}

fn nodes() -> Vec<Event> {
    let started = NodeStarted {
        node_id: node("implement"),
        visit: 2,
        attempt: 3,
        handler: "codergen".into(),
        base: at(1),
        starts_over: true,
        fidelity: Some("summary:high".into()),
        thread: Some("implement".into()),
        extra: Default::default(),
    };
    let plain = NodeStarted { starts_over: false, fidelity: None, thread: None, ..started.clone() };
    let full = Outcome {
        status: Status::PartialSuccess,
        preferred_label: Some("[A] Approve".into()),
        suggested_next_ids: vec!["test".into()],
        context_updates: map([("last_stage", json!("implement")), ("score", json!(0.1))]),
        notes: Some("two files written".into()),
        failure_reason: Some("one test is slow".into()),
        failure_class: FailureClass::Transient,
    };
    let mut executions = vec![executed(full, Route::Edge { to: node("test") }).into()];
    let least = NodeExecution {
        prompt: None,
        response: None,
        stderr: None,
        trees: Snapshot::new(),
        warnings: Vec::new(),
        ..executed(Outcome::success(), Route::Complete)
    };
    executions.push(least.into());
    let routes = [
        (Status::Fail, Route::FailureTarget { to: node("plan") }),
        (Status::Success, Route::GateRetry { gate: node("review"), to: node("plan") }),
        (Status::Skipped, Route::Restart { to: node("plan") }),
        (Status::Retry, Route::Retry),
        (Status::Custom("needs_dba".into()), Route::Fail { reason: "no edge leads on".into() }),
    ];
    executions.extend(routes.map(|(status, route)| executed(Outcome::of(status), route).into()));
    let retry_at = "2026-11-15T01:02:31.000Z".parse().unwrap();
    let answer = HumanInteraction {
        node_id: node("approve"),
        visit: 1,
        question: "Ship it?".into(),
        options: vec!["[A] Approve".into(), "[R] Revise".into()],
        answer: "[A] Approve".into(),
        comment: None,
        source: "console".into(),
        by: None,
        extra: Default::default(),
    };
    let retry = RetryAt { node_id: node("implement"), visit: 2, attempt: 4, at: retry_at, extra: Default::default() };
    [vec![started.into(), plain.into()], executions, vec![retry.into(), answer.into()]].concat()
}

fn turns() -> Vec<Event> {
    let full = AgentTurn {
        turn: turn(17),
        turn_number: 17,
        node_id: node("implement"),
        visit: 2,
        attempt: 3,
        agent: "builtin".into(),
        model: "scripted".into(),
        provider: "script".into(),
        messages: Some(MessageRange { first: 3, last: 5 }),
        tool_calls: vec![ToolCall {
            id: "call_1".into(),
            name: "write_file".into(),
            arguments: json!({"file_path": "hello.txt", "content": "hello\n"}),
            is_error: false,
        }],
        files_written: [(repo(), vec![RepoPath::from("hello.txt"), RepoPath::new(&b"caf\xe9.txt"[..])])].into(),
        token_usage: Usage {
            input: 812,
            cache_read: 4096,
            cache_write: 7,
            output: 64,
            reasoning: 12,
            cache_write_1h: 0,
            web_searches: 0,
        },
        cost_usd: Some(0.1),
        estimated: false,
        unbilled: false,
        side_calls: Vec::new(),
        git_sha: Some(at(4)),
        agent_head: Some(at(5)),
        commit_message: Some("Add a greeting\n\nThe reader is greeted.".into()),
        boundary: "exact".into(),
        agent_state_ref: Some(json!({"messages": {"first": 1, "last": 5}})),
        is_last: false,
        extra: Default::default(),
    };
    let least = AgentTurn {
        messages: None,
        tool_calls: Vec::new(),
        files_written: Default::default(),
        token_usage: Usage::default(),
        cost_usd: None,
        git_sha: None,
        agent_head: None,
        commit_message: None,
        agent_state_ref: None,
        ..full.clone()
    };
    let tool = ToolExecution {
        turn: turn(18),
        turn_number: 18,
        node_id: node("test"),
        visit: 1,
        attempt: 1,
        command: "sh test.sh && echo \"ok\"".into(),
        exit: "exit 1".into(),
        duration_ms: 412,
        output: Some(9),
        files_written: [(repo(), vec![RepoPath::from("out/log.txt")])].into(),
        git_sha: Some(at(6)),
        commit_message: Some("Run test".into()),
        extra: Default::default(),
    };
    let committed =
        TurnCommitted { turn: turn(17), repo: repo(), branch: branch(), git_sha: commit(4), extra: Default::default() };
    vec![full.into(), least.into(), tool.into(), committed.into()]
}

fn checkpoints() -> Vec<Event> {
    let context: BTreeMap<String, Value> = map([("last_stage", json!("implement")), ("list", json!([1, null, true]))]);
    let full = Checkpoint {
        current_node: node("implement"),
        completed_nodes: vec![node("start"), node("implement")].into(),
        node_outcomes: BTreeMap::from([
            (node("start"), Status::Success),
            (node("implement"), Status::Custom("odd".into())),
        ])
        .into(),
        context,
        node_retries: [(node("implement"), 2)].into(),
        visits: BTreeMap::from([(node("implement"), 2), (node("start"), 1)]).into(),
        next_node: Some(node("test")),
        workspace_snapshot: Some(at(4)),
        extra: Default::default(),
    };
    let least = Checkpoint {
        current_node: node("exit"),
        completed_nodes: Default::default(),
        node_outcomes: Default::default(),
        context: Default::default(),
        node_retries: Default::default(),
        visits: Default::default(),
        next_node: None,
        workspace_snapshot: None,
        extra: Default::default(),
    };
    let recorded = SnapshotRecorded { workspace_snapshot: at(4), extra: Default::default() };
    vec![full.into(), least.into(), recorded.into()]
}

fn tasks() -> Vec<Event> {
    let task = TaskOf {
        repo: repo(),
        target: "main".parse().unwrap(),
        tree: "spec/task-tree.json".into(),
        id: "T001".parse().unwrap(),
        name: "Create schema".into(),
        base: commit(1),
        commits: Commits::Steps,
        status: Some("test-fail".into()),
    };
    let Event::PipelineStarted(started) = session().swap_remove(0) else { unreachable!("a session begins so") };
    let feedback = Feedback::new(FeedbackKind::TestFailure, "1 failed\n");
    vec![
        PipelineStarted { task: Some(task), ..started }.into(),
        AttemptStarted {
            retry: 1,
            number: 2,
            of: 5,
            start: node("start"),
            code: commit(5),
            laid: None,
            feedback: vec![feedback.clone()],
            extra: Default::default(),
        }
        .into(),
        StepFinished {
            repo: repo(),
            task: "T001".parse().unwrap(),
            step: "test".into(),
            status: "test-fail".into(),
            attempt: Some(1),
            parent: commit(1),
            tree: commit(6),
            subject: "task(main@T001@test-fail): tests fail for \"Create schema\" (attempt 2/5)".into(),
            body: "Test (unit) stdout (last 1000 chars):\n1 failed".into(),
            trailers: vec![("Arborist-Step".into(), "test".into()), ("Arborist-Test".into(), "fail".into())],
            date: "2026-11-15T01:02:03Z".parse().unwrap(),
            git_sha: commit(7),
            code: commit(5),
            failing: vec!["test_schema".into()],
            feedback: Some(feedback),
            log: None,
            report: None,
            extra: Default::default(),
        }
        .into(),
        Landing {
            repo: repo(),
            target: "main".parse().unwrap(),
            from: commit(1),
            to: commit(7),
            extra: Default::default(),
        }
        .into(),
        Landed { repo: repo(), target: "main".parse().unwrap(), commit: commit(7), extra: Default::default() }.into(),
    ]
}

fn money() -> Vec<Event> {
    let Event::AgentTurn(turn) = turns().swap_remove(1) else { unreachable!("an agent's turn") };
    let side_call = SideCall {
        purpose: "commit_message".into(),
        model: "small".into(),
        provider: "anthropic".into(),
        token_usage: Usage { input: 300, output: 20, ..Usage::default() },
        cost_usd: None,
        estimated: false,
    };
    let exceeded = BudgetExceeded {
        limit: "budget.usd".into(),
        scope: "node".into(),
        node_id: Some(node("implement")),
        spent: 1.25,
        of: 1.0,
        action: "pause".into(),
        text: "the budget of node `implement` is used up: $1.25 of $1.00 (`budget.usd`)".into(),
        extra: Default::default(),
    };
    let paused = PipelinePaused {
        reason: PauseReason::OverBudget,
        node_id: Some(node("implement")),
        why: Some("the budget is used up".into()),
        extra: Default::default(),
    };
    vec![
        AgentTurn { side_calls: vec![side_call], ..turn }.into(),
        exceeded.into(),
        PriceUnknown { model: "small".into(), text: "its price is not known".into(), extra: Default::default() }.into(),
        paused.into(),
    ]
}

fn marks() -> Vec<Event> {
    let Event::AgentTurn(turn) = turns().swap_remove(1) else { unreachable!("an agent's turn") };
    let unbilled = AgentTurn { unbilled: true, ..turn.clone() };
    vec![
        AgentTurn { is_last: true, ..turn.clone() }.into(),
        AgentTurn { estimated: true, ..turn }.into(),
        unbilled.into(),
    ]
}

fn parallel() -> Vec<Event> {
    let context = |id: &str| id.parse().unwrap();
    let branch = |id: &str, read_only| ParallelBranch { context: context(id), node_id: node(id), read_only };
    let path = ConflictedPath {
        path: "src/a.rs".into(),
        kind: ConflictKind::ModifyDelete,
        base: Some(commit(1)),
        ours: None,
        theirs: Some(commit(3)),
    };
    let completed = ParallelBranchCompleted {
        node_id: node("fork"),
        context: context("tests"),
        outcome: Outcome::success(),
        stopped: false,
        score: Some(0.5),
        work: at(2),
        goal_gates: [(node("check"), Status::Success)].into(),
        extra: Default::default(),
    };
    let (stopped, none) =
        (ParallelBranchCompleted { stopped: true, score: None, ..completed.clone() }, Default::default());
    vec![
        ContextForked {
            from: "main".parse().unwrap(),
            context: context("look"),
            kind: ForkKind::Parallel,
            node_id: node("look"),
            base: at(2),
            branches: Default::default(),
            join: Some(node("together")),
            replayed: None,
            extra: Default::default(),
        }
        .into(),
        ParallelStarted {
            node_id: node("fork"),
            visit: 2,
            attempt: 1,
            join: node("together"),
            join_policy: "quorum".into(),
            error_policy: "fail_fast".into(),
            max_parallel: 4,
            branches: vec![branch("tests", false), branch("look", true)],
            extra: Default::default(),
        }
        .into(),
        ParallelBranchStarted {
            fan_out: node("fork"),
            context: context("tests"),
            node_id: node("tests"),
            extra: Default::default(),
        }
        .into(),
        completed.into(),
        ParallelBranchCompleted { goal_gates: none, ..stopped }.into(),
        ParallelCompleted {
            node_id: node("fork"),
            visit: 2,
            attempt: 1,
            succeeded: 1,
            failed: 0,
            stopped: 1,
            extra: Default::default(),
        }
        .into(),
        WorktreeMerged { repo: repo(), context: context("tests"), git_sha: commit(4), extra: Default::default() }
            .into(),
        ContextJoined {
            node_id: node("together"),
            contexts: vec![context("tests")],
            policy: "merge".into(),
            result: at(4),
            extra: Default::default(),
        }
        .into(),
        WorktreeMergeConflict {
            repo: repo(),
            context: context("more"),
            theirs: commit(3),
            paths: vec![path],
            extra: Default::default(),
        }
        .into(),
    ]
}

/// What agents do with conflicts in the merge queue.
fn resolutions() -> Vec<Event> {
    vec![
        MergeResolution {
            entry: "01J00000000000000000000003".parse().unwrap(),
            task: Some("T006".parse().unwrap()),
            branch: Some("pleach/tasks/main/T006".parse().unwrap()),
            target: "main".parse().unwrap(),
            session: "abcdefgh".parse().unwrap(),
            text: "resolving a conflict with T004 in src/a.rs".into(),
            paths: vec!["src/a.rs".into()],
            with: vec!["T004".into()],
            resolved: None,
            extra: Default::default(),
        }
        .into(),
    ]
}
