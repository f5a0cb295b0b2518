//! Checkouts an agent pretends: it can write what git believes of its own worktree. pleach goes by what it knows itself, and
//! runs git in no place an agent named.

use crate::sessions::{Gate, Story, graph, tool};
use crate::support::{Checkout, TestEnv};
use crate::trees::garden::{Garden, Tree};

/// The worktree's git directory, the common one, and the worktree, as a shell there names them.
const PLACES: &str = "A=$(git rev-parse --absolute-git-dir); \
                      C=$(git rev-parse --path-format=absolute --git-common-dir); W=$PWD";

/// A repository of the agent's own whose filter leaves a trace where no agent can write, with a branch checked out that is
/// somebody else's.
const FAKE: &str = "git init -q fake; mv fake/.git/* fake/; echo $C/objects > fake/objects/info/alternates; \
                    echo '* filter=x' > fake/info/attributes; echo \"ref: refs/heads/$B\" > fake/HEAD; \
                    mkdir -p $(dirname fake/refs/heads/$B); git rev-parse refs/heads/$B > fake/refs/heads/$B; \
                    F=\"git --git-dir=$W/fake config\"; $F core.bare false; $F core.worktree $W; \
                    $F filter.x.smudge 'touch ~/ran; cat'; $F filter.x.clean 'touch ~/ran; cat'; \
                    GIT_DIR=$W/fake git read-tree HEAD";

fn branch_of(env: &TestEnv, session: &str) -> String {
    let started = Story::of(env, &env.repo_path(), session).first("PipelineStarted");
    started["branches"]["repo"].as_str().expect("a branch").to_owned()
}

#[test]
fn no_git_runs_where_an_agent_claims_a_checkout() {
    for plant in [
        "echo \"gitdir: $W/fake\" > .git",
        "mkdir sub; echo \"gitdir: $W/fake\" > sub/.git; echo $W/sub/.git > $A/gitdir",
        "mkdir sub; echo \"gitdir: $A\" > sub/.git; echo $W/sub/.git > $A/gitdir",
        "echo $C > $A/gitdir",
    ] {
        let env = TestEnv::with_repo();
        let gates = [Gate::new(&env, "victim"), Gate::new(&env, "agent")];
        let work = tool("first", "echo 1 > one") + &tool("second", &format!("({}); echo 2 > two", gates[0].command()));
        let mut victim = env.start(&graph("victim", &(work + "start -> first -> second -> exit")), &[]);
        let victim_waits = gates[0].reached(&mut victim);
        let session = env.session();
        let branch = branch_of(&env, &session);
        let before = Checkout::of(&env, &env.repo_path());
        let command = format!(
            "{PLACES}; B={branch}; {FAKE}; {plant}; echo \"ref: refs/heads/$B\" > $A/HEAD; {}",
            gates[1].command()
        );
        let mut agent = env.start(&graph("agent", &(tool("work", &command) + "start -> work -> exit")), &[]);
        let agent_waits = gates[1].reached(&mut agent);
        gates[0].open(victim_waits);
        let ran = victim.end().expect(0);
        assert!(!env.root().join("home/ran").exists(), "{plant}: {ran}");
        before.assert_unchanged(&env, &env.repo_path());
        assert_eq!(env.git(&["show", &format!("{branch}:two")]), "2", "{plant}: {ran}");
        ran.does_not_warn("branch-behind");
        gates[1].open(agent_waits);
        agent.end();
        assert!(!env.root().join("home/ran").exists(), "{plant}");
        before.assert_unchanged(&env, &env.repo_path());
    }
}

#[test]
fn an_agent_claiming_the_target_does_not_block_landing() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let env = &garden.env;
    let gate = Gate::new(env, "agent");
    let plant = "echo 'ref: refs/heads/main' > $A/HEAD; mkdir $A/rebase-merge; \
                 echo refs/heads/main > $A/rebase-merge/head-name; touch $A/locked";
    let command = format!("{PLACES}; {plant}; {}", gate.command());
    let mut agent = env.start(&graph("agent", &(tool("work", &command) + "start -> work -> exit")), &[]);
    let waits = gate.reached(&mut agent);
    agent.kill(waits);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001"]);
}

#[test]
fn a_dismantled_worktree_does_not_block_the_next_start() {
    for plant in [
        ": > $A/commondir",
        "rm $A/commondir; mkdir $A/commondir",
        "rm $A/commondir; ln -s ../../refs $A/commondir",
        "truncate -s 1G $A/commondir",
    ] {
        let env = TestEnv::with_repo();
        let gate = Gate::new(&env, "agent");
        let command = format!("{PLACES}; {plant}; {}", gate.command());
        let mut agent = env.start(&graph("agent", &(tool("work", &command) + "start -> work -> exit")), &[]);
        let waits = gate.reached(&mut agent);
        agent.kill(waits);
        env.run(&graph("other", &(tool("work", "echo 1 > one") + "start -> work -> exit")), &[]).expect(0);
    }
}

#[test]
fn an_agents_claims_never_remove_something_else() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "agent");
    let command = format!("{PLACES}; echo ~/$PLEACH_SESSION/mine/.git > $A/gitdir; {}", gate.command());
    let mut agent = env.start(&graph("agent", &(tool("work", &command) + "start -> work -> exit")), &[]);
    let waits = gate.reached(&mut agent);
    agent.kill(waits);
    let session = env.session();
    let mine = env.write(format!("home/{session}/mine/file"), "mine\n");
    let status = env.pleach(&["status", &session]).expect(0);
    assert!(!status.stdout.contains("mine"), "{status}");
    env.pleach(&["rm", "--force", &session]).expect(0);
    assert_eq!(env.read(mine), "mine\n");
    assert_eq!(env.git(&["worktree", "list"]).lines().count(), 1, "its own is gone");
}
