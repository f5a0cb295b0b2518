//! `pleach pr` and `task new --from-issue`, with programs that play `gh` and `glab`.

mod issues;
mod page;
mod refusals;
mod tasks;

use std::path::PathBuf;

use crate::remotes::{World, refs_in};
use crate::sessions::{graph, tool};
use crate::support::{Ran, TestEnv};

/// Plays `gh`: notes its arguments, one a line, and keeps the text of a request, which is open from then on.
const GH: &str = r#"#!/bin/sh
here=$(dirname "$0")/..
printf '%s\n' "$@" "prompts=$GH_PROMPT_DISABLED" >> "$here/gh.log"
case "$1 $2" in
"pr list") cat "$here/open.json" 2> /dev/null || echo '[]' ;;
"pr create")
    cat > "$here/body-$(basename "$PWD").md"
    echo '[{"url": "https://github.example/o/r/pull/7"}]' > "$here/open.json"
    echo "Creating pull request" >&2
    echo https://github.example/o/r/pull/7 ;;
"issue view") cat "$here/issue.json" ;;
esac
"#;

/// Plays `glab` in the same way.
const GLAB: &str = r#"#!/bin/sh
here=$(dirname "$0")/..
printf '%s\n' "$@" >> "$here/glab.log"
case "$1 $2" in
"mr list") echo '[]' ;;
"mr create") echo https://gitlab.example/o/r/-/merge_requests/3 ;;
"issue view") echo '{"title": "From GitLab", "description": "Text.", "web_url": "https://gitlab.example/o/r/-/issues/5"}' ;;
esac
"#;

/// A clone with a remote that is not pushed to by itself.
fn world() -> World {
    let world = World::cloned();
    world.configure("remote: remote.git, push: never", "");
    world
}

/// A pipeline with a goal.
fn goal(command: &str) -> String {
    let body = tool("work", command) + "start -> work -> exit";
    graph("grow", &format!("goal=\"Make it grow\"\n{body}"))
}

impl World {
    fn play(&self, program: &str, script: &str) {
        self.env.write_program(format!("bin/{program}"), script);
    }

    /// Runs pleach with nothing on PATH but what git needs, and these programs of the test's own.
    fn pleach_with_only(&self, programs: &[&str], args: &[&str]) -> Ran {
        let dir = self.env.root().join(format!("only-{}", programs.len()));
        let _ = std::fs::create_dir(&dir);
        let on_path = |name: &str| PathBuf::from(self.env.program(name, self.env.root()).get_program());
        let usual = ["git", "sh", "cat", "dirname", "basename"].map(|name| (name, on_path(name)));
        let own = programs.iter().map(|name| (*name, self.env.root().join("bin").join(name)));
        for (name, place) in usual.into_iter().chain(own) {
            let _ = std::os::unix::fs::symlink(place, dir.join(name));
        }
        let mut command = self.env.command(args);
        command.env("PATH", dir);
        self.env.finish(command.output().expect("pleach can be started"))
    }

    fn branch_at_remote(&self) -> Option<String> {
        self.at_remote(&format!("refs/heads/{}", self.env.branch()))
    }
}

#[test]
fn a_request_says_what_was_done() {
    let world = world();
    world.play("gh", GH);
    world.run(&goal("echo 1 > one"), &[]).expect(0);
    let (env, sid) = (&world.env, world.env.session());
    assert_eq!(world.branch_at_remote(), None);
    let ran = env.pleach(&["pr", &sid]).expect(0);
    assert_eq!(ran.stdout, "opened https://github.example/o/r/pull/7\n");
    assert_eq!(world.branch_at_remote(), Some(env.git(&["rev-parse", &env.branch()])));
    let log = env.read("gh.log");
    let head = format!("--head={}", env.branch());
    for argument in [&head, "--base=main", "--title=Make it grow", "--body-file=-", "prompts=1"] {
        assert!(log.lines().any(|line| line == argument), "{argument}: {log}");
    }
    assert!(!log.contains("--draft"), "{log}");
    let body = env.read("body-repo.md");
    let commit = env.git(&["rev-parse", "--short=7", &env.branch()]);
    let subject = env.git(&["log", "-1", "--format=%s", &env.branch()]);
    for part in
        ["Make it grow", "## What was done", &subject, &commit, "`echo 1 > one` of work: exit 0", &sid, "1 turn"]
    {
        assert!(body.contains(part), "{part}: {body}");
    }
    // A second one updates it.
    let again = env.pleach(&["--json", "pr", &sid, "--draft"]).expect(0).json();
    let request = &again["requests"][0];
    assert_eq!((&request["state"], &request["base"]), (&"updated".into(), &"main".into()));
    assert_eq!(request["url"], "https://github.example/o/r/pull/7");
    assert_eq!(env.read("gh.log").matches("pr\ncreate").count(), 1);
}

#[test]
fn a_branch_that_was_pushed_beside_keeps_that_name() {
    let world = World::cloned();
    world.play("gh", GH);
    world.configure("remote: remote.git", "");
    world.hook("pre-receive", "exit 1");
    world.run(&goal("echo 1 > one"), &[]).expect(0);
    std::fs::remove_file(world.bare().join("hooks/pre-receive")).unwrap();
    // The name is taken before the session is there.
    let (env, sid, branch) = (&world.env, world.env.session(), format!("refs/heads/{}", world.env.branch()));
    let theirs = world.commit_elsewhere("remote", "theirs");
    env.git_in(&world.bare(), &["update-ref", &branch, &theirs]);
    env.pleach(&["pr", &sid]).expect(5).fails_with("push-refused").naming("other commits");
    env.pleach(&["push", &sid]).expect(0).warns("pushed-beside");
    let request = env.pleach(&["--json", "pr", &sid]).expect(0).json()["requests"][0].clone();
    let beside = format!("{}@2", env.branch());
    assert_eq!((&request["branch"], &request["state"]), (&beside.as_str().into(), &"opened".into()), "{request}");
    assert!(env.read("gh.log").lines().any(|line| line == format!("--head={beside}")));
    assert_eq!(world.at_remote(&branch), Some(theirs));
    assert_eq!(world.at_remote(&format!("{branch}@2")), Some(env.git(&["rev-parse", &env.branch()])));
}

#[test]
fn a_merge_request_is_opened_with_glab() {
    let world = world();
    world.play("glab", GLAB);
    world.run(&goal("echo 1 > one"), &[]).expect(0);
    let sid = world.env.session();
    let ran = world.pleach_with_only(&["glab"], &["pr", &sid, "--base", "next", "--draft"]).expect(0);
    assert_eq!(ran.stdout, "opened https://gitlab.example/o/r/-/merge_requests/3\n");
    let log = world.env.read("glab.log");
    let source = format!("--source-branch={}", world.env.branch());
    for argument in [&source, "--target-branch=next", "--title=Make it grow", "--yes", "--draft"] {
        assert!(log.lines().any(|line| line == argument), "{argument}: {log}");
    }
    assert!(log.contains("--description=Make it grow\n\n## What was done"), "{log}");
}

#[test]
fn without_a_program_the_link_of_the_remote_is_printed() {
    let world = world();
    let said = "echo 'Create a pull request by visiting:'; echo '  https://git.example/o/r/pull/new/x'";
    world.hook("post-receive", said);
    world.run(&goal("echo 1 > one"), &[]).expect(0);
    let sid = world.env.session();
    let ran = world.pleach_with_only(&[], &["pr", &sid]).expect(0);
    assert_eq!(ran.stdout, "open the pull request at https://git.example/o/r/pull/new/x\n");
    assert!(world.branch_at_remote().is_some());
    // Where it says nothing, the user is told what to do.
    let ran = world.pleach_with_only(&[], &["pr", &sid]).expect(0);
    let expected = format!("open a pull request of {} into main at ", world.env.branch());
    assert!(ran.stdout.starts_with(&expected), "{ran}");
}

#[test]
fn over_several_repositories_there_is_one_for_each() {
    let env = TestEnv::with_two_repos();
    let bare = |name: &str| -> PathBuf { env.root().join(format!("{name}.git")) };
    for (name, dir) in [("app", env.repo_path()), ("web", env.web())] {
        env.git_in(env.root(), &["clone", "--quiet", "--bare", dir.to_str().unwrap(), bare(name).to_str().unwrap()]);
        env.git_in(&dir, &["remote", "add", "origin", bare(name).to_str().unwrap()]);
    }
    env.write_program("bin/gh", &GH.replace("> \"$here/open.json\"", "> /dev/null"));
    env.run(&graph("both", &(tool("work", "echo 1 > app/one; echo 2 > web/two") + "start -> work -> exit")), &[])
        .expect(0);
    // Nothing is pushed before it is known that everything can be.
    let taken = format!("refs/heads/{}", env.branch_in("web"));
    let theirs = env.git_in(&env.web(), &["commit-tree", "-m", "Theirs", "HEAD^{tree}"]);
    env.git_in(&env.web(), &["push", "--quiet", "origin", &format!("{theirs}:{taken}")]);
    env.pleach(&["pr", &env.session()]).expect(5).fails_with("push-refused").naming("web.git");
    assert_eq!(refs_in(&env, &bare("app"), &format!("refs/heads/{}", env.branch_in("app"))), []);
    env.git_in(&bare("web"), &["update-ref", "-d", &taken]);
    let told = env.pleach(&["--json", "pr", &env.session()]).expect(0).json();
    let branches = [env.branch_in("app"), env.branch_in("web")];
    for (index, name) in ["app", "web"].into_iter().enumerate() {
        let request = &told["requests"][index];
        assert_eq!((&request["repo"], &request["branch"]), (&name.into(), &branches[index].as_str().into()));
        assert_eq!(request["state"], "opened");
        assert_eq!(refs_in(&env, &bare(name), &format!("refs/heads/{}", branches[index])).len(), 1);
    }
    let texts = [env.read("body-repo.md"), env.read("body-web.md")];
    assert!(texts[0].contains(&format!("`{}` of web", branches[1])), "{}", texts[0]);
    assert!(texts[1].contains(&format!("`{}` of app", branches[0])), "{}", texts[1]);
}
