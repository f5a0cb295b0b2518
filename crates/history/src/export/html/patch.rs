//! A patch on a page, a file at a time.

use super::page::Page;

/// Shows a patch: each file with what it comes to, and its lines in their colours.
pub(super) fn show(page: &mut Page, name: &str, patch: &str) {
    for file in files(patch) {
        let count = |mark: &str, head: &str| {
            file.lines().filter(|line| line.starts_with(mark) && !line.starts_with(head)).count()
        };
        let (added, removed) = (count("+", "+++ "), count("-", "--- "));
        page.details("diff", true, &format!("{name}{} +{added} −{removed}", path(file)), |page| {
            page.lines(file.lines().skip_while(|line| !line.starts_with("@@")).map(|line| (class(line), line)));
        });
    }
}

/// The parts of a patch that are each of one file. No line of a file begins like their first.
fn files(patch: &str) -> Vec<&str> {
    const BEGIN: &str = "diff --git ";
    let is_begin = |at: &usize| *at == 0 || patch.as_bytes()[at - 1] == b'\n';
    let begins: Vec<usize> = patch.match_indices(BEGIN).map(|(at, _)| at).filter(is_begin).collect();
    let ends = begins.iter().skip(1).copied().chain([patch.len()]);
    begins.iter().zip(ends).map(|(begin, end)| &patch[*begin..end]).collect()
}

/// The name of a file as git writes it, that of what is there afterwards if anything is.
fn path(file: &str) -> &str {
    let named = |mark: &str| file.lines().find_map(|line| line.strip_prefix(mark));
    let there = named("+++ ").filter(|name| *name != "/dev/null").or(named("--- "));
    let name = there.or(named("rename to ")).or_else(|| file.lines().next()?.rsplit_once(' ').map(|(_, name)| name));
    let name = name.unwrap_or_default().trim_end_matches('\t');
    ["a/", "b/"].iter().find_map(|side| name.strip_prefix(side)).unwrap_or(name)
}

fn class(line: &str) -> &'static str {
    match line.as_bytes().first() {
        Some(b'+') => "add",
        Some(b'-') => "del",
        Some(b'@') => "hunk",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_taken_apart_by_files() {
        let patch = "diff --git a/a b b/a b\n--- a/a b\t\n+++ b/a b\t\n@@ -1 +1 @@\n-diff --git x\n+y\n\
                     diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
                     diff --git a/bin b/bin\nBinary files a/bin and b/bin differ\n";
        let files = files(patch);
        assert_eq!(files.concat(), patch);
        assert_eq!(files.iter().map(|file| path(file)).collect::<Vec<_>>(), ["a b", "gone", "bin"]);
    }
}
