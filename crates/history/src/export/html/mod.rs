//! A run as a page for browsers: one file without scripts, links to other places, or anything a browser would load. All text
//! goes through `page`, so that nothing an agent says becomes a part of the page.

mod page;
mod patch;

use agents::llm::{Message, Part, Role};
use pleach_core::text::{counted, first_line};

use super::markdown::is_empty;
use super::story::{minute, note};
use super::{RunStory, StoryItem, StoryTurn, StoryVisit};
use page::Page;

/// How many lines of a text are shown without being asked for.
const SHORT: usize = 12;

/// A run as a page.
pub fn html(story: &RunStory) -> String {
    let mut page = Page::new(&story.title);
    page.element("header", "", |page| {
        page.text("p", "run", &story.run);
        page.text("h1", "", &story.title);
        page.badge(story.standing);
        story.why.iter().for_each(|why| page.text("p", "why", why));
        if story.goal.lines().nth(1).is_some() {
            page.text("div", "goal", &story.goal);
        }
        page.element("dl", "", |page| {
            for (name, value) in &story.facts {
                page.text("dt", "", name);
                page.text("dd", "", value);
            }
        });
    });
    overview(&mut page, story);
    for (number, item) in story.items.iter().enumerate() {
        match item {
            StoryItem::Note(entry) => {
                page.text("p", "note", &format!("{} — {}", minute(entry.at), note(entry)));
            }
            StoryItem::Visit(visit) => node(&mut page, number, visit),
        }
    }
    page.end()
}

/// The nodes at a glance.
fn overview(page: &mut Page, story: &RunStory) {
    page.element("nav", "", |page| {
        page.element("ol", "", |page| {
            for (number, item) in story.items.iter().enumerate() {
                let StoryItem::Visit(visit) = item else { continue };
                page.element("li", "", |page| {
                    page.link(number, &visit.name());
                    page.badge(&visit.outcome());
                });
            }
        });
    });
}

fn node(page: &mut Page, number: usize, visit: &StoryVisit) {
    page.section(number, |page| {
        page.text("h2", "", &visit.name());
        page.badge(&visit.outcome());
        page.text("p", "time", &minute(visit.at));
        visit.remark().iter().for_each(|remark| page.text("p", "why", remark));
        if let Some(gate) = &visit.gate {
            page.text("p", "question", &gate.question);
            page.text("div", "said", &gate.answer);
            gate.comment.iter().for_each(|comment| page.text("div", "said", comment));
        }
        visit.turns.iter().for_each(|of_visit| turn(page, of_visit));
    });
}

fn turn(page: &mut Page, turn: &StoryTurn) {
    page.element("article", "", |page| {
        page.text("h3", "", &turn.heading());
        turn.command().iter().for_each(|command| page.text("pre", "command", command));
        turn.messages.iter().for_each(|message| said(page, message));
        turn.turn.message.iter().for_each(|message| page.text("p", "commit", message));
        for (repo, patch) in &turn.patches {
            let name = if turn.patches.len() > 1 { format!("{repo}: ") } else { String::new() };
            patch::show(page, &name, patch);
        }
    });
}

fn said(page: &mut Page, message: &Message) {
    for part in message.content.iter().filter(|part| !is_empty(part)) {
        match (part, message.role) {
            (Part::Text { text, .. }, Role::Assistant) => page.text("div", "said", text),
            (Part::Text { text, .. }, Role::Tool) => folded(page, "output", text, "Output"),
            (Part::Text { text, .. }, Role::User | Role::System) => folded(page, "prompt", text, "Prompt"),
            (Part::Thinking { text, .. }, _) => page.details("thought", false, "Thinks", |page| {
                page.text("div", "said", text);
            }),
            (Part::ToolCall { name, arguments, .. }, _) => {
                let given = arguments.to_string();
                page.details("call", false, &format!("→ {name} {}", short(&given)), |page| {
                    page.text("pre", "", &format!("{arguments:#}"));
                });
            }
            (Part::ToolResult { content, is_error, .. }, _) => {
                let name = if *is_error { "← error" } else { "←" };
                let class = if *is_error { "result error" } else { "result" };
                page.details(class, false, &format!("{name} {}", short(content)), |page| {
                    page.text("pre", "", content);
                });
            }
            (Part::Unknown(value), _) => page.text("pre", "", &format!("{value:#}")),
        }
    }
}

/// A text that is shown whole if it is short, and else when it is asked for.
fn folded(page: &mut Page, class: &str, text: &str, name: &str) {
    let lines = text.trim_end().lines().count();
    let is_short = lines <= SHORT && text.len() <= 80 * SHORT;
    let name = if is_short { name.to_owned() } else { format!("{name}: {}", short(text)) };
    page.details(class, is_short, &name, |page| page.text("pre", "", text.trim_end()));
}

fn short(text: &str) -> String {
    let line = pleach_core::text::shorten(first_line(text), 100);
    match text.trim().lines().count() {
        0 | 1 => line,
        lines => format!("{line} ({})", counted(lines, "line")),
    }
}
