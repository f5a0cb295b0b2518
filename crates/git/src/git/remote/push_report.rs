//! What git says of a push, ref by ref.

/// The outcome of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushReport {
    /// Each ref, by the name the remote has for it.
    pub refs: Vec<PushedRef>,
    /// What git and the remote said beside it.
    pub words: String,
}

/// What became of one ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushedRef {
    /// Its name at the remote.
    pub name: String,
    /// What became of it.
    pub result: RefPush,
}

/// What became of a ref in a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefPush {
    /// The remote has it now.
    Pushed,
    /// The remote had it already.
    UpToDate,
    /// The remote has something else there that is not in its history.
    NonFastForward,
    /// The remote does not want it: a hook, a protected branch, a namespace it does not allow.
    Refused {
        /// The reason the remote gave.
        why: String,
    },
    /// Nothing is wrong with it; another ref was not taken.
    WithOthers,
    /// The remote wanted it and could not take it: it was being changed by somebody else, or its disk is full.
    Busy {
        /// The reason the remote gave.
        why: String,
    },
}

impl PushReport {
    /// Whether the remote has everything.
    pub fn is_done(&self) -> bool {
        self.refs.iter().all(|pushed| matches!(pushed.result, RefPush::Pushed | RefPush::UpToDate))
    }

    /// The first ref that was not taken, with why, in words.
    pub fn why(&self) -> String {
        let reason = self.refs.iter().find_map(|pushed| {
            let why = match &pushed.result {
                RefPush::NonFastForward => "the remote has other commits there (non-fast-forward)",
                RefPush::Refused { why } | RefPush::Busy { why } => why,
                RefPush::Pushed | RefPush::UpToDate | RefPush::WithOthers => return None,
            };
            Some(format!("{}: {why}", pushed.name))
        });
        let parts = [reason.unwrap_or_default(), self.words.clone()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ").replace('\n', "; ")
    }
}

/// Reads the lines of `git push --porcelain`: `FLAG TAB from:to TAB [summary] (reason)`.
pub(super) fn parse(stdout: &str) -> Vec<PushedRef> {
    stdout.lines().filter_map(pushed_ref).collect()
}

fn pushed_ref(line: &str) -> Option<PushedRef> {
    let mut parts = line.splitn(3, '\t');
    let (flag, names, summary) = (parts.next()?, parts.next()?, parts.next()?);
    let name = names.rsplit_once(':')?.1.to_owned();
    let result = match flag {
        " " | "+" | "*" | "-" => RefPush::Pushed,
        "=" => RefPush::UpToDate,
        "!" => rejection(summary),
        _ => return None,
    };
    Some(PushedRef { name, result })
}

fn rejection(summary: &str) -> RefPush {
    let why = summary.split_once('(').and_then(|(_, why)| why.rsplit_once(')')).map_or(summary, |(why, _)| why);
    let by_remote = summary.starts_with("[remote rejected]");
    match why {
        "non-fast-forward" | "fetch first" | "needs force" | "stale info" => RefPush::NonFastForward,
        "atomic push failed" | "atomic push failure" | "atomic transaction failed" | "transaction failed" => {
            RefPush::WithOthers
        }
        _ if by_remote && !is_trouble(why) => RefPush::Refused { why: why.to_owned() },
        _ => RefPush::Busy { why: why.to_owned() },
    }
}

/// What a remote says when it wanted the ref and could not take it: somebody else moved it at the same time, or its disk is
/// full.
const TROUBLE: [&str; 7] = [
    "cannot lock ref",
    "failed to update ref",
    "failed to lock",
    "incorrect old value",
    "reference already exists",
    "unpacker error",
    "unable to migrate objects",
];

fn is_trouble(why: &str) -> bool {
    TROUBLE.iter().any(|words| why.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_answer_is_read() {
        let stdout = "To /srv/x.git\n\
             *\tabc:refs/heads/new\t[new branch]\n \
             \tabc:refs/heads/on\ta..b\n\
             =\tabc:refs/heads/same\t[up to date]\n\
             !\tabc:refs/heads/other\t[rejected] (fetch first)\n\
             !\tabc:refs/heads/back\t[rejected] (non-fast-forward)\n\
             !\tabc:refs/heads/hook\t[remote rejected] (pre-receive hook declined)\n\
             !\tabc:refs/pleach/x\t[remote rejected] (deny updating a hidden ref)\n\
             !\tabc:refs/heads/beside\t[rejected] (atomic push failed)\n\
             !\tabc:refs/heads/race\t[remote rejected] (cannot lock ref 'refs/heads/race': is at 1 but expected 2)\n\
             !\tabc:refs/heads/lost\t[remote failure] (remote failed to report status)\n\
             Done\n";
        let results: Vec<RefPush> = parse(stdout).into_iter().map(|pushed| pushed.result).collect();
        let refused = |why: &str| RefPush::Refused { why: why.into() };
        assert_eq!(
            results,
            [
                RefPush::Pushed,
                RefPush::Pushed,
                RefPush::UpToDate,
                RefPush::NonFastForward,
                RefPush::NonFastForward,
                refused("pre-receive hook declined"),
                refused("deny updating a hidden ref"),
                RefPush::WithOthers,
                RefPush::Busy { why: "cannot lock ref 'refs/heads/race': is at 1 but expected 2".into() },
                RefPush::Busy { why: "remote failed to report status".into() },
            ]
        );
    }

    #[test]
    fn the_reason_comes_before_the_words_beside_it() {
        let refs = parse(
            "!\ta:refs/heads/b\t[rejected] (atomic push failed)\n!\ta:refs/heads/c\t[remote rejected] (hook declined)\n",
        );
        let report = PushReport { refs, words: "remote: not on Fridays\nremote: sorry".into() };
        assert!(!report.is_done());
        assert_eq!(report.why(), "refs/heads/c: hook declined; remote: not on Fridays; remote: sorry");
    }
}
