//! `pleach graph`

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use pleach_core::plan;
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::text::shell_word;

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::pipeline_file::PipelineFile;
use crate::render::{Out, Source, graph};

/// Draw a pipeline.
///
/// A file with errors is not drawn; warnings do not matter here. SVG needs no other program. With --json, prints nodes
/// and edges as data.
#[derive(Debug, Args)]
pub struct GraphArgs {
    /// The pipeline, a DOT file.
    file: PathBuf,
    /// The format; by default the extension of OUT decides: .svg, .dot or .gv, .txt. Without OUT it is text.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A picture for browsers, legible on light and dark pages.
    Svg,
    /// The pipeline as DOT, with defaults, variables and the stylesheet applied to the nodes.
    Dot,
    /// Nodes and edges as lines of text.
    Text,
}

pub fn run(globals: &Globals, args: GraphArgs) -> Result<Exit, Failure> {
    if globals.json && args.format.is_some() {
        let message = "--json and --format cannot be used together";
        return Err(Failure::new(Code::OptionConflict, message).hint("leave one of them out"));
    }
    // Told before the file is read: whatever is wrong with it, the output cannot be written.
    let format = if globals.json {
        only_json(args.output.as_deref()).map(|()| Format::Text)?
    } else {
        format(args.format, args.output.as_deref())?
    };
    let pipeline = read(globals, &args.file)?;
    let diagram = graph::Diagram::new(&pipeline);
    let drawn = match format {
        _ if globals.json => format!("{}\n", diagram.json()),
        Format::Svg => graph::svg(&diagram),
        Format::Dot => plan::print::dot(&pipeline),
        Format::Text => graph::text(&diagram),
    };
    match args.output {
        None => Out::new().text(&drawn)?,
        Some(output) => write(globals, &args.file, &output, &drawn)?,
    }
    Ok(Exit::Done)
}

/// With `--json` the output is JSON and must be named so.
fn only_json(output: Option<&Path>) -> Result<(), Failure> {
    match output.and_then(Path::extension) {
        None => Ok(()),
        Some(ending) if ending.eq_ignore_ascii_case("json") => Ok(()),
        Some(_) => {
            let message = "--json writes JSON, whatever the output is called";
            Err(Failure::new(Code::OutputMisnamed, message).hint("end its name with .json, or leave --json out"))
        }
    }
}

/// The format that is asked for, or the one the ending of the output stands for.
fn format(asked: Option<Format>, output: Option<&Path>) -> Result<Format, Failure> {
    let (None, Some(output)) = (asked, output) else { return Ok(asked.unwrap_or(Format::Text)) };
    let ending = output.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    match ending.as_deref() {
        Some("svg") => Ok(Format::Svg),
        Some("dot" | "gv") => Ok(Format::Dot),
        None | Some("txt" | "text" | "md") => Ok(Format::Text),
        Some(ending) => {
            let message = format!("cannot draw `{}`: pleach does not write .{ending} files", output.display());
            Err(Failure::new(Code::OutputMisnamed, message)
                .hint("end it with .svg, .dot or .txt, or choose a --format"))
        }
    }
}

/// Reads a pipeline together with the prompt files it names. Only errors keep it from being drawn.
fn read(globals: &Globals, name: &Path) -> Result<Pipeline, Failure> {
    let file = PipelineFile::read_given(name, &globals.path(name))?;
    let (pipeline, diagnostics) = plan::load(&file.source, &file.inputs(BTreeMap::new()), &[]);
    let source = Source::new(&file.name, &file.source);
    let mut errors = diagnostics.iter().filter(|found| found.is_error()).peekable();
    let valid = errors.peek().is_none();
    errors.for_each(|error| say!("{}\n", source.show(error)));
    pipeline.filter(|_| valid).ok_or_else(|| {
        Failure::new(Code::PipelineInvalid, format!("`{}` cannot be drawn", file.name))
            .hint(format!("fix the errors above, then run `pleach validate {}`", shell_word(&file.name)))
    })
}

fn write(globals: &Globals, input: &Path, name: &Path, text: &str) -> Result<(), Failure> {
    let output = globals.path(name);
    // An output that is not there yet has no canonical path, and so is no file that could be lost.
    if output.canonicalize().is_ok_and(|output| globals.path(input).canonicalize().is_ok_and(|input| input == output)) {
        let message = format!("`{}` is the pipeline itself", name.display());
        return Err(Failure::new(Code::OutputMisnamed, message).hint("give another file with -o"));
    }
    let text = anstream::adapter::strip_str(text).to_string();
    fs::write(output, text).map_err(|error| {
        let code = match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory => Code::OutputMisplaced,
            _ => Code::OutputUnwritable,
        };
        Failure::new(code, format!("cannot write `{}`", name.display()))
            .because(&error)
            .hint("give a file in a directory that exists and may be written to")
    })
}
