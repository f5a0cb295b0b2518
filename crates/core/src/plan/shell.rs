//! Templates in shell commands. The value of `{{ name }}` reaches a command by the environment and is there as
//! `"$name"`, one word whatever it holds. This finds the templates and tells where that cannot be.

use std::ops::Range;

use super::dot::is_identifier;

/// A `{{ name }}` in a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    /// Where it is.
    pub range: Range<usize>,
    /// The variable.
    pub name: String,
    /// What is around it.
    pub place: ShellContext,
}

/// What is around a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShellContext {
    /// Words of a command: `"$name"` is one of them, or a part of one.
    Word,
    /// A comment.
    Comment,
    SingleQuotes,
    DoubleQuotes,
    Backticks,
    HereDocument,
    /// `${…}`, `$((…))`, `eval …` and the like: what is there is evaluated.
    Evaluated,
    /// Directly behind a `$` or a backslash.
    Escaped,
}

impl ShellContext {
    /// Where it is, for a sentence, and how to write it instead; none where a value can be handed over.
    pub fn refusal(self, name: &str) -> Option<(&'static str, String)> {
        let value = format!("`{{{{ {name} }}}}`");
        Some(match self {
            Self::Word | Self::Comment => return None,
            Self::SingleQuotes => {
                ("inside single quotes", format!("end the quotes before {value} and begin them again after it"))
            }
            Self::DoubleQuotes => ("inside double quotes", format!("write `${name}` there, a variable of the shell")),
            Self::Backticks => ("inside backticks", "write `$(…)` in place of the backticks".to_owned()),
            Self::HereDocument => {
                ("inside a here-document", format!("write `${name}` there, and the word after `<<` without quotes"))
            }
            Self::Evaluated => {
                ("inside an expression", format!("check its value first, then use the shell variable `${name}` there"))
            }
            Self::Escaped => ("after a `$` or a backslash", format!("write {value} as a word of its own")),
        })
    }
}

/// Whether the environment of a command has a variable of this name that no input can replace.
pub(super) fn is_reserved(name: &str) -> bool {
    const OF_SHELL: [&str; 25] = [
        "_",
        "BASHOPTS",
        "BASHPID",
        "COLUMNS",
        "COMP_WORDBREAKS",
        "DIRSTACK",
        "EPOCHREALTIME",
        "EPOCHSECONDS",
        "EUID",
        "FUNCNAME",
        "GROUPS",
        "HISTCMD",
        "IFS",
        "LINENO",
        "LINES",
        "OLDPWD",
        "OPTARG",
        "OPTIND",
        "PPID",
        "PWD",
        "RANDOM",
        "SECONDS",
        "SHELLOPTS",
        "SRANDOM",
        "UID",
    ];
    let prefixed = ["BASH_", "GIT_", "PLEACH_"].iter().any(|prefix| name.starts_with(prefix));
    prefixed || OF_SHELL.contains(&name) || ["TMPDIR", "TMP", "TEMP"].contains(&name)
}

/// The template `text` starts with, and how long it is.
fn template(text: &str) -> Option<(&str, usize)> {
    let inside = text.strip_prefix("{{")?;
    let length = inside.find("}}")?;
    let name = inside[..length].trim();
    let name = name.strip_prefix("inputs.").unwrap_or(name);
    is_identifier(name).then_some((name, length + 4))
}

/// Every template of a command, in order.
pub(super) fn templates(command: &str) -> Vec<Template> {
    let (frames, begun) = (vec![Frame::Command], vec![0]);
    let mut scanner = Scanner { text: command, at: 0, frames, begun, here: Vec::new(), found: Vec::new() };
    while scanner.at < command.len() {
        scanner.step();
    }
    scanner.found
}

/// Whether the command that starts so reads its next word as a command, or as the name of a variable, in whose
/// subscript a command may be.
fn evaluates_words(begin: &str) -> bool {
    const BEFORE: [&str; 14] =
        ["!", "{", "if", "then", "elif", "else", "while", "until", "do", "time", "builtin", "command", "exec", "env"];
    let is_assignment =
        |word: &str| word.split_once('=').is_some_and(|(name, _)| is_identifier(name.trim_end_matches('+')));
    let mut words = begin.split_whitespace().skip_while(|word| BEFORE.contains(word) || is_assignment(word));
    let program = words.next().unwrap_or_default();
    let has = |option: char| {
        words.clone().any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(option))
    };
    match program.rsplit('/').next().unwrap_or_default() {
        "eval" | "trap" | "let" | "read" | "unset" | "mapfile" | "readarray" | "getopts" => true,
        "declare" | "typeset" | "local" | "readonly" => true,
        "printf" | "test" | "[" | "[[" => has('v'),
        "wait" => has('p'),
        "sh" | "bash" | "dash" | "ksh" | "zsh" | "su" => has('c'),
        _ => false,
    }
}

/// What has started and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    /// The command itself, `$(…)`, `(…)`.
    Command,
    Single,
    /// `$'…'`, where a backslash escapes.
    AnsiC,
    Double,
    Backtick,
    /// `${…}`.
    Parameter,
    /// `$((…))`, `((…))`, with the number of parentheses that are open.
    Arithmetic(usize),
    /// `$[…]`.
    Bracket,
    /// `[[ … ]]` with a comparison of numbers.
    NumericTest,
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    frames: Vec<Frame>,
    /// Where the newest simple command of each open [`Frame::Command`] starts.
    begun: Vec<usize>,
    /// Here-documents that start with the next line: the word that ends each.
    here: Vec<String>,
    found: Vec<Template>,
}

impl Scanner<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn top(&self) -> Frame {
        self.frames.last().copied().unwrap_or(Frame::Command)
    }

    fn skip_char(&mut self) {
        self.at += self.rest().chars().next().map_or(1, char::len_utf8);
    }

    fn push(&mut self, frame: Frame, length: usize) {
        self.frames.push(frame);
        self.at += length;
        if frame == Frame::Command {
            self.begun.push(self.at);
        }
    }

    fn pop(&mut self, length: usize) {
        if self.frames.len() > 1 && self.frames.pop() == Some(Frame::Command) {
            self.begun.pop();
        }
        self.at += length;
    }

    /// Whether a word starts here.
    fn begins_word(&self) -> bool {
        self.text[..self.at].chars().next_back().is_none_or(|c| c.is_whitespace() || ";&|()".contains(c))
    }

    /// Whether `name[` is before this.
    fn is_subscript(&self) -> bool {
        let name = self.text[..self.at].strip_suffix('[');
        name.is_some_and(|name| name.ends_with(|c: char| c == '_' || c.is_ascii_alphanumeric()))
    }

    fn place(&self) -> ShellContext {
        let evaluates = |frame: &Frame| {
            matches!(frame, Frame::Parameter | Frame::Arithmetic(_) | Frame::Bracket | Frame::NumericTest)
        };
        match self.top() {
            Frame::Single | Frame::AnsiC => ShellContext::SingleQuotes,
            Frame::Double => ShellContext::DoubleQuotes,
            _ if self.frames.contains(&Frame::Backtick) => ShellContext::Backticks,
            _ if self.frames.iter().any(evaluates) || self.is_subscript() => ShellContext::Evaluated,
            _ if self.text[..self.at].ends_with('$') => ShellContext::Escaped,
            _ if evaluates_words(&self.text[self.begun.last().copied().unwrap_or(0)..self.at]) => {
                ShellContext::Evaluated
            }
            _ => ShellContext::Word,
        }
    }

    /// Takes the template that starts here, if one does.
    fn take(&mut self, place: ShellContext) -> bool {
        let Some((name, length)) = template(self.rest()) else { return false };
        let (name, range) = (name.to_owned(), self.at..self.at + length);
        self.at = range.end;
        self.found.push(Template { range, name, place });
        true
    }

    fn step(&mut self) {
        if self.rest().starts_with("{{") && self.take(self.place()) {
            return;
        }
        match self.top() {
            Frame::Single => {
                if self.rest().starts_with('\'') {
                    self.pop(1)
                } else {
                    self.skip_char()
                }
            }
            Frame::AnsiC => match self.rest().as_bytes()[0] {
                b'\\' => self.escape(),
                b'\'' => self.pop(1),
                _ => self.skip_char(),
            },
            Frame::Double => match self.rest().as_bytes()[0] {
                b'"' => self.pop(1),
                _ => self.expansion(),
            },
            Frame::Parameter => match self.rest().as_bytes()[0] {
                b'}' => self.pop(1),
                _ => self.quotes(),
            },
            Frame::Bracket => match self.rest().as_bytes()[0] {
                b']' => self.pop(1),
                _ => self.quotes(),
            },
            Frame::Arithmetic(open) => self.arithmetic(open),
            Frame::NumericTest if self.rest().starts_with("]]") => self.pop(2),
            Frame::Command | Frame::Backtick | Frame::NumericTest => self.command(),
        }
    }

    fn arithmetic(&mut self, open: usize) {
        let open = match self.rest().as_bytes()[0] {
            b'(' => open + 1,
            b')' => open - 1,
            _ => return self.quotes(),
        };
        self.frames.pop();
        if open > 0 {
            self.frames.push(Frame::Arithmetic(open));
        }
        self.at += 1;
    }

    fn command(&mut self) {
        if self.rest().starts_with([';', '&', '|', '\n'])
            && let Some(begun) = self.begun.last_mut()
        {
            *begun = self.at + 1;
        }
        let rest = self.rest();
        match rest.as_bytes()[0] {
            b'\n' => self.line(),
            b'#' if self.begins_word() => {
                while self.at < self.text.len() && !self.rest().starts_with('\n') {
                    if !self.take(ShellContext::Comment) {
                        self.skip_char();
                    }
                }
            }
            b'(' if rest.starts_with("((") && self.begins_word() => self.push(Frame::Arithmetic(2), 2),
            b'(' => self.push(Frame::Command, 1),
            b')' if self.top() == Frame::Command => self.pop(1),
            b'[' if rest.starts_with("[[") && self.begins_word() => {
                let numeric = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
                let test = rest.split("]]").next().unwrap_or_default();
                if test.split_whitespace().any(|word| numeric.contains(&word)) {
                    self.push(Frame::NumericTest, 2)
                } else {
                    self.at += 2
                }
            }
            b'<' if rest.starts_with("<<<") => self.at += 3,
            b'<' if rest.starts_with("<<") => self.here_document(),
            _ => self.quotes(),
        }
    }

    /// What may start in a command and in what is evaluated.
    fn quotes(&mut self) {
        match self.rest().as_bytes()[0] {
            b'\'' => self.push(Frame::Single, 1),
            b'"' => self.push(Frame::Double, 1),
            _ => self.expansion(),
        }
    }

    /// What may start in double quotes as well.
    fn expansion(&mut self) {
        let rest = self.rest();
        match rest.as_bytes()[0] {
            b'\\' => self.escape(),
            b'`' => match self.frames.iter().rposition(|frame| *frame == Frame::Backtick) {
                Some(begun) => {
                    self.frames.truncate(begun);
                    self.at += 1;
                }
                None => self.push(Frame::Backtick, 1),
            },
            b'$' if rest.starts_with("$((") => self.push(Frame::Arithmetic(2), 3),
            b'$' if rest.starts_with("$(") => self.push(Frame::Command, 2),
            b'$' if rest.starts_with("$[") => self.push(Frame::Bracket, 2),
            b'$' if rest.starts_with("$'") && self.top() != Frame::Double => self.push(Frame::AnsiC, 2),
            b'$' if rest.starts_with("${") && template(&rest[1..]).is_none() => self.push(Frame::Parameter, 2),
            _ => self.skip_char(),
        }
    }

    fn escape(&mut self) {
        self.at += 1;
        let place = match self.place() {
            ShellContext::Word => ShellContext::Escaped,
            place => place,
        };
        if self.at < self.text.len() && !self.take(place) {
            self.skip_char();
        }
    }

    /// `<<WORD`, `<<-WORD`, `<<'WORD'`: what is between the next line and one that is WORD alone.
    fn here_document(&mut self) {
        self.at += 2;
        if self.rest().starts_with('-') {
            self.at += 1;
        }
        while self.rest().starts_with([' ', '\t']) {
            self.at += 1;
        }
        let mut word = String::new();
        while let Some(next) = self.rest().chars().next() {
            if self.take(ShellContext::HereDocument) {
                continue;
            }
            if next.is_whitespace() || ";&|()<>".contains(next) {
                break;
            }
            if !"'\"\\".contains(next) {
                word.push(next);
            }
            self.skip_char();
        }
        self.here.push(word);
    }

    /// The end of a line, and the here-documents that start with the next.
    fn line(&mut self) {
        self.at += 1;
        for word in std::mem::take(&mut self.here) {
            while self.at < self.text.len() {
                let line = self.rest().split_inclusive('\n').next().unwrap_or_default();
                let (end, is_last) =
                    (self.at + line.len(), line.trim_end_matches('\n').trim_start_matches('\t') == word);
                while self.at < end {
                    if !self.take(ShellContext::HereDocument) {
                        self.skip_char();
                    }
                }
                if is_last {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_all(place: ShellContext, commands: &[&str]) {
        for command in commands {
            let found = templates(command);
            assert!(!found.is_empty() && found.iter().all(|template| template.place == place), "{command}: {found:?}");
        }
    }

    #[test]
    fn words_of_commands_take_values() {
        assert_all(
            ShellContext::Word,
            &[
                "echo {{ a }}",
                "echo [{{ a }}]",
                "{{a}}",
                "echo 'x'{{ a }}\"y\"",
                "x={{ inputs.a }}; (cd x && echo $(cat {{ a }})) > {{ a }}",
                "echo \"$(printf %s {{ a }})\"",
                "echo 'it'\\''s' {{ a }} \\\" {{ a }}",
                "[ {{ a }} = b ] || [[ {{ a }} == *x* ]]",
                "cat <<EOF\n'\"`\nEOF\necho {{ a }}",
                "cat <<-'EOF' > x; echo {{ a }}\n\t'\n\tEOF\ncat <<< {{ a }}",
                "echo # it's\necho a#b {{ a }}",
                "echo ${x:-'}'} {{ a }} $(( (1 + 2) )) {{ a }} $[1] {{ a }} `date` {{ a }}",
                "((i++)); echo {{ a }}; case x in a) echo {{ a }};; esac",
                "echo $'it\\'s' {{ a }} $\"x\" {{ a }}",
                "eval \"$x\"; echo {{ a }}; read x && printf %s {{ a }} && grep -v {{ a }}",
                "bash run.sh {{ a }}; $(let x=1) {{ a }}",
            ],
        );
    }

    #[test]
    fn elsewhere_no_value_can_be_handed_over() {
        assert_all(ShellContext::SingleQuotes, &["echo '{{ a }}'", "sh -c 'echo {{ a }}'", "echo $'\\'{{ a }}'"]);
        assert_all(
            ShellContext::DoubleQuotes,
            &["echo \"a {{ a }}\"", "echo \"$(x \"{{ a }}\")\"", "echo \"$(x) {{ a }}\""],
        );
        assert_all(ShellContext::Backticks, &["echo `cat {{ a }}`", "echo \"`cat {{ a }}`\""]);
        assert_all(
            ShellContext::HereDocument,
            &["cat <<EOF\n{{ a }}\nEOF", "cat << 'A' <<B\nx\nA\n{{ a }}\nB\n", "cat <<{{ a }}\nx"],
        );
        assert_all(
            ShellContext::Evaluated,
            &[
                "echo $(( {{ a }} + 1 ))",
                "(( {{ a }} ))",
                "echo $(( $(cat {{ a }}) ))",
                "echo ${x:-{{ a }}}",
                "echo $[{{ a }}]",
                "x[{{ a }}]=1",
                "[[ {{ a }} -eq 1 ]]",
                "let x={{ a }}",
                "true; declare -i x={{ a }}",
                "[[ -v {{ a }} ]] && [ -v {{ a }} ]",
                "if printf -v {{ a }} x; then read {{ a }}; fi",
                "echo $(X=1 eval {{ a }})",
                "echo x | bash -ec {{ a }}",
                "(trap {{ a }} EXIT)",
            ],
        );
        assert_all(ShellContext::Escaped, &["echo ${{ a }}", "echo \\{{ a }}"]);
        assert_all(ShellContext::Comment, &["true # {{ a }}"]);
    }

    #[test]
    fn braces_of_others_are_no_templates() {
        let found = templates("docker ps --format '{{ .Names }}' {{ json . }} {{}} {{ a");
        assert_eq!(found, []);
        assert_eq!(templates("\u{e4} {{ a }}")[0].range, 3..10);
    }

    #[test]
    fn variables_of_the_shell_are_reserved() {
        assert!(["PWD", "_", "GIT_DIR", "PLEACH_NODE", "TMPDIR"].into_iter().all(is_reserved));
        assert!(!["goal", "name", "pwd", "VERSION"].into_iter().any(is_reserved));
    }
}
