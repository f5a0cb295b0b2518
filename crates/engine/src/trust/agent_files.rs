//! What agents run because files of the repository say so: hooks, servers, plugins.

use std::collections::BTreeSet;

use super::files::Files;
use super::{Error, TrustItem, TrustScope};
use agents::agent::Preset;
use git::TreeId;
use pleach_core::config::{AgentChoice, AgentRef, AgentSettings, Config};
use pleach_core::plan::pipeline::Node;

impl TrustScope<'_> {
    /// What the configured agents obey of the files they start from. It is asked about wherever such an agent is
    /// configured, whether or not a node comes to it.
    pub(crate) fn agent_files<'a>(
        &self,
        files: TreeId,
        nodes: impl Iterator<Item = &'a Node>,
    ) -> Result<Vec<TrustItem>, Error> {
        let files = Files { repo: self.repo, tree: files };
        let kinds = kinds(&self.resolved.config, nodes);
        let paths = kinds.into_iter().filter_map(Preset::of).flat_map(|preset| &preset.obeys);
        let mut items = Vec::new();
        for path in paths {
            if let Some((where_from, text)) = files.content_at(path)? {
                items.push(TrustItem::obeyed(where_from, text));
            }
        }
        Ok(items)
    }
}

/// The kinds of the configured agents.
fn kinds<'a>(config: &Config, nodes: impl Iterator<Item = &'a Node>) -> BTreeSet<&'static str> {
    // Of one with a name, what its entry says counts, as that of all others does.
    let given = config.agent.iter().chain(config.tree.steps.values().filter_map(|step| step.runner.as_ref()));
    let runners = config.agents.values().filter_map(|agent| agent.runner.clone());
    let named = config.agents.keys().cloned().chain(nodes.filter_map(|node| node.agent.clone()));
    let named = named.filter_map(|name| name.parse::<AgentChoice>().ok());
    let choices = given.filter_map(AgentRef::kind).cloned().chain(runners).chain(named);
    let templates = config.agents.values().flat_map(template);
    choices.flat_map(words).chain(templates).flat_map(|word| spoken_of(&word)).collect()
}

/// The words that say which agent a choice is: its kind, or the command it runs.
fn words(choice: AgentChoice) -> Vec<String> {
    choice.argv().unwrap_or_else(|| vec![choice.kind().to_owned()])
}

/// The words that say which agent a template of the configuration starts.
fn template(agent: &AgentSettings) -> Vec<String> {
    let parser = agent.parser.map(|parser| parser.to_string());
    agent.command.iter().chain(&agent.args).cloned().chain(parser).collect()
}

/// The kinds of agents a word of a command mentions: they are also started by a path, a wrapper, a shell or a package
/// runner.
fn spoken_of(word: &str) -> Vec<&'static str> {
    Preset::kinds().filter(|kind| word.contains(kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_recognized_by_words_of_their_commands() {
        for (word, expected) in [
            ("claude", vec!["claude"]),
            ("/opt/bin/claude-next", vec!["claude"]),
            ("exec npx @openai/codex && gemini -p x", vec!["codex", "gemini"]),
            ("opencode-ai", vec!["opencode"]),
            ("aider", vec![]),
        ] {
            assert_eq!(spoken_of(word), expected, "{word}");
        }
    }

    #[test]
    fn every_way_to_configure_an_agent_counts() {
        let with =
            |name: &str, agent: AgentSettings| Config { agents: [(name.into(), agent)].into(), ..Config::default() };
        let agent = AgentSettings::default;
        for config in [
            Config { agent: Some(AgentChoice::Claude.into()), ..Config::default() },
            Config { agent: Some("command:sh -c 'claude -p'".parse().unwrap()), ..Config::default() },
            Config { agent: Some("acp:npx claude-code-acp".parse().unwrap()), ..Config::default() },
            with("claude", agent()),
            with("w", AgentSettings { runner: Some(AgentChoice::Claude), ..agent() }),
            with("w", AgentSettings { command: vec!["claude".into(), "-p".into()], ..agent() }),
            with(
                "w",
                AgentSettings {
                    command: vec!["./run".into()],
                    parser: Some(pleach_core::config::ParserName::Claude),
                    ..agent()
                },
            ),
        ] {
            assert_eq!(kinds(&config, std::iter::empty()), BTreeSet::from(["claude"]), "{config:?}");
        }
        assert_eq!(kinds(&Config::default(), std::iter::empty()), BTreeSet::new());
    }
}
