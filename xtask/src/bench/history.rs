//! What was recorded, read: `cargo xtask bench history`. The log of many runs, a search through long conversations, and a run
//! as a page.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use jiff::{Timestamp, ToSpan as _};
use serde_json::{Value, json};

use super::options::Options;
use super::samples::Samples;
use super::verdict::Verdicts;
use super::world::World;

/// The runs of the log, and the records of each.
const RUNS: usize = 1_000;
const RECORDS: usize = 50;

/// Lines of a page at a terminal.
const PAGE: &str = "50";

/// The runs that are searched, and the turns and bytes of each.
const SEARCHED: usize = 10;
const MESSAGE: usize = 10_000;

/// Turns of the run that becomes a page.
const EXPORTED: usize = 40;

/// So many runs are at work at once.
const OVERLAP: usize = 4;

const FIRST_PAGE_MS: f64 = 300.0;
const FIRST_HIT_MS: f64 = 300.0;
const SEARCH_MS: f64 = 2_500.0;
const EXPORT_MS: f64 = 500.0;

/// A word nobody says, and one that the newest turn alone has.
const NOWHERE: &str = "quetzalcoatlus";
const NEWEST: &str = "archaeopteryx";

/// Runs the benchmark with the program as it is shipped.
pub fn run(pleach: &Path, options: &Options) -> Result<Verdicts, Box<dyn Error>> {
    let rounds = options.rounds.min(5);
    let world = World::new()?;
    let mut verdicts = Verdicts::default();
    log(&world, pleach, rounds, &mut verdicts)?;
    search(&world, pleach, options.turns, rounds, &mut verdicts)?;
    export(&world, pleach, rounds, &mut verdicts)?;
    Ok(verdicts)
}

fn log(world: &World, pleach: &Path, rounds: usize, verdicts: &mut Verdicts) -> Result<(), Box<dyn Error>> {
    let repo = repository(world, "log")?;
    let mut stream = Stream::default();
    for run in 0..RUNS {
        let records = RECORDS - 2;
        stream.run(run, records, |number| (turn(number, None), Vec::new()));
    }
    world.git_reading(&repo, &["fast-import", "--quiet"], stream.0.as_bytes())?;
    let [mut page, mut turns, mut whole] = [(); 3].map(|()| Samples::default());
    for _ in 0..rounds {
        expect(page.time(|| said(world, pleach, &repo, &["log", "-n", PAGE]))?, "done")?;
        expect(turns.time(|| said(world, pleach, &repo, &["log", "--turns", "-n", PAGE]))?, "main.")?;
        expect(whole.time(|| said(world, pleach, &repo, &["log"]))?, "started")?;
    }
    println!("log of {RUNS} runs with {} records; median and best of {rounds} rounds", RUNS * RECORDS);
    show(&[("first page", &page), ("first page with turns", &turns), ("all of it", &whole)]);
    verdicts.at_most(&format!("log, first page, {RUNS} runs"), page.median(), FIRST_PAGE_MS, " ms");
    verdicts.at_most("log, first page with turns", turns.median(), FIRST_PAGE_MS, " ms");
    Ok(())
}

fn search(
    world: &World,
    pleach: &Path,
    turns: usize,
    rounds: usize,
    verdicts: &mut Verdicts,
) -> Result<(), Box<dyn Error>> {
    let repo = repository(world, "search")?;
    let mut stream = Stream::default();
    let mut words = Words(7);
    for run in 0..SEARCHED {
        let each = turns / SEARCHED;
        stream.run(run, each, |number| {
            let newest = if run + 1 == SEARCHED && number == each { NEWEST } else { "" };
            let said = format!("{} {newest}", words.text(MESSAGE / 5));
            let answer = json!({"role": "assistant", "content": [{"type": "text", "text": said}]});
            let printed = words.text(MESSAGE * 4 / 5 - 200);
            let printed = json!({"role": "tool", "content": [
                {"type": "tool_result", "id": "1", "content": printed, "is_error": false}]});
            let first = (2 * number - 1) as u64;
            (turn(number, Some(first)), vec![(first, answer), (first + 1, printed)])
        });
    }
    world.git_reading(&repo, &["fast-import", "--quiet"], stream.0.as_bytes())?;
    let listed = world.git(&repo, &["rev-list", "--objects", "--glob=refs/pleach/sessions/*"])?;
    let is_message = |line: &&str| line.contains(" messages/");
    let ids: String = listed.lines().filter(is_message).map(|line| format!("{}\n", &line[..40])).collect();
    std::fs::write(world.root().join("ids"), ids)?;
    let grep = format!("git cat-file --batch < '{}' | grep -c -i {NOWHERE}", world.root().join("ids").display());
    let [mut first, mut all, mut regex, mut piped] = [(); 4].map(|()| Samples::default());
    for _ in 0..rounds {
        expect(first.time(|| said(world, pleach, &repo, &["search", NEWEST, "-n", "1"]))?, NEWEST)?;
        expect(all.time(|| said(world, pleach, &repo, &["search", NOWHERE]))?, "Nobody")?;
        expect(regex.time(|| said(world, pleach, &repo, &["search", "--regex", "quetzal.*lus"]))?, "Nobody")?;
        piped.time(|| world.program("sh", &repo).args(["-c", &grep]).stdout(Stdio::null()).status())?;
    }
    let ratio = all.median() / piped.median();
    println!("search through {turns} turns of {MESSAGE} bytes; median and best of {rounds} rounds");
    show(&[("first hit", &first), ("all", &all), ("all, by expression", &regex), ("git cat-file and grep", &piped)]);
    verdicts.at_most("search, first hit", first.median(), FIRST_HIT_MS, " ms");
    verdicts.at_most(&format!("search, {turns} turns"), all.median(), SEARCH_MS, " ms");
    verdicts.at_most("search, against git cat-file piped to grep", ratio, 1.0, " ×");
    Ok(())
}

fn export(world: &World, pleach: &Path, rounds: usize, verdicts: &mut Verdicts) -> Result<(), Box<dyn Error>> {
    let repo = repository(world, "export")?;
    let names: Vec<String> = (1..=EXPORTED).map(|number| format!("n{number}")).collect();
    let node = |name: &String| format!("{name} [shape=parallelogram, tool_command=\"seq 1 200 | tee {name}.txt\"]\n");
    let nodes: String = names.iter().map(node).collect();
    let path = names.join(" -> ");
    let dot =
        format!("digraph chain {{ start [shape=Mdiamond]\ndone [shape=Msquare]\n{nodes}start -> {path} -> done }}");
    std::fs::write(world.root().join("chain.dot"), dot)?;
    said(world, pleach, &repo, &["--yes", "run", "../chain.dot"])?;
    let mut samples = Samples::default();
    for _ in 0..rounds {
        let page = samples.time(|| said(world, pleach, &repo, &["export", "--format", "html", "-"]))?;
        expect(page, &format!("main.{EXPORTED}"))?;
    }
    println!("export of {EXPORTED} turns as a page; median and best of {rounds} rounds");
    show(&[("export --format html", &samples)]);
    verdicts.at_most(&format!("export html, {EXPORTED} turns"), samples.median(), EXPORT_MS, " ms");
    Ok(())
}

fn repository(world: &World, name: &str) -> Result<PathBuf, Box<dyn Error>> {
    let repo = world.root().join(name);
    world.git(world.root(), &["init", "--quiet", name])?;
    world.git(&repo, &["commit", "--quiet", "--allow-empty", "--message", "Begin"])?;
    Ok(repo)
}

fn said(world: &World, pleach: &Path, dir: &Path, args: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = world.program(pleach, dir).args(args).output()?;
    if !output.status.success() {
        return Err(format!("pleach {args:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn expect(said: String, word: &str) -> Result<(), Box<dyn Error>> {
    if said.contains(word) { Ok(()) } else { Err(format!("`{word}` is not in what was said:\n{said}").into()) }
}

fn show(rows: &[(&str, &Samples)]) {
    for (what, samples) in rows {
        println!("{what:<36} {:9.2} ms {:9.2} ms", samples.median(), samples.best());
    }
}

/// What `git fast-import` reads.
#[derive(Default)]
struct Stream(String);

/// A turn: its event, and its messages by number.
type Turn = (Value, Vec<(u64, Value)>);

impl Stream {
    /// The records of a run, which begins before the one before it has ended: a start, turns, an end.
    fn run(&mut self, run: usize, turns: usize, mut turn: impl FnMut(usize) -> Turn) {
        let id = session(run);
        let begin = 1_700_000_000 + (run * (turns + 2) * 60 / OVERLAP) as i64;
        for number in 0..turns + 2 {
            let at = begin + number as i64 * 60;
            let (subject, (data, messages)) = match number {
                0 => ("start hello".to_owned(), (start(&id), Vec::new())),
                last if last == turns + 1 => {
                    ("start exit (visit 1, attempt 1); exit success: the end".to_owned(), (end(), Vec::new()))
                }
                turn_number => (format!("turn main.{turn_number}: code"), turn(turn_number)),
            };
            let recorded =
                Timestamp::from_second(at).map(|at| at + (number as i64 % 1000).milliseconds()).unwrap_or_default();
            let mut event = data;
            (event["version"], event["at"]) = (json!(1), json!(recorded.to_string()));
            let message = format!("{subject}\n\nPleach-Record: 1\nPleach-Session: {id}\nPleach-Context: main\n");
            // Writing to a string cannot fail.
            let _ = write!(
                self.0,
                "commit refs/pleach/sessions/{id}/main\ncommitter pleach <pleach@local> {at} +0000\ndata {}\n{message}\ndeleteall\n",
                message.len()
            );
            self.file("events.json", &format!("[{event}]"));
            for (number, message) in messages {
                self.file(&format!("messages/{number:04}.json"), &message.to_string());
            }
        }
    }

    fn file(&mut self, path: &str, content: &str) {
        let _ = write!(self.0, "M 100644 inline {path}\ndata {}\n{content}\n", content.len());
    }
}

fn session(number: usize) -> String {
    let letter = |at: u32| char::from(b'a' + u8::try_from(number / 26_usize.pow(at) % 26).unwrap_or_default());
    format!("bench{}{}{}", letter(2), letter(1), letter(0))
}

fn start(id: &str) -> Value {
    let zeros = "0".repeat(40);
    json!({"type": "dev.orchestra.PipelineStarted", "data": {
        "name": "hello", "goal": "Greet the reader", "dot": "digraph hello { start [shape=Mdiamond] exit [shape=Msquare] start -> exit }",
        "dot_path": "hello.dot", "files": {}, "inputs": {}, "config": {}, "base": {"repo": zeros},
        "branches": {"repo": format!("pleach/hello/{id}")}, "targets": {"repo": "main"}, "simulated": true}})
}

fn end() -> Value {
    json!({"type": "dev.orchestra.PipelineCompleted", "data": {"workspace_snapshot": {"repo": "0".repeat(40)}}})
}

fn turn(number: usize, first: Option<u64>) -> Value {
    let usage = json!({"input": 1200, "cache_read": 0, "cache_write": 0, "output": 300, "reasoning": 0});
    json!({"type": "dev.orchestra.AgentTurn", "data": {
        "turn": format!("main.{number}"), "turn_number": number, "node_id": "code", "visit": 1, "attempt": 1,
        "agent": "builtin", "model": "bench-1", "provider": "script",
        "messages": first.map(|first| json!({"first": first, "last": first + 1})),
        "tool_calls": [{"id": "1", "name": "shell", "arguments": {"command": "make test"}, "is_error": false}],
        "files_written": {}, "token_usage": usage, "cost_usd": 0.01, "git_sha": null, "commit_message": null,
        "boundary": "exact", "agent_state_ref": null}})
}

/// Words as programs and models say them: some often, some seldom.
struct Words(u64);

impl Words {
    fn text(&mut self, length: usize) -> String {
        let mut text = String::with_capacity(length + 16);
        while text.len() < length {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = self.0 >> 33;
            let word = if number.is_multiple_of(3) { number } else { number % 400 };
            let end = if number.is_multiple_of(11) { '\n' } else { ' ' };
            let _ = write!(text, "w{word:x}{end}");
        }
        text
    }
}
