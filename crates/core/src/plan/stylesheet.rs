//! Which model a node uses, by shape, class or id: `.hard { llm_model: big; }`.

/// The properties a rule may set, with the other spellings of each.
const PROPERTIES: [(&str, &str); 3] =
    [("llm_model", "model"), ("llm_provider", "provider"), ("reasoning_effort", "reasoning_effort")];

/// A parsed stylesheet: rules in the order they were written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stylesheet {
    /// The rules.
    pub rules: Vec<Rule>,
}

/// One `selector { property: value; }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The nodes it is for.
    pub selector: Selector,
    /// What it sets, in the order it was written.
    pub properties: Vec<(String, String)>,
}

/// The nodes a rule is for; a later variant beats an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selector {
    /// `*`
    All,
    /// `box`
    Shape(String),
    /// `.hard`
    Class(String),
    /// `#review`
    Id(String),
}

/// An error in a stylesheet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StyleError {
    /// What is wrong.
    pub message: String,
    /// The byte it is wrong at.
    pub offset: usize,
}

impl Selector {
    fn rank(&self) -> u8 {
        match self {
            Self::All => 0,
            Self::Shape(_) => 1,
            Self::Class(_) => 2,
            Self::Id(_) => 3,
        }
    }

    fn selects(&self, id: &str, shape: &str, classes: &[String]) -> bool {
        match self {
            Self::All => true,
            Self::Shape(name) => name == shape,
            Self::Class(name) => classes.contains(name),
            Self::Id(name) => name == id,
        }
    }
}

impl Stylesheet {
    /// Reads a stylesheet; a rule with an error is left out and the ones after it are read.
    pub fn parse(text: &str) -> (Self, Vec<StyleError>) {
        let mut parser = StylesheetParser { text, at: 0, errors: Vec::new() };
        let mut rules = Vec::new();
        while parser.peek().is_some() {
            match parser.rule() {
                Some(rule) => rules.push(rule),
                None => parser.skip_past('}'),
            }
        }
        (Self { rules }, parser.errors)
    }

    /// The value a property has for a node: the most specific rule wins, among equals the later one.
    pub fn property(&self, property: &str, id: &str, shape: &str, classes: &[String]) -> Option<&str> {
        let matching = self.rules.iter().filter(|rule| rule.selector.selects(id, shape, classes));
        let values = matching.flat_map(|rule| {
            let own = rule.properties.iter().filter(|(name, _)| name == property);
            own.map(|(_, value)| (rule.selector.rank(), value.as_str()))
        });
        values.max_by_key(|(rank, _)| *rank).map(|(_, value)| value)
    }

    /// The properties a rule may set.
    pub fn properties() -> impl Iterator<Item = &'static str> {
        PROPERTIES.iter().map(|(name, _)| *name)
    }
}

struct StylesheetParser<'t> {
    text: &'t str,
    at: usize,
    errors: Vec<StyleError>,
}

impl<'t> StylesheetParser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// The next character that is neither blank nor in a comment; the parser then is on it.
    fn peek(&mut self) -> Option<char> {
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start().len();
            let Some(comment) = self.rest().strip_prefix("/*") else { break };
            self.at += comment.find("*/").map_or(self.rest().len(), |length| length + 4);
        }
        self.rest().chars().next()
    }

    fn error(&mut self, message: impl Into<String>) {
        self.errors.push(StyleError { message: message.into(), offset: self.at });
    }

    fn skip_past(&mut self, end: char) {
        let rest = self.rest();
        self.at += rest.find(end).map_or(rest.len(), |at| at + end.len_utf8());
    }

    fn take(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += if found { c.len_utf8() } else { 0 };
        found
    }

    fn name(&mut self) -> Option<&'t str> {
        let rest = self.rest();
        let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).unwrap_or(rest.len());
        self.at += length;
        (length > 0).then(|| &rest[..length])
    }

    fn rule(&mut self) -> Option<Rule> {
        let selector = self.selector()?;
        if !self.take('{') {
            self.error("expected `{` after the selector");
            return None;
        }
        let mut properties = Vec::new();
        loop {
            match self.peek() {
                None => {
                    self.error("unclosed rule: `}` is missing");
                    return None;
                }
                Some('}') => {
                    self.at += 1;
                    return Some(Rule { selector, properties });
                }
                Some(';') => self.at += 1,
                Some(_) => properties.extend(self.property()?),
            }
        }
    }

    fn selector(&mut self) -> Option<Selector> {
        let make: fn(String) -> Selector = match self.peek() {
            Some('*') => {
                self.at += 1;
                return Some(Selector::All);
            }
            Some('.') => Selector::Class,
            Some('#') => Selector::Id,
            _ => Selector::Shape,
        };
        self.at += usize::from(self.rest().starts_with(['.', '#']));
        match self.name() {
            Some(name) => Some(make(name.to_owned())),
            None => {
                self.error("expected a selector: `*`, a shape, `.class` or `#id`");
                None
            }
        }
    }

    /// `name: value`; an empty list for a property that does not exist, none where nothing sensible follows.
    fn property(&mut self) -> Option<Vec<(String, String)>> {
        let start = self.at;
        let Some(name) = self.name() else {
            self.error("expected a property: `llm_model`, `llm_provider` or `reasoning_effort`");
            return None;
        };
        if !self.take(':') {
            self.error(format!("expected `:` after `{name}`"));
            return None;
        }
        let value = self.value(name)?;
        match PROPERTIES.iter().find(|(real, other)| *real == name || *other == name) {
            Some((real, _)) => Some(vec![((*real).to_owned(), value)]),
            None => {
                let message = format!("`{name}` cannot be set here: only llm_model, llm_provider and reasoning_effort");
                self.errors.push(StyleError { message, offset: start });
                Some(Vec::new())
            }
        }
    }

    fn value(&mut self, name: &str) -> Option<String> {
        if self.take('"') {
            let rest = self.rest();
            let Some(length) = rest.find('"') else {
                self.error("unclosed `\"`");
                self.at = self.text.len();
                return None;
            };
            self.at += length + 1;
            return Some(rest[..length].to_owned());
        }
        self.peek();
        let rest = self.rest();
        let length = rest.find([';', '}', '{', '\n']).unwrap_or(rest.len());
        let value = rest[..length].trim();
        if value.is_empty() || rest[length..].starts_with('{') {
            self.error(format!("`{name}` has no value"));
            return None;
        }
        self.at += length;
        Some(value.to_owned())
    }
}
