//! A script names the tools of the built-in agent. Here they become those the client has: `write_file` is `Write` for
//! one, and a command of the shell for another.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::llm::wire::Format;
use crate::llm::{Part, Request, ToolSpec};
use os::confined_fs::ConfinedDir;

/// Tools that write, edit, read and run, by the names agents give them.
const WRITE: [&str; 4] = ["Write", "write_file", "write", "create_file"];
const EDIT: [&str; 5] = ["Edit", "replace", "edit", "edit_file", "str_replace"];
const READ: [&str; 3] = ["Read", "read_file", "read"];
const SHELL: [&str; 9] = [
    "Bash",
    "run_shell_command",
    "bash",
    "exec_command",
    "shell_command",
    "shell",
    "local_shell",
    "run_command",
    "run_terminal_cmd",
];

/// Arguments that are paths.
const PATHS: [&str; 4] = ["file_path", "filePath", "absolute_path", "path"];
const OLD: [&str; 4] = ["old_string", "oldString", "old_str", "old"];
const NEW: [&str; 4] = ["new_string", "newString", "new_str", "new"];
const COMMAND: [&str; 2] = ["command", "cmd"];
const PATCH: [&str; 3] = ["patchText", "input", "patch"];

/// The largest file that is edited on behalf of a program.
const LONGEST: u64 = 64 * 1024 * 1024;

/// Turns a script's call into one of a tool the request offers. What no tool of the client can do stays as it is: the
/// client will say that it has no such tool.
pub(super) fn fit(part: &mut Part, request: &Request, format: Format, cwd: &Path) {
    let Part::ToolCall { name, arguments, extra, .. } = part else { return };
    let Some(action) = ScriptedAction::of(name, arguments) else { return };
    let Some(fitted) = action.fit(&request.tools, cwd) else { return };
    match fitted {
        Fitted::Function(tool, given) => {
            *name = tool.to_owned();
            *arguments = Value::Object(given);
        }
        Fitted::Text(tool, text) => {
            *name = tool.to_owned();
            *arguments = text.into();
            if format == Format::Responses {
                extra.insert(format.name().to_owned(), json!({"type": "custom_tool_call"}));
            }
        }
    }
}

/// What a script wants done.
enum ScriptedAction<'a> {
    Write { path: &'a str, content: &'a str },
    Edit { path: &'a str, old: &'a str, new: &'a str },
    Read { path: &'a str },
    Run { command: &'a str },
}

/// A call of a tool the client has.
enum Fitted<'a> {
    Function(&'a str, Map<String, Value>),
    Text(&'a str, String),
}

impl<'a> ScriptedAction<'a> {
    fn of(name: &str, arguments: &'a Value) -> Option<Self> {
        let text = |key: &str| arguments.get(key).and_then(Value::as_str);
        Some(match name {
            "write_file" => Self::Write { path: text("file_path")?, content: text("content")? },
            "edit_file" => Self::Edit { path: text("file_path")?, old: text("old_string")?, new: text("new_string")? },
            "read_file" => Self::Read { path: text("file_path")? },
            "shell" => Self::Run { command: text("command")? },
            _ => return None,
        })
    }

    fn fit<'t>(&self, tools: &'t [ToolSpec], cwd: &Path) -> Option<Fitted<'t>> {
        let whole = |path: &str| cwd.join(path).to_string_lossy().into_owned();
        let direct = match self {
            Self::Write { path, content } => find(tools, &WRITE).map(|tool| {
                (
                    tool,
                    vec![
                        (key(tool, &PATHS), whole(path)),
                        (key(tool, &["content", "contents"]), (*content).to_owned()),
                    ],
                )
            }),
            Self::Edit { path, old, new } => find(tools, &EDIT).map(|tool| {
                let mut given = vec![
                    (key(tool, &PATHS), whole(path)),
                    (key(tool, &OLD), (*old).to_owned()),
                    (key(tool, &NEW), (*new).to_owned()),
                ];
                if has(tool, "instruction") {
                    given.push(("instruction", "as the script says".to_owned()));
                }
                (tool, given)
            }),
            Self::Read { path } => find(tools, &READ).map(|tool| (tool, vec![(key(tool, &PATHS), whole(path))])),
            Self::Run { .. } => None,
        };
        if let Some((tool, given)) = direct {
            let given = given.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
            return Some(Fitted::Function(&tool.name, given));
        }
        if let Some(tool) = find(tools, &SHELL) {
            return Some(Fitted::Function(&tool.name, run_with(tool, self.command(cwd))));
        }
        if let Some((tool, shell)) = tools.iter().find_map(|tool| Some((tool, shell_in_code(tool)?))) {
            let given = json!({"cmd": self.command(cwd)});
            let code = format!("const ran = await tools.{shell}({given});\ntext(JSON.stringify(ran));\n");
            return Some(Fitted::Text(&tool.name, code));
        }
        let tool = tools.iter().find(|tool| tool.name == "apply_patch")?;
        let patch = self.patch(cwd)?;
        if tool.parameters.is_null() {
            return Some(Fitted::Text(&tool.name, patch));
        }
        Some(Fitted::Function(&tool.name, Map::from_iter([(key(tool, &PATCH).to_owned(), patch.into())])))
    }

    /// The file after the edit, for clients without an edit tool.
    fn edited(&self, cwd: &Path) -> Option<String> {
        let Self::Edit { path, old, new } = self else { return None };
        let text = read(cwd, path)?;
        text.contains(old).then(|| text.replacen(old, new, 1))
    }

    fn command(&self, cwd: &Path) -> String {
        match self {
            Self::Write { path, content } => write_command(path, content),
            Self::Edit { path, .. } => match self.edited(cwd) {
                Some(text) => write_command(path, &text),
                None => format!("echo {} >&2; exit 1", quoted(&format!("{path} does not hold the old text"))),
            },
            Self::Read { path } => format!("cat {}", quoted(path)),
            Self::Run { command } => (*command).to_owned(),
        }
    }

    fn patch(&self, cwd: &Path) -> Option<String> {
        let lines = |mark: char, text: &str| text.lines().map(|line| format!("{mark}{line}\n")).collect::<String>();
        let (path, change) = match self {
            Self::Write { path, content } => match read(cwd, path) {
                Some(old) => {
                    (path, format!("*** Update File: {path}\n@@\n{}{}", lines('-', &old), lines('+', content)))
                }
                None => (path, format!("*** Add File: {path}\n{}", lines('+', content))),
            },
            Self::Edit { path, .. } => {
                let old = read(cwd, path)?;
                let new = self.edited(cwd)?;
                (path, format!("*** Update File: {path}\n@@\n{}{}", lines('-', &old), lines('+', &new)))
            }
            Self::Read { .. } | Self::Run { .. } => return None,
        };
        (!path.is_empty()).then(|| format!("*** Begin Patch\n{change}*** End Patch\n"))
    }
}

/// A file of the agent's worktree, and no other.
fn read(cwd: &Path, path: &str) -> Option<String> {
    let inside = Path::new(path).strip_prefix(cwd).unwrap_or(Path::new(path));
    let bytes = ConfinedDir::at(cwd).and_then(|cwd| cwd.read(inside, LONGEST)).ok().flatten()?;
    String::from_utf8(bytes).ok()
}

fn write_command(path: &str, content: &str) -> String {
    let dir = Path::new(path).parent().map(|dir| dir.to_string_lossy().into_owned()).filter(|dir| !dir.is_empty());
    let make = dir.map_or_else(String::new, |dir| format!("mkdir -p {} && ", quoted(&dir)));
    format!("{make}printf %s {} > {}", quoted(content), quoted(path))
}

/// A word as the shell takes it, whatever it holds.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn run_with(tool: &ToolSpec, command: String) -> Map<String, Value> {
    let name = key(tool, &COMMAND);
    let listed = properties(tool).and_then(|all| all.get(name)?.get("type")?.as_str()) == Some("array");
    let command = if listed { json!(["bash", "-c", command]) } else { command.into() };
    let mut given = Map::from_iter([(name.to_owned(), command)]);
    if has(tool, "description") {
        given.insert("description".into(), "a command of the script".into());
    }
    given
}

fn find<'t>(tools: &'t [ToolSpec], names: &[&str]) -> Option<&'t ToolSpec> {
    names.iter().find_map(|name| tools.iter().find(|tool| tool.name == *name && !is_text(tool)))
}

/// Whether a tool takes text as it is.
fn is_text(tool: &ToolSpec) -> bool {
    let kind = tool.extra.values().find_map(|known| known.pointer("/whole/type")?.as_str());
    kind == Some("custom")
}

/// The shell that a tool which runs code has for that code, if it is such a tool.
fn shell_in_code(tool: &ToolSpec) -> Option<&'static str> {
    const SHELL: &str = "exec_command";
    let whole = tool.extra.values().find_map(|known| known.get("whole")).filter(|_| is_text(tool))?;
    let about = whole.get("description")?.as_str()?;
    about.contains(&format!("tools.{SHELL}(")).then_some(SHELL)
}

/// The parameters of a tool, wherever its format has them.
fn properties(tool: &ToolSpec) -> Option<&Map<String, Value>> {
    let schema = match &tool.parameters {
        Value::Null => tool.extra.get("gemini").and_then(|known| known.get("parameters"))?,
        schema => schema,
    };
    schema.get("properties")?.as_object()
}

fn has(tool: &ToolSpec, name: &str) -> bool {
    properties(tool).is_some_and(|all| all.contains_key(name))
}

/// The name a tool gives to an argument.
fn key(tool: &ToolSpec, names: &[&'static str]) -> &'static str {
    names.iter().copied().find(|name| has(tool, name)).unwrap_or(names[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::Message;

    fn tool(name: &str, properties: &[&str]) -> ToolSpec {
        let properties: Map<String, Value> =
            properties.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
        ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters: json!({"type": "object", "properties": properties}),
            extra: Default::default(),
        }
    }

    fn fitted(tools: Vec<ToolSpec>, format: Format, cwd: &Path, name: &str, arguments: Value) -> (String, Value) {
        let request = Request { messages: vec![Message::user("x")], tools, ..Request::default() };
        let mut part = Part::tool_call("1", name, arguments);
        fit(&mut part, &request, format, cwd);
        match part {
            Part::ToolCall { name, arguments, .. } => (name, arguments),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_agent_gets_its_own_tools() {
        let cwd = Path::new("/w");
        let write = json!({"file_path": "src/a", "content": "it's\n"});
        let edit = json!({"file_path": "a", "old_string": "x", "new_string": "y"});
        let claude = || {
            let edit = ["file_path", "old_string", "new_string"];
            vec![
                tool("Bash", &["command", "description"]),
                tool("Write", &["file_path", "content"]),
                tool("Edit", &edit),
            ]
        };
        let fit = |tools, name, arguments: &Value| fitted(tools, Format::Chat, cwd, name, arguments.clone());
        let given = json!({"file_path": "/w/src/a", "content": "it's\n"});
        assert_eq!(fit(claude(), "write_file", &write), ("Write".into(), given));
        let given = json!({"file_path": "/w/a", "old_string": "x", "new_string": "y"});
        assert_eq!(fit(claude(), "edit_file", &edit), ("Edit".into(), given));
        let (name, given) = fit(claude(), "shell", &json!({"command": "ls", "timeout_ms": 5}));
        assert_eq!((name.as_str(), &given["command"]), ("Bash", &json!("ls")));
        let opencode = vec![tool("write", &["filePath", "content"]), tool("bash", &["command"])];
        assert_eq!(fit(opencode, "write_file", &write).1["filePath"], "/w/src/a");
        let codex = vec![tool("exec_command", &["cmd", "workdir"])];
        let (name, given) = fit(codex, "write_file", &write);
        let command = r"mkdir -p 'src' && printf %s 'it'\''s
' > 'src/a'";
        assert_eq!((name.as_str(), given), ("exec_command", json!({"cmd": command})));
        assert_eq!(fit(claude(), "todo", &json!({"a": 1})), ("todo".into(), json!({"a": 1})));
    }

    #[test]
    fn code_tools_get_code_that_runs_the_shell() {
        let about =
            "Run JavaScript code. All nested tools are on `tools`, for example `await tools.exec_command(...)`.";
        let whole = json!({"type": "custom", "name": "exec", "description": about});
        let mut exec = tool("exec", &[]);
        (exec.parameters, exec.extra) =
            (Value::Null, Map::from_iter([("responses".to_owned(), json!({"whole": whole}))]));
        let write = json!({"file_path": "a", "content": "\"x\"\n"});
        let (name, given) = fitted(vec![exec], Format::Responses, Path::new("/w"), "write_file", write);
        let code = r#"const ran = await tools.exec_command({"cmd":"printf %s '\"x\"\n' > 'a'"});"#;
        assert_eq!((name.as_str(), given.as_str().unwrap().lines().next()), ("exec", Some(code)));
    }

    #[test]
    fn clients_without_an_edit_tool_get_whole_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "one\ntwo\n").unwrap();
        let edit = json!({"file_path": "a", "old_string": "two", "new_string": "2"});
        let shell = || {
            let mut tool = tool("shell", &[]);
            tool.parameters = json!({"properties": {"command": {"type": "array"}}});
            vec![tool]
        };
        let (_, given) = fitted(shell(), Format::Responses, dir.path(), "edit_file", edit.clone());
        assert_eq!(given, json!({"command": ["bash", "-c", "printf %s 'one\n2\n' > 'a'"]}));
        let missing = json!({"file_path": "a", "old_string": "ten", "new_string": "2"});
        let (_, given) = fitted(shell(), Format::Responses, dir.path(), "edit_file", missing);
        assert!(given["command"][2].as_str().unwrap().ends_with("exit 1"), "{given}");
        let mut patch = tool("apply_patch", &[]);
        patch.parameters = Value::Null;
        let (_, given) = fitted(vec![patch], Format::Responses, dir.path(), "edit_file", edit);
        assert_eq!(given, "*** Begin Patch\n*** Update File: a\n@@\n-one\n-two\n+one\n+2\n*** End Patch\n");
    }
}
