//! A real program that plays a coding agent by a script, for tests: `fake-agent SCRIPT [ARG…]`.
//!
//! It reads the prompt from standard input to its end, then does the steps of the file SCRIPT in the current directory,
//! and exits with 0 unless a step says otherwise. It remembers nothing from one run to the next: what a step depends on is
//! the prompt or files.
//!
//! One step per line; words are separated by spaces. A word in double quotes may hold spaces and `\n`, `\t`, `\"`,
//! `\\`, `\$`. In every word `${PROMPT}` is the prompt, `${1}` the first ARG and so on, and `${NAME}` the environment
//! variable (empty if there is none). Empty lines and lines that start with `#` are skipped.
//!
//! ```text
//! write PATH TEXT      writes a file and a newline after TEXT, making its directories; any path, also outside
//! raw PATH TEXT        the same without the newline
//! append PATH TEXT     adds a line to a file
//! delete PATH          deletes a file, or a directory and all in it
//! mkdir PATH           makes a directory and those above it
//! link TARGET PATH     makes a symbolic link
//! mode PATH OCTAL      sets the permissions of a file
//! print TEXT           a line on standard output
//! complain TEXT        a line on standard error
//! flood BYTES          that many bytes on standard output
//! sleep MILLISECONDS   does nothing for a while
//! wait PATH            until PATH exists
//! git WORD…            runs git; if it fails, so does the agent
//! shell TEXT           runs `sh -c TEXT`; if it fails, so does the agent
//! background PATH      starts a process that outlives the agent, deaf to TERM, and adds a line to PATH every 10 ms
//! ignore-term          goes on when TERM comes
//! hang                 never goes on
//! converse LANGUAGE [whole]
//!                      works on the prompt with a model: `anthropic` at ANTHROPIC_BASE_URL, `responses` or `chat` at
//!                      OPENAI_BASE_URL, `gemini` at GOOGLE_GEMINI_BASE_URL, with the key of ..._API_KEY; prints its last
//!                      words. Answers are streams, or `whole`. Its tools are Write, Bash, and Task, which is helpers side
//!                      by side; the next call follows at once. A call that is refused ends the agent with 1
//! begin LANGUAGE TEXT  asks a model for TEXT, does what it says, and leaves the conversation there
//! say LANGUAGE TEXT [JSON]
//!                      says TEXT to a model that has no tools, in one conversation from step to step; JSON is laid over
//!                      the request. A call that is refused ends the agent with 1
//! leave LANGUAGE TEXT [JSON]
//!                      the same, and hangs up with the last word of a streamed answer, whatever comes after it
//! abandon LANGUAGE COUNT MILLISECONDS
//!                      makes as many calls for a whole answer, one after the other, and hangs up on each after a while
//! burst LANGUAGE COUNT [JSON]
//!                      makes as many calls at once and waits for their answers; JSON is laid over the requests
//! swamp LANGUAGE COUNT MEGABYTES
//!                      begins as many calls of that length, sends all but the last bytes of each, as far as they are
//!                      taken, and leaves them open
//! exit CODE            ends with CODE
//! crash                ends by SIGABRT
//! if CONDITION         does the steps up to `else` or `end` if CONDITION holds; may be nested
//! else
//! end
//! ```
//!
//! Conditions: `exists PATH`, `missing PATH`, `prompt TEXT` (the prompt holds TEXT), `contains PATH TEXT` (the file holds
//! TEXT), `set NAME` (the environment variable is there and not empty).
//!
//! A script with an error ends the agent with 64 before its first step, a step that fails with 70; a line on standard
//! error says which.

#![expect(clippy::disallowed_methods, reason = "an agent is a program of its own, outside pleach's doors")]

#[path = "language.rs"]
mod language;
#[path = "model.rs"]
mod model;
#[path = "plain.rs"]
mod plain;

use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use serde_json::Value;

const BAD_SCRIPT: u8 = 64;
const STEP_FAILED: u8 = 70;
/// The first argument of the process that `background` starts.
const BACKGROUND: &str = "--background";
const PAUSE: Duration = Duration::from_millis(10);

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(script) = args.next() else { return complain(BAD_SCRIPT, "usage: fake-agent SCRIPT [ARG...]") };
    let args: Vec<String> = args.collect();
    if script == BACKGROUND {
        return write_for_ever(&args);
    }
    let steps = match fs::read_to_string(&script) {
        Err(e) => return complain(BAD_SCRIPT, &format!("{script}: {e}")),
        Ok(text) => match parse(&text) {
            Err(e) => return complain(BAD_SCRIPT, &format!("{script}:{e}")),
            Ok(steps) => steps,
        },
    };
    let mut prompt = Vec::new();
    if let Err(e) = io::stdin().read_to_end(&mut prompt) {
        return complain(STEP_FAILED, &format!("cannot read the prompt: {e}"));
    }
    let prompt = String::from_utf8_lossy(&prompt).into_owned();
    let agent = Agent { prompt, args, said: RefCell::default() };
    match agent.play(&steps) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Exit(code)) => ExitCode::from(code),
        Err(Stop::Failed(line, why)) => complain(STEP_FAILED, &format!("{script}:{line}: {why}")),
    }
}

fn complain(code: u8, text: &str) -> ExitCode {
    // Nobody may be listening any more.
    let _ = writeln!(io::stderr(), "fake-agent: {text}");
    ExitCode::from(code)
}

/// One line of the script with its number.
struct Step {
    line: usize,
    words: Vec<String>,
    /// The steps of an `if`: those to do when it holds, and those when not.
    branches: [Vec<Step>; 2],
}

/// What the words of a step are, and how many.
fn arity(name: &str) -> Option<std::ops::RangeInclusive<usize>> {
    Some(match name {
        "write" | "raw" | "append" | "link" | "mode" | "begin" | "post" => 2..=2,
        "delete" | "mkdir" | "print" | "complain" | "flood" | "sleep" | "wait" | "shell" | "background" | "exit" => {
            1..=1
        }
        "converse" => 1..=2,
        "say" | "leave" => 2..=3,
        "abandon" | "swamp" => 3..=3,
        "burst" => 2..=3,
        "ignore-term" | "hang" | "crash" => 0..=0,
        "git" => 1..=usize::MAX,
        "if" => 2..=3,
        _ => return None,
    })
}

fn parse(text: &str) -> Result<Vec<Step>, String> {
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())).filter(|(_, line)| {
        // Comments and empty lines are no steps.
        !line.is_empty() && !line.starts_with('#')
    });
    let (steps, closed_by) = parse_block(&mut lines)?;
    match closed_by {
        None => Ok(steps),
        Some((line, word)) => Err(format!("{line}: `{word}` without `if`")),
    }
}

/// The steps up to an `else` or `end` that belongs to nothing among them.
#[expect(clippy::type_complexity, reason = "the steps and the line that ended them")]
fn parse_block(lines: &mut dyn Iterator<Item = (usize, &str)>) -> Result<(Vec<Step>, Option<(usize, String)>), String> {
    let mut steps = Vec::new();
    while let Some((line, text)) = lines.next() {
        let words = split(text).map_err(|e| format!("{line}: {e}"))?;
        let name = words.first().cloned().unwrap_or_default();
        if name == "else" || name == "end" {
            return Ok((steps, Some((line, name))));
        }
        let Some(arity) = arity(&name) else { return Err(format!("{line}: there is no step `{name}`")) };
        if !arity.contains(&(words.len() - 1)) {
            return Err(format!("{line}: `{name}` takes another number of words"));
        }
        let mut branches = [Vec::new(), Vec::new()];
        if name == "if" {
            let open = || format!("{line}: `if` without `end`");
            let (holds, closed_by) = parse_block(lines)?;
            branches[0] = holds;
            if closed_by.ok_or_else(open)?.1 == "else" {
                let (fails, closed_by) = parse_block(lines)?;
                branches[1] = fails;
                if closed_by.ok_or_else(open)?.1 == "else" {
                    return Err(format!("{line}: `if` with two `else`"));
                }
            }
        }
        steps.push(Step { line, words, branches });
    }
    Ok((steps, None))
}

/// Splits a line into words. An escaped character stays marked by its backslash until it is expanded.
fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' if quoted => {
                let escaped = chars.next().ok_or("a backslash at the end")?;
                if !['n', 't', '"', '\\', '$'].contains(&escaped) {
                    return Err(format!("`\\{escaped}` means nothing"));
                }
                word.get_or_insert_default().extend(['\\', escaped]);
            }
            // Outside quotes a backslash is one, which is what it is written as inside.
            '\\' => word.get_or_insert_default().push_str("\\\\"),
            ' ' | '\t' if !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    if quoted {
        return Err("a quote is not closed".into());
    }
    words.extend(word);
    Ok(words)
}

/// Why the steps were not played to their end.
enum Stop {
    Exit(u8),
    Failed(usize, String),
}

struct Agent {
    prompt: String,
    args: Vec<String>,
    /// The conversation without tools.
    said: RefCell<Vec<Value>>,
}

impl Agent {
    fn play(&self, steps: &[Step]) -> Result<(), Stop> {
        for step in steps {
            let words: Vec<String> = step.words.iter().map(|word| self.expand(word)).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let failed = |why: String| Stop::Failed(step.line, why);
            match words[..] {
                ["if", ref condition @ ..] => {
                    let holds = self.holds(condition).map_err(failed)?;
                    self.play(&step.branches[usize::from(!holds)])?;
                }
                ["swamp", language, count, megabytes] => {
                    let model = model::Model::of(language, None).map_err(failed)?;
                    let (count, megabytes) = (number(count).map_err(failed)?, number(megabytes).map_err(failed)?);
                    plain::swamp(&model, count, megabytes).map_err(failed)?;
                }
                ["abandon", language, count, milliseconds] => {
                    let model = model::Model::of(language, None).map_err(failed)?;
                    let patience = Duration::from_millis(number(milliseconds).map_err(failed)?);
                    plain::abandon(&model, number(count).map_err(failed)?, patience).map_err(failed)?;
                }
                ["burst", language, count, ref more @ ..] => {
                    let model = model::Model::of(language, None).map_err(failed)?;
                    let more = more.first().map_or(Ok(Value::Null), |more| serde_json::from_str(more));
                    let more = more.map_err(|error| failed(error.to_string()))?;
                    plain::burst(&model, number(count).map_err(failed)?, &more).map_err(refused)?;
                }
                ["exit", code] => return Err(Stop::Exit(number(code).map_err(failed)?)),
                ["begin", language, task] => {
                    let model = model::Model::of(language, None).map_err(failed)?;
                    model.talk(task, 1).map_err(failed)?;
                }
                ["post", language, path] => {
                    let model = model::Model::of(language, None).map_err(failed)?;
                    model.post(path, &Value::Null).map_err(refused)?;
                }
                ["converse", language, ref manner @ ..] => {
                    let model = model::Model::of(language, manner.first().copied()).map_err(failed)?;
                    let said = model.converse(&self.prompt).map_err(refused)?;
                    act(&["print", &said]).map_err(failed)?;
                }
                [how @ ("say" | "leave"), language, text, ref more @ ..] => {
                    let model = model::Model::of(language, None).map_err(failed)?;
                    let more = more.first().map_or(Ok(Value::Null), |more| serde_json::from_str(more));
                    let more = more.map_err(|error| failed(error.to_string()))?;
                    let said = plain::say(&model, &mut self.said.borrow_mut(), text, &more, how == "leave")
                        .map_err(refused)?;
                    act(&["print", &said]).map_err(failed)?;
                }
                _ => act(&words).map_err(failed)?,
            }
        }
        Ok(())
    }

    fn holds(&self, condition: &[&str]) -> Result<bool, String> {
        Ok(match condition {
            ["exists", path] => Path::new(path).exists(),
            ["missing", path] => !Path::new(path).exists(),
            ["prompt", text] => self.prompt.contains(text),
            ["contains", path, text] => fs::read_to_string(path).is_ok_and(|content| content.contains(text)),
            ["set", name] => std::env::var_os(name).is_some_and(|value| !value.is_empty()),
            _ => return Err(format!("`{}` is no condition", condition.join(" "))),
        })
    }

    /// Resolves escapes and `${…}`.
    fn expand(&self, word: &str) -> String {
        let mut text = String::new();
        let mut rest = word;
        while let Some(at) = rest.find(['\\', '$']) {
            text.push_str(&rest[..at]);
            let tail = &rest[at + 1..];
            rest = match (rest.as_bytes()[at], tail.strip_prefix('{').and_then(|tail| tail.split_once('}'))) {
                (b'\\', _) => {
                    let escaped = tail.chars().next().unwrap_or('\\');
                    text.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        other => other,
                    });
                    &tail[escaped.len_utf8().min(tail.len())..]
                }
                (_, Some((name, tail))) => {
                    text.push_str(&self.value(name));
                    tail
                }
                (_, None) => {
                    text.push('$');
                    tail
                }
            };
        }
        text + rest
    }

    fn value(&self, name: &str) -> String {
        if name == "PROMPT" {
            return self.prompt.clone();
        }
        match name.parse::<usize>() {
            Ok(at) => self.args.get(at.wrapping_sub(1)).cloned().unwrap_or_default(),
            Err(_) => std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()).unwrap_or_default(),
        }
    }
}

/// A model that says no ends the agent.
fn refused(why: String) -> Stop {
    let _ = writeln!(io::stderr(), "fake-agent: {why}");
    Stop::Exit(1)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a fitting number"))
}

/// Does a step that depends on nothing but its words.
fn act(words: &[&str]) -> Result<(), String> {
    let done = match *words {
        ["write", path, text] => put(path, &format!("{text}\n")),
        ["raw", path, text] => put(path, text),
        ["append", path, text] => append(Path::new(path), text),
        ["delete", path] if Path::new(path).is_dir() => fs::remove_dir_all(path),
        ["delete", path] => fs::remove_file(path),
        ["mkdir", path] => fs::create_dir_all(path),
        ["link", target, path] => std::os::unix::fs::symlink(target, path),
        ["mode", path, octal] => {
            let mode = u32::from_str_radix(octal, 8).map_err(|_| format!("`{octal}` is no mode"))?;
            fs::set_permissions(path, PermissionsExt::from_mode(mode))
        }
        ["print", text] => writeln!(io::stdout(), "{text}"),
        ["complain", text] => writeln!(io::stderr(), "{text}"),
        ["flood", bytes] => flood(number(bytes)?),
        ["sleep", milliseconds] => {
            std::thread::sleep(Duration::from_millis(number(milliseconds)?));
            Ok(())
        }
        ["wait", path] => {
            while !Path::new(path).exists() {
                std::thread::sleep(PAUSE);
            }
            Ok(())
        }
        ["git", ref args @ ..] => return run(Command::new("git").args(args)),
        ["shell", script] => return run(Command::new("sh").args(["-c", script])),
        ["background", path] => background(path),
        ["ignore-term"] => ignore_term(),
        ["hang"] => loop {
            std::thread::sleep(Duration::from_secs(3600));
        },
        ["crash"] => std::process::abort(),
        _ => return Err(format!("`{}` is no step", words.join(" "))),
    };
    done.map_err(|e| format!("{}: {e}", words.join(" ")))
}

fn put(path: &str, text: &str) -> io::Result<()> {
    if let Some(parent) = Path::new(path).parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text)
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    writeln!(OpenOptions::new().create(true).append(true).open(path)?, "{text}")
}

fn flood(mut bytes: usize) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let line = [[b'x'; 127].as_slice(), b"\n"].concat();
    while bytes > 0 {
        let now = bytes.min(line.len());
        stdout.write_all(&line[..now])?;
        bytes -= now;
    }
    stdout.flush()
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.stdin(Stdio::null()).status().map_err(|e| e.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("{status}")) }
}

/// Starts a process that continues after this one, and waits until it does its work.
fn background(path: &str) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([BACKGROUND, path]).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    while !Path::new(path).exists() {
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn write_for_ever(args: &[String]) -> ExitCode {
    let Some(path) = args.first() else { return complain(BAD_SCRIPT, "no path to write to") };
    let failed = |e: io::Error| complain(STEP_FAILED, &format!("{path}: {e}"));
    if let Err(e) = ignore_term() {
        return failed(e);
    }
    loop {
        if let Err(e) = append(Path::new(path), &std::process::id().to_string()) {
            return failed(e);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Takes TERM and does nothing about it. What is registered once stays so, also without the runtime.
fn ignore_term() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let _ = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        Ok(())
    })
}
