//! Searching the worktree. Directories are listed by path; contents are only read through the jail.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;
use pleach_core::text::counted;
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

use super::answer::ToolAnswer;
use super::files::is_binary;
use os::confined_fs::Jail;
use os::process::Cancel;

/// Lines found when the model does not say.
const RESULTS: usize = 100;

/// Files larger than this are not searched.
const SEARCHABLE: u64 = 10 << 20;

/// The most characters shown of a line.
const LINE: usize = 500;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GrepArgs {
    pattern: String,
    path: Option<String>,
    glob_filter: Option<String>,
    #[serde(default)]
    case_insensitive: bool,
    max_results: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GlobArgs {
    pattern: String,
    path: Option<String>,
}

pub(super) fn grep(jail: &Jail, args: GrepArgs, cancel: &Cancel) -> ToolAnswer {
    let regex = match RegexBuilder::new(&args.pattern).case_insensitive(args.case_insensitive).build() {
        Ok(regex) => regex,
        Err(error) => return ToolAnswer::error(format!("`pattern` is no regular expression: {error}")),
    };
    let filter = match args.glob_filter.as_deref().map(Filter::new).transpose() {
        Ok(filter) => filter,
        Err(why) => return ToolAnswer::error(why),
    };
    let start = match jail.locate(args.path.as_deref().unwrap_or(".")) {
        Ok(start) => start,
        Err(error) => return ToolAnswer::error(error.to_string()),
    };
    let limit = args.max_results.unwrap_or(RESULTS).max(1);
    let mut found = Vec::new();
    let mut skipped = 0_usize;
    let mut more = false;
    for path in files_below(jail, &start) {
        if cancel.is_killed() {
            return ToolAnswer::error("the search was cancelled");
        }
        let below = path.strip_prefix(&start).unwrap_or(&path);
        if filter
            .as_ref()
            .is_some_and(|filter| !filter.matches(if below.as_os_str().is_empty() { &path } else { below }))
        {
            continue;
        }
        match search_file(jail, &path, &regex, limit - found.len(), &mut found) {
            Searched::Whole => {}
            Searched::TooLarge => skipped += 1,
            Searched::More => {
                more = true;
                break;
            }
        }
    }
    let mut text = if found.is_empty() { "(nothing found)\n".into() } else { found.concat() };
    if more {
        text.push_str(&format!("(there is more than these {limit}; narrow the search or raise max_results)\n"));
    }
    if skipped > 0 {
        let files = counted(skipped, "file");
        text.push_str(&format!("(not searched: {files} of more than {} MB)\n", SEARCHABLE >> 20));
    }
    ToolAnswer::ok(text)
}

enum Searched {
    Whole,
    TooLarge,
    /// There is at least one line more than was asked for.
    More,
}

fn search_file(jail: &Jail, path: &Path, regex: &Regex, room: usize, found: &mut Vec<String>) -> Searched {
    // A file that vanished or cannot be read since it was listed is no result; the search goes on.
    let Ok(file) = jail.open_inside(path) else { return Searched::Whole };
    if file.metadata().is_ok_and(|meta| meta.len() > SEARCHABLE) {
        return Searched::TooLarge;
    }
    let mut reader = BufReader::new(file);
    if reader.fill_buf().map_or(true, is_binary) {
        return Searched::Whole;
    }
    let shown = jail.shown(path);
    let mut line = Vec::new();
    let mut number = 0;
    let mut hits = 0;
    while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        number += 1;
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if regex.is_match(text) {
            if hits == room {
                return Searched::More;
            }
            hits += 1;
            let text = String::from_utf8_lossy(text);
            let cut = text.char_indices().nth(LINE).map_or(text.len(), |(at, _)| at);
            let dots = if cut < text.len() { " …" } else { "" };
            found.push(format!("{}:{number}:{}{dots}\n", shown.display(), &text[..cut]));
        }
        line.clear();
    }
    Searched::Whole
}

pub(super) fn glob(jail: &Jail, args: GlobArgs, cancel: &Cancel) -> ToolAnswer {
    let matcher = match compile(&args.pattern) {
        Ok(matcher) => matcher,
        Err(why) => return ToolAnswer::error(why),
    };
    let start = match jail.locate(args.path.as_deref().unwrap_or(".")) {
        Ok(start) => start,
        Err(error) => return ToolAnswer::error(error.to_string()),
    };
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    for path in files_below(jail, &start) {
        if cancel.is_killed() {
            return ToolAnswer::error("the search was cancelled");
        }
        if matcher.is_match(path.strip_prefix(&start).unwrap_or(&path)) {
            let changed = jail.real_root().join(&path).symlink_metadata().and_then(|meta| meta.modified());
            found.push((changed.unwrap_or(SystemTime::UNIX_EPOCH), path));
        }
    }
    found.sort_by(|(one, a), (two, b)| two.cmp(one).then_with(|| a.cmp(b)));
    if found.is_empty() {
        return ToolAnswer::ok("(nothing found)\n");
    }
    ToolAnswer::ok(found.iter().map(|(_, path)| format!("{}\n", jail.shown(path).display())).collect::<String>())
}

fn compile(pattern: &str) -> Result<GlobMatcher, String> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| format!("`{pattern}` is no pattern: {error}"))
}

/// Which files a search looks into: by name when the pattern has no `/`, else by path.
struct Filter {
    matcher: GlobMatcher,
    by_name: bool,
}

impl Filter {
    fn new(pattern: &str) -> Result<Self, String> {
        Ok(Self { matcher: compile(pattern)?, by_name: !pattern.contains('/') })
    }

    fn matches(&self, path: &Path) -> bool {
        match path.file_name() {
            Some(name) if self.by_name => self.matcher.is_match(name),
            _ => self.matcher.is_match(path),
        }
    }
}

/// The files below a place, in the order of their paths, without what git ignores and without git's own. Links are not
/// followed.
fn files_below<'a>(jail: &'a Jail, start: &Path) -> impl Iterator<Item = PathBuf> + 'a {
    let root = jail.real_root();
    WalkBuilder::new(root.join(start))
        .hidden(false)
        .ignore(false)
        .git_global(false)
        .require_git(false)
        .follow_links(false)
        .sort_by_file_path(Path::cmp)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .filter_map(move |entry| entry.path().strip_prefix(root).map(Path::to_path_buf).ok())
}
