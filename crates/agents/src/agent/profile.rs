//! A named agent of the configuration: its model, its tools, and the layers of its prompt.

use std::path::Path;

use serde::Deserialize;

use pleach_core::config::AgentSettings;

/// What makes a named agent different from the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// The model it uses when the node names none.
    pub model: Option<String>,
    /// The tools it may use; all when the list is empty.
    pub tools: Vec<String>,
    /// The layers of its prompt: headings and texts, in order.
    pub layers: Vec<(&'static str, String)>,
}

/// A layer file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot use the {layer} file `{file}`: {why}")]
pub struct LayerError {
    /// Which layer.
    pub layer: &'static str,
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub why: String,
}

/// A layer file: other keys are for people.
#[derive(Deserialize)]
struct ProfileLayer {
    content: String,
}

impl Profile {
    /// The profile of an agent without its files.
    pub fn of(settings: &AgentSettings) -> Self {
        Self { model: settings.model.clone(), tools: settings.tools.clone(), layers: Vec::new() }
    }

    /// The profile of an agent, with its files read.
    pub fn load(settings: &AgentSettings) -> Result<Self, LayerError> {
        let mut profile = Self::of(settings);
        let files = [
            ("role", &settings.role),
            ("persona", &settings.persona),
            ("personality", &settings.personality),
            ("task", &settings.task),
        ];
        for (layer, file) in files {
            if let Some(file) = file {
                profile.layers.push((layer, read(layer, file)?));
            }
        }
        Ok(profile)
    }

    /// The layers as a part of a system prompt.
    pub(super) fn text(&self) -> String {
        let title = |name: &str| name[..1].to_uppercase() + &name[1..];
        self.layers.iter().map(|(name, text)| format!("\n# {}\n{}\n", title(name), text.trim())).collect()
    }
}

fn read(layer: &'static str, file: &Path) -> Result<String, LayerError> {
    let wrong = |why: String| LayerError { layer, file: file.display().to_string(), why };
    let text = os::plain_file::read(file).map_err(|error| wrong(error.to_string()))?;
    let parsed: ProfileLayer = serde_saphyr::from_str(&text).map_err(|error| {
        let why = error.to_string();
        wrong(format!("{}; it is YAML with a `content` key", why.lines().next().unwrap_or_default()))
    })?;
    Ok(parsed.content)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn layers_are_read_in_their_order() {
        let dir = tempfile::TempDir::new().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            Some(path)
        };
        let settings = AgentSettings {
            task: write("t.yaml", "name: x\ncontent: |\n  Find bugs.\n"),
            role: write("r.yaml", "content: You review code."),
            model: Some("smart".into()),
            ..AgentSettings::default()
        };
        let profile = Profile::load(&settings).unwrap();
        assert_eq!(profile.text(), "\n# Role\nYou review code.\n\n# Task\nFind bugs.\n");
        assert_eq!(profile.model.as_deref(), Some("smart"));
        for (text, why) in [("contents: x", "content"), ("content: [", ""), ("x", "")] {
            let settings = AgentSettings { role: write("bad.yaml", text), ..AgentSettings::default() };
            let error = Profile::load(&settings).unwrap_err().to_string();
            assert!(error.starts_with("cannot use the role file `") && error.contains(why), "{error}");
        }
        let missing = AgentSettings { persona: Some(dir.path().join("none")), ..AgentSettings::default() };
        assert!(Profile::load(&missing).unwrap_err().to_string().contains("persona"));
    }
}
