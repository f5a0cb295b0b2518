//! What git's filters make of files, compared with git itself.

use std::fs;

use git::HoldReason;

use super::{Sandbox, names, record, told};

/// A filter that speaks git's protocol for long-running filters and makes everything upper case.
const PROCESS_FILTER: &str = r#"#!/bin/sh
receive() {
    length=$(dd bs=1 count=4 2>/dev/null)
    [ -n "$length" ] || exit 0
    if [ "$length" = 0000 ]; then packet=; return 1; fi
    packet=$(dd bs=1 count=$((0x$length - 4)) 2>/dev/null; echo .)
    packet=${packet%.}
}
send() { printf '%04x%s' $((${#1} + 4)) "$1"; }
flush() { printf 0000; }
line() { send "$1
"; }
while receive; do :; done
line git-filter-server; line version=2; flush
while receive; do :; done
line capability=clean; flush
while :; do
    while receive; do :; done
    content=
    while receive; do content=$content$packet; done
    line status=success; flush
    send "$(printf %s "$content" | tr a-z A-Z; echo .)"
    flush; flush
done
"#;

fn script(sandbox: &Sandbox, name: &str, text: &str) -> String {
    format!("'{}'", sandbox.write_program(name, text).display())
}

#[test]
fn every_filter_gives_what_git_add_gives() {
    let sandbox = Sandbox::new();
    let process = script(&sandbox, "process", PROCESS_FILTER);
    let clean = script(&sandbox, "clean", "#!/bin/sh\nsed s/secret/xxx/\n");
    let fails = script(&sandbox, "fails", "#!/bin/sh\ncat >/dev/null; exit 1\n");
    for (key, value) in [
        ("core.autocrlf", "true"),
        ("core.safecrlf", "true"),
        ("filter.process.process", process.as_str()),
        ("filter.clean.clean", clean.as_str()),
        ("filter.fails.clean", fails.as_str()),
    ] {
        sandbox.git("repo", &["config", key, value]);
    }
    let attributes = "*.lf text eol=lf\n*.crlf text eol=crlf\n*.bin -text\n*.id ident\n*.up filter=process\n\
                      *.clean filter=clean\n*.fails filter=fails\n*.utf16 text working-tree-encoding=UTF-16\n\
                      *.both filter=clean text eol=lf ident\n";
    sandbox.write("repo/.gitattributes", attributes);
    sandbox.git("repo", &["-c", "core.autocrlf=false", "-c", "core.safecrlf=false", "add", ".gitattributes"]);
    // A file that has CRLF in the repository already keeps it.
    sandbox.write("repo/old", "crlf\r\nin git\r\n");
    sandbox.git("repo", &["-c", "core.autocrlf=false", "add", "old"]);
    sandbox.git("repo", &["commit", "-qm", "attributes"]);
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    let utf16: Vec<u8> =
        std::iter::once(0xfeff_u16).chain("h\u{e4}\r\n".encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let files: [(&str, &[u8]); 14] = [
        ("plain", b"one\r\ntwo\r\n"),
        ("mixed", b"one\r\ntwo\nthree\r\n"),
        ("old", b"crlf\r\nstill in git\r\n"),
        ("x.lf", b"a\r\nb\r\n"),
        ("x.crlf", b"a\r\nb\r\n"),
        ("x.bin", b"a\r\nb\r\n\0"),
        ("x.id", b"$Id: 0123456789012345678901234567890123456789 $\n"),
        ("x.up", b"upper\n"),
        ("y.up", b"case\n"),
        ("x.clean", b"a secret\n"),
        ("x.fails", b"as it is\n"),
        ("x.utf16", &utf16),
        ("x.both", b"secret\r\n$Id: x $\r\n"),
        ("empty.lf", b""),
    ];
    for (name, content) in files {
        fs::write(root.join(name), content).unwrap();
    }
    fs::create_dir(root.join("sub")).unwrap();
    fs::write(root.join("sub/.gitattributes"), "*.txt -text\n").unwrap();
    fs::write(root.join("sub/x.txt"), "kept\r\n").unwrap();
    sandbox.git("repo", &["config", "core.safecrlf", "false"]);
    let expected = sandbox.git_tree(&root);
    let written = record(&repo, &mut worktree);
    let difference = sandbox.git("repo", &["diff", "--no-textconv", "-a", &expected, &written.tree.to_string()]);
    assert_eq!(written.tree.to_string(), expected, "{difference}");
    assert!(written.held_back.is_empty(), "{:?}", written.held_back);
    let file = |name: &str| repo.tree_file(written.tree, &name.into()).unwrap().unwrap();
    assert_eq!(file("x.up"), b"UPPER\n.\n"[..b"UPPER\n.".len()]);
    assert_eq!(file("x.clean"), b"a xxx\n");
    assert_eq!(file("plain"), b"one\ntwo\n");
    assert!(git::worktree::scan_all(&mut worktree).unwrap().is_empty());
}

#[test]
fn a_required_filter_that_fails_holds_the_file_back() {
    let sandbox = Sandbox::new();
    let fails = script(&sandbox, "fails", "#!/bin/sh\ncat >/dev/null; exit 1\n");
    sandbox.git("repo", &["config", "filter.must.clean", &fails]);
    sandbox.git("repo", &["config", "filter.must.required", "true"]);
    sandbox.write("repo/.gitattributes", "*.must filter=must\n");
    sandbox.commit("repo", "attributes");
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    fs::write(worktree.root().join("x.must"), "x").unwrap();
    fs::write(worktree.root().join("a.txt"), "changed").unwrap();
    let written = record(&repo, &mut worktree);
    assert_eq!(names(&written.paths), ["a.txt"]);
    assert!(matches!(&written.held_back[..], [held] if matches!(held.reason, HoldReason::Filter(_))), "{written:?}");
    let said = told(&written.warnings);
    assert!(said[0].starts_with("file-held-back: `x.must` is not committed: its git filter failed"), "{said:?}");
}

#[test]
fn lfs_attributes_without_lfs_are_pointed_out() {
    let sandbox = Sandbox::new();
    sandbox.write("repo/.gitattributes", "*.big filter=lfs diff=lfs merge=lfs -text\n");
    sandbox.commit("repo", "attributes");
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    fs::write(worktree.root().join("x.big"), "not a pointer\r\n").unwrap();
    let expected = sandbox.git_tree(worktree.root());
    let written = record(&repo, &mut worktree);
    assert_eq!(written.tree.to_string(), expected, "git commits the content, so do we");
    assert_eq!(
        told(&written.warnings),
        ["filter-missing: `x.big` is committed unfiltered: its git filter `lfs` is not installed"]
    );
    // Configured, as `git lfs install` leaves it, but the program is gone.
    for (key, value) in
        [("process", "no-such-git-lfs filter-process"), ("clean", "no-such-git-lfs clean -- %f"), ("required", "true")]
    {
        sandbox.git("repo", &["config", &format!("filter.lfs.{key}"), value]);
    }
    let repo = sandbox.open("repo");
    let mut worktree = git::worktree::open(&repo, worktree.root()).unwrap();
    fs::write(worktree.root().join("y.big"), "not a pointer either\r\n").unwrap();
    let written = record(&repo, &mut worktree);
    let held: Vec<_> = written.held_back.iter().map(|held| held.path.to_string()).collect();
    assert_eq!(held, ["x.big", "y.big"]);
}

#[test]
fn a_filter_written_into_the_config_later_never_runs() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    let proof = sandbox.path("proof");
    let evil = script(&sandbox, "evil", &format!("#!/bin/sh\ntouch '{}'\ncat\n", proof.display()));
    sandbox.git(&root, &["config", "filter.evil.clean", &evil]);
    sandbox.git(&root, &["config", "filter.evil.smudge", &evil]);
    fs::write(root.join(".gitattributes"), "* filter=evil\n").unwrap();
    fs::write(root.join("a.txt"), "changed\n").unwrap();
    record(&repo, &mut worktree);
    let mut opened = git::worktree::open(&repo, &root).unwrap();
    record(&repo, &mut opened);
    git::worktree::restore(&mut opened, repo.tree_of(repo.head().unwrap().commit).unwrap()).unwrap();
    assert!(!proof.exists(), "neither the held handle nor one opened later from the same repository runs it");
    fs::write(root.join(".gitattributes"), "* filter=evil\n").unwrap();
    fs::write(root.join("a.txt"), "again\n").unwrap();
    sandbox.git(&root, &["add", "a.txt"]);
    assert!(proof.exists(), "git itself does, so this test can fail");
}

#[test]
fn the_users_own_ignore_file_and_settings_count() {
    let sandbox = Sandbox::new();
    sandbox.write("home/.config/git/ignore", "*.swp\n");
    sandbox.write("home/.gitconfig", "[core]\n\tautocrlf = input\n\texcludesFile = ~/ignored\n");
    sandbox.write("home/ignored", "*.bak\n");
    let repo = sandbox.open("repo");
    let mut worktree = sandbox.worktree(&repo);
    let root = worktree.root().to_owned();
    for name in ["x.swp", "x.bak", "crlf"] {
        fs::write(root.join(name), "a\r\n").unwrap();
    }
    let expected = sandbox.git_tree(&root);
    let written = record(&repo, &mut worktree);
    assert_eq!((written.tree.to_string(), names(&written.paths)), (expected, vec!["crlf".into(), "x.swp".into()]));
}
