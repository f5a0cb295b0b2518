//! A run as Markdown. What was said is quoted, and what programs got and printed is in fences no text can close.

use agents::llm::{Message, Part, Role};
use pleach_core::text::visible;

use super::story::{minute, note};
use super::{RunStory, StoryItem, StoryTurn, StoryVisit};

/// A run as Markdown.
pub fn markdown(story: &RunStory) -> String {
    let mut text = format!("# {}\n\n**{}**", plain(&story.title), story.standing);
    text.extend(story.why.iter().map(|why| format!(": {}", plain(why))));
    text.push_str("\n\n");
    text.push_str(&format!("- run: `{}`\n", story.run));
    for (name, value) in &story.facts {
        text.push_str(&format!("- {name}: {}\n", plain(value)));
    }
    if story.goal.lines().nth(1).is_some() {
        text.push_str(&format!("\n{}\n", fenced("text", &story.goal)));
    }
    for item in &story.items {
        match item {
            StoryItem::Note(entry) => text.push_str(&format!("\n*{} — {}*\n", minute(entry.at), plain(&note(entry)))),
            StoryItem::Visit(visit) => text.push_str(&node(visit)),
        }
    }
    text
}

fn node(visit: &StoryVisit) -> String {
    let mut text = format!("\n## {} — {}\n\n{}\n", visit.name(), visit.outcome(), minute(visit.at));
    if let Some(remark) = visit.remark() {
        text.push_str(&format!("\n{}\n", quoted(remark)));
    }
    if let Some(gate) = &visit.gate {
        text.push_str(&format!("\n**{}** {} ({})\n", plain(&gate.question), plain(&gate.answer), gate.source));
        text.extend(gate.comment.iter().map(|comment| format!("\n{}\n", quoted(comment))));
    }
    text.extend(visit.turns.iter().map(turn));
    text
}

fn turn(turn: &StoryTurn) -> String {
    let mut text = format!("\n### {}\n", plain(&turn.heading()));
    text.extend(turn.command().map(|command| format!("\n{}\n", fenced("sh", command))));
    for message in &turn.messages {
        text.push_str(&said(message));
    }
    if let Some(message) = &turn.turn.message {
        text.push_str(&format!("\nCommitted:\n\n{}\n", quoted(message)));
    }
    for (repo, patch) in &turn.patches {
        let name = if turn.patches.len() > 1 { format!("\n{repo}:\n") } else { String::new() };
        text.push_str(&format!("{name}\n{}\n", fenced("diff", patch)));
    }
    text
}

fn said(message: &Message) -> String {
    let own = |text: &str| match message.role {
        Role::System | Role::User => format!("\n**Prompt**\n\n{}\n", fenced("text", text)),
        Role::Assistant => format!("\n{}\n", quoted(text)),
        Role::Tool => format!("\n{}\n", fenced("text", text)),
    };
    let part = |part: &Part| match part {
        Part::Text { text, .. } => own(text),
        Part::Thinking { text, .. } => format!("\n*Thinks:*\n\n{}\n", quoted(text)),
        Part::ToolCall { name, arguments, .. } => {
            format!("\n→ `{}`\n\n{}\n", visible(name).replace('`', "'"), fenced("json", &format!("{arguments:#}")))
        }
        Part::ToolResult { content, is_error, .. } => {
            let name = if *is_error { "← error" } else { "← result" };
            format!("\n{name}\n\n{}\n", fenced("text", content))
        }
        Part::Unknown(value) => format!("\n{}\n", fenced("json", &format!("{value:#}"))),
    };
    message.content.iter().filter(|part| !is_empty(part)).map(part).collect()
}

pub(super) fn is_empty(part: &Part) -> bool {
    matches!(part, Part::Text { text, .. } | Part::Thinking { text, .. } if text.trim().is_empty())
}

/// A text on one line that means nothing to Markdown.
fn plain(text: &str) -> String {
    let line = visible(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    line.chars().flat_map(|c| ("\\`*_[]<>#|&".contains(c)).then_some('\\').into_iter().chain([c])).collect()
}

/// A text as somebody's words. Its own Markdown counts, its HTML does not.
fn quoted(text: &str) -> String {
    let line = |line: &str| format!("> {}", harmless(line).replace('<', "&lt;")).trim_end().to_owned();
    text.trim().lines().map(line).collect::<Vec<_>>().join("\n")
}

/// A text as it is, in a fence longer than any in it.
fn fenced(kind: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{kind}\n{}\n{fence}", harmless(text.trim_end_matches('\n')))
}

/// A text without what would hide or turn around a part of it.
pub(super) fn harmless(text: &str) -> String {
    text.replace("\r\n", "\n").split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_gets_out_of_its_fence() {
        assert_eq!(fenced("text", "a\n"), "```text\na\n```");
        assert_eq!(fenced("text", "```\n<script>\n`````"), "``````text\n```\n<script>\n`````\n``````");
        assert_eq!(quoted("a\n\n<b>\u{1b}"), "> a\n>\n> &lt;b>\\u{1b}");
        assert_eq!(plain("a <b>\n`c`"), "a \\<b\\> \\`c\\`");
    }
}
