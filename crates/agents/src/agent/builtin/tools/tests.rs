use std::fs;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::agent::builtin::BuiltinLimits;

struct Bench {
    dir: TempDir,
    jail: Jail,
}

impl Bench {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let jail = Jail::new(dir.path(), dir.path(), None).unwrap();
        Self { dir, jail }
    }

    fn with(files: &[(&str, &[u8])]) -> Self {
        let bench = Self::new();
        for (name, content) in files {
            bench.put(name, content);
        }
        bench
    }

    fn put(&self, name: &str, content: &[u8]) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn get(&self, name: &str) -> Vec<u8> {
        fs::read(self.dir.path().join(name)).unwrap()
    }

    fn run(&self, tool: &str, arguments: Value) -> ToolAnswer {
        let never = Cancel::never();
        let spec =
            specs(&BuiltinLimits::default(), &[], &[]).into_iter().find(|spec| spec.name == tool).expect("a tool");
        let arguments = match arguments::fit(&spec.parameters, &arguments) {
            Ok(arguments) => arguments,
            Err(why) => return ToolAnswer::error(format!("the arguments do not fit the tool: {why}")),
        };
        let parsed = match tool {
            "read_file" => parse(&arguments).map(|args| files::read(&self.jail, args)),
            "write_file" => parse(&arguments).map(|args| files::write(&self.jail, args)),
            "edit_file" => parse(&arguments).map(|args| files::edit(&self.jail, args)),
            "grep" => parse(&arguments).map(|args| search::grep(&self.jail, args, &never)),
            "glob" => parse(&arguments).map(|args| search::glob(&self.jail, args, &never)),
            other => panic!("{other}"),
        };
        parsed.unwrap_or_else(|answer| answer)
    }

    fn ok(&self, tool: &str, arguments: Value) -> String {
        let answer = self.run(tool, arguments);
        assert!(!answer.is_error, "{}", answer.text);
        answer.text
    }

    fn err(&self, tool: &str, arguments: Value) -> String {
        let answer = self.run(tool, arguments);
        assert!(answer.is_error, "{}", answer.text);
        assert_eq!(answer.wrote, Wrote::Nothing);
        answer.text
    }
}

#[test]
fn a_file_is_read_with_line_numbers() {
    let bench = Bench::with(&[("a.txt", b"one\ntwo\r\n\xc3\xa4\nno end"), ("empty", b""), ("latin", b"caf\xe9\n")]);
    assert_eq!(
        bench.ok("read_file", json!({"file_path": "a.txt"})),
        "  1 | one\n  2 | two\n  3 | \u{e4}\n  4 | no end\n"
    );
    let part = bench.ok("read_file", json!({"file_path": "a.txt", "offset": 2, "limit": 2}));
    assert_eq!(part, "  2 | two\n  3 | \u{e4}\n(the file goes on; continue with offset 4)\n");
    assert_eq!(bench.ok("read_file", json!({"file_path": "a.txt", "offset": 4, "limit": 1})), "  4 | no end\n");
    assert_eq!(bench.ok("read_file", json!({"file_path": "empty"})), "(the file is empty)");
    assert_eq!(bench.ok("read_file", json!({"file_path": "latin"})), "  1 | caf\u{fffd}\n");
    assert!(bench.err("read_file", json!({"file_path": "a.txt", "offset": 9})).contains("has 4 lines"));
    assert!(bench.err("read_file", json!({"file_path": "a.txt", "offset": 0})).contains("count from 1"));
    assert!(bench.err("read_file", json!({"file_path": "none"})).contains("does not exist"));
    assert!(bench.err("read_file", json!({"file_path": "../x"})).contains("outside"));
}

#[test]
fn binary_and_huge_files_are_no_burden() {
    let bench = Bench::with(&[("bin", b"ELF\0\x01\x02")]);
    assert!(bench.err("read_file", json!({"file_path": "bin"})).contains("binary"));
    let many: String = (1..=5_000).map(|n| format!("{n}\n")).collect();
    bench.put("many", many.as_bytes());
    let text = bench.ok("read_file", json!({"file_path": "many"}));
    assert!(text.ends_with("2000 | 2000\n(the file goes on; continue with offset 2001)\n"));
    assert!(
        bench.ok("read_file", json!({"file_path": "many", "offset": 4999})).starts_with("4999 | 4999\n5000 | 5000\n")
    );
    // A sparse gigabyte in one line is neither read nor shown.
    let file = fs::File::create(bench.dir.path().join("wide")).unwrap();
    file.set_len(1 << 30).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[b'x'; 3 << 20], 0).unwrap();
    let text = bench.ok("read_file", json!({"file_path": "wide"}));
    assert!(text.len() < 2 << 20 && text.contains("cut off here"), "{}", text.len());
    assert!(
        bench
            .err("edit_file", json!({"file_path": "wide", "old_string": "x", "new_string": "y"}))
            .contains("more than")
    );
}

#[test]
fn a_file_is_written_whole_and_tracked() {
    let bench = Bench::with(&[("a", b"a longer text than before")]);
    let answer = bench.run("write_file", json!({"file_path": "a", "content": "\u{e4}\r\n"}));
    assert_eq!(answer.text, "Wrote 4 bytes to a");
    assert_eq!(answer.wrote, Wrote::Path("a".into()));
    assert_eq!(bench.get("a"), "\u{e4}\r\n".as_bytes());
    let answer = bench.run("write_file", json!({"file_path": "./new/dir/../b", "content": ""}));
    assert!(answer.is_error, "a directory that is not there has no parent");
    let answer = bench.run("write_file", json!({"file_path": "./new/dir/b", "content": ""}));
    assert_eq!(answer.wrote, Wrote::Path("new/dir/b".into()));
    assert_eq!(bench.get("new/dir/b"), b"");
    assert!(bench.err("write_file", json!({"file_path": ".git/config", "content": ""})).contains("belongs to git"));
    assert!(bench.err("write_file", json!({"file_path": "a"})).contains("missing field `content`"));
    assert!(
        bench.err("write_file", json!({"file_path": "a", "content": "", "mode": 1})).contains("unknown field `mode`")
    );
    assert!(bench.err("write_file", json!("text")).contains("do not fit"));
}

#[test]
fn a_piece_is_replaced_where_it_is_unique() {
    let bench = Bench::with(&[("a", "one two \u{e4} two\n".as_bytes()), ("empty", b""), ("raw", b"\xff one \xfe")]);
    let edit = |old: &str, new: &str| json!({"file_path": "a", "old_string": old, "new_string": new});
    assert!(bench.err("edit_file", edit("three", "x")).contains("does not occur"));
    assert!(bench.err("edit_file", edit("two", "x")).contains("occurs 2 times"));
    assert!(bench.err("edit_file", edit("", "x")).contains("is empty"));
    assert!(bench.err("edit_file", edit("one", "one")).contains("the same"));
    let answer = bench.run("edit_file", edit("\u{e4}", ""));
    assert_eq!((answer.text.as_str(), answer.wrote), ("Edited a in 1 place", Wrote::Path("a".into())));
    assert_eq!(bench.get("a"), b"one two  two\n");
    let all = json!({"file_path": "a", "old_string": "two", "new_string": "\u{fc}two", "replace_all": true});
    assert_eq!(bench.ok("edit_file", all), "Edited a in 2 places");
    assert_eq!(bench.get("a"), "one \u{fc}two  \u{fc}two\n".as_bytes());
    let raw = json!({"file_path": "raw", "old_string": "one", "new_string": "two"});
    bench.ok("edit_file", raw);
    assert_eq!(bench.get("raw"), b"\xff two \xfe", "bytes that are no text stay");
    assert!(
        bench
            .err("edit_file", json!({"file_path": "empty", "old_string": "x", "new_string": ""}))
            .contains("does not occur")
    );
    assert!(
        bench
            .err("edit_file", json!({"file_path": "none", "old_string": "x", "new_string": ""}))
            .contains("does not exist")
    );
}

#[test]
fn overlapping_pieces_count_once() {
    let bench = Bench::with(&[("a", b"aaaa")]);
    let all = json!({"file_path": "a", "old_string": "aa", "new_string": "b", "replace_all": true});
    assert_eq!(bench.ok("edit_file", all), "Edited a in 2 places");
    assert_eq!(bench.get("a"), b"bb");
}

#[test]
fn line_ends_stay_what_they_are() {
    let bench = Bench::with(&[("crlf", b"one\r\ntwo\r\nthree\r\n"), ("mixed", b"one\r\ntwo\nthree\n")]);
    bench.ok("edit_file", json!({"file_path": "crlf", "old_string": "one\ntwo", "new_string": "1\n2\n2b"}));
    assert_eq!(bench.get("crlf"), b"1\r\n2\r\n2b\r\nthree\r\n");
    bench.ok("edit_file", json!({"file_path": "crlf", "old_string": "three", "new_string": "3\n4"}));
    assert_eq!(bench.get("crlf"), b"1\r\n2\r\n2b\r\n3\r\n4\r\n");
    bench.ok("edit_file", json!({"file_path": "mixed", "old_string": "two\nthree", "new_string": "2\n3"}));
    assert_eq!(bench.get("mixed"), b"one\r\n2\n3\n");
}

#[test]
fn a_search_finds_lines_and_leaves_out_what_is_ignored() {
    let bench = Bench::with(&[
        (".gitignore", b"target/\n*.log\n"),
        ("src/a.rs", b"fn main() {}\r\n// Main\n"),
        ("src/b.txt", b"main\n"),
        ("target/x", b"main\n"),
        ("x.log", b"main\n"),
        (".git/config", b"main\n"),
        (".hidden", b"main\n"),
        ("bin", b"main\0\n"),
        ("latin", b"main \xe9\n"),
    ]);
    let found = bench.ok("grep", json!({"pattern": "main"}));
    assert_eq!(found, ".hidden:1:main\nlatin:1:main \u{fffd}\nsrc/a.rs:1:fn main() {}\nsrc/b.txt:1:main\n");
    let found = bench.ok("grep", json!({"pattern": "^// main", "case_insensitive": true, "path": "src"}));
    assert_eq!(found, "src/a.rs:2:// Main\n");
    assert_eq!(bench.ok("grep", json!({"pattern": "main", "glob_filter": "*.rs"})), "src/a.rs:1:fn main() {}\n");
    assert_eq!(bench.ok("grep", json!({"pattern": "main", "glob_filter": "src/*.txt"})), "src/b.txt:1:main\n");
    assert_eq!(bench.ok("grep", json!({"pattern": "main", "path": "src/b.txt"})), "src/b.txt:1:main\n");
    assert_eq!(bench.ok("grep", json!({"pattern": "main", "path": "x.log"})), "x.log:1:main\n", "named is wanted");
    let found = bench.ok("grep", json!({"pattern": "main", "max_results": 2}));
    assert_eq!(found.lines().count(), 3, "{found}");
    assert!(found.contains("more than these 2"));
    assert!(!bench.ok("grep", json!({"pattern": "main", "max_results": 4})).contains("more than"));
    assert_eq!(bench.ok("grep", json!({"pattern": "absent"})), "(nothing found)\n");
    assert!(bench.err("grep", json!({"pattern": "("})).contains("no regular expression"));
    assert!(bench.err("grep", json!({"pattern": "x", "glob_filter": "["})).contains("no pattern"));
    assert!(bench.err("grep", json!({"pattern": "x", "path": "none"})).contains("does not exist"));
    assert!(bench.err("grep", json!({"pattern": "x", "path": ".."})).contains("outside"));
}

#[test]
fn a_search_follows_no_links_and_cuts_long_lines() {
    let bench = Bench::with(&[("a", "x".repeat(2_000).as_bytes())]);
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("secret"), "xx").unwrap();
    std::os::unix::fs::symlink(outside.path(), bench.dir.path().join("link")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), bench.dir.path().join("file")).unwrap();
    let found = bench.ok("grep", json!({"pattern": "xx"}));
    assert_eq!(found, format!("a:1:{} \u{2026}\n", "x".repeat(500)));
    assert!(bench.err("grep", json!({"pattern": "x", "path": "link"})).contains("outside"));
    assert_eq!(bench.ok("glob", json!({"pattern": "**/*"})), "a\n");
    assert!(bench.err("glob", json!({"pattern": "*", "path": "link"})).contains("outside"));
}

#[test]
fn files_are_listed_newest_first() {
    let bench = Bench::with(&[("old.rs", b""), ("src/new.rs", b""), ("src/tie.rs", b""), ("a.txt", b"")]);
    let at = |name: &str, seconds: u64| {
        let file = fs::File::open(bench.dir.path().join(name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
    };
    at("old.rs", 1);
    at("src/new.rs", 9);
    at("src/tie.rs", 9);
    assert_eq!(bench.ok("glob", json!({"pattern": "**/*.rs"})), "src/new.rs\nsrc/tie.rs\nold.rs\n");
    assert_eq!(bench.ok("glob", json!({"pattern": "*.rs"})), "old.rs\n");
    assert_eq!(bench.ok("glob", json!({"pattern": "./*.rs"})), "old.rs\n");
    assert_eq!(bench.ok("glob", json!({"pattern": "*.rs", "path": "src"})), "src/new.rs\nsrc/tie.rs\n");
    assert_eq!(bench.ok("glob", json!({"pattern": "*.py"})), "(nothing found)\n");
    assert!(bench.err("glob", json!({"pattern": "{a"})).contains("no pattern"));
}

#[test]
fn a_kill_ends_a_search() {
    let bench = Bench::with(&[("a", b"x")]);
    let (canceller, cancel) = Cancel::new();
    canceller.kill();
    let args = parse(&json!({"pattern": "x"})).unwrap();
    assert!(search::grep(&bench.jail, args, &cancel).is_error);
    let args = parse(&json!({"pattern": "*"})).unwrap();
    assert!(search::glob(&bench.jail, args, &cancel).is_error);
}

#[test]
fn names_that_are_no_text_are_searched_too() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new();
    fs::write(bench.dir.path().join(Path::new(std::ffi::OsStr::from_bytes(b"caf\xe9"))), "found").unwrap();
    assert_eq!(bench.ok("grep", json!({"pattern": "found"})), "caf\u{fffd}:1:found\n");
}

#[test]
fn every_tool_is_described() {
    let specs = specs(&BuiltinLimits::default(), &[], &[]);
    assert_eq!(
        specs.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(),
        ["read_file", "write_file", "edit_file", "grep", "glob", "shell"]
    );
    for spec in specs {
        for required in spec.parameters["required"].as_array().unwrap() {
            assert!(spec.parameters["properties"].get(required.as_str().unwrap()).is_some(), "{}", spec.name);
        }
    }
}
