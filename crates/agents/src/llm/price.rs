//! What tokens cost, and how many a model takes. Both are data: a table that comes with pleach, and for prices what the
//! configuration says over it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use pleach_core::config;
use pleach_core::event::{Usage, Warning, WarningCode};

/// US dollars for a million tokens of each kind.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Price {
    /// The model.
    pub model: String,
    /// Counts for calls with more input than this, cached or not.
    #[serde(default)]
    pub over: u64,
    /// Input that was not cached.
    pub input: f64,
    /// Output, reasoning included.
    pub output: f64,
    /// Input read from the cache; without it as any input.
    pub cache_read: Option<f64>,
    /// Input written to the cache; without it as any input.
    pub cache_write: Option<f64>,
    /// The most tokens of input the model takes.
    pub context: Option<u64>,
    /// The most tokens it answers with.
    pub max_output: Option<u32>,
    /// Whether it says nothing of newer models, being from a time of other prices.
    #[serde(default)]
    pub old: bool,
}

impl Price {
    fn read(&self) -> f64 {
        self.cache_read.unwrap_or(self.input)
    }

    fn write(&self) -> f64 {
        self.cache_write.unwrap_or(self.input)
    }

    /// What is written to be kept for an hour costs twice the input where writing has a price of its own.
    fn write_1h(&self) -> f64 {
        if self.cache_write.is_some() { self.write().max(2.0 * self.input) } else { self.input }
    }

    /// The higher of two prices, kind by kind.
    fn dearer(self, other: &Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cache_read: Some(self.read().max(other.read())),
            cache_write: Some(self.write().max(other.write())),
            ..self
        }
    }
}

#[derive(Debug, Deserialize)]
struct Table {
    tiers: BTreeMap<String, BTreeMap<String, String>>,
    /// What a thousand searches of the web cost, by the first word of the model's name.
    web_search: BTreeMap<String, f64>,
    /// Names that begin like those of a family they do not belong to.
    unlike: Vec<String>,
    models: Vec<Price>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    serde_json::from_str(include_str!("prices.json")).expect("the table was read by this module's tests")
});

/// The rows that say something of other versions, each with its family: every call of every agent is priced several
/// times.
static FAMILIES: LazyLock<Vec<(String, &'static Price)>> = LazyLock::new(|| {
    TABLE.models.iter().filter(|price| !price.old).map(|price| (family(&price.model), price)).collect()
});

/// The model of a provider behind a tier, where the configuration names none.
pub fn usual_model(provider: &str, tier: &str) -> Option<&'static str> {
    TABLE.tiers.get(provider)?.get(tier).map(String::as_str)
}

/// A model by the names it goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelNames<'a> {
    /// As it was asked for.
    pub asked: &'a str,
    /// As the server calls it, which may be another name; empty where it says nothing.
    pub answered: &'a str,
}

impl<'a> ModelNames<'a> {
    /// A model that has not answered yet.
    pub fn asked(asked: &'a str) -> Self {
        Self { asked, answered: "" }
    }

    /// The names, the one that says more first.
    fn names(self) -> impl Iterator<Item = &'a str> {
        [self.answered, self.asked].into_iter().filter(|name| !name.is_empty())
    }
}

/// How well a price is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pricing {
    /// The model has a price.
    Listed,
    /// The model is not listed, others of its family are: the dearest of them counts.
    Estimated,
    /// Nobody knows.
    Unknown,
}

/// The most tokens of input a model takes, where that is known.
pub(crate) fn context_of(model: &str) -> Option<u64> {
    sized(model)?.context
}

/// The most tokens a model answers with, where that is known.
pub(crate) fn max_output_of(model: &str) -> Option<u32> {
    sized(model)?.max_output
}

fn sized(model: &str) -> Option<&'static Price> {
    TABLE.models.iter().find(|row| is_model(model, &row.model))
}

/// The prices of one provider's models.
#[derive(Debug, Clone, Default)]
pub struct Prices {
    own: Vec<Price>,
    /// The table says nothing about these models, whatever they are called.
    own_alone: bool,
}

impl Prices {
    /// The prices a configuration gives, over those of the table.
    pub fn new(given: &BTreeMap<String, config::Price>) -> Self {
        let own = given.iter().map(|(model, price)| Price {
            model: model.clone(),
            over: 0,
            input: price.input,
            output: price.output,
            cache_read: price.cache_read,
            cache_write: price.cache_write,
            context: None,
            max_output: None,
            old: false,
        });
        Self { own: own.collect(), own_alone: false }
    }

    /// The prices a configuration gives, and no others.
    pub fn alone(given: &BTreeMap<String, config::Price>) -> Self {
        Self { own_alone: true, ..Self::new(given) }
    }

    /// What a call cost, if the model's price is known or can be estimated.
    pub fn cost(&self, model: ModelNames<'_>, usage: &Usage) -> Option<f64> {
        let (price, _) = self.find(model, usage)?;
        let dollars = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        let kept_long = usage.cache_write_1h.min(usage.cache_write);
        Some(
            dollars(usage.input, price.input)
                + dollars(usage.output, price.output)
                + dollars(usage.cache_read, price.read())
                + dollars(usage.cache_write - kept_long, price.write())
                + dollars(kept_long, price.write_1h())
                + usage.web_searches as f64 * web_search(model) / 1e3,
        )
    }

    /// How well the price of a model is known.
    pub fn pricing(&self, model: ModelNames<'_>) -> Pricing {
        self.find(model, &Usage::default()).map_or(Pricing::Unknown, |(_, pricing)| pricing)
    }

    /// The price of a model. What the configuration says of any of its names wins over the table.
    fn find(&self, model: ModelNames<'_>, usage: &Usage) -> Option<(Price, Pricing)> {
        // Who asks for a dear model and is answered by the name of a cheap one may pay for either.
        let price_in = |prices: &[Price]| {
            let found = model.names().filter_map(|name| listed(prices, name, usage).cloned());
            found.reduce(|one, other| one.dearer(&other))
        };
        let price = price_in(&self.own).or_else(|| if self.own_alone { None } else { price_in(&TABLE.models) });
        if let Some(price) = price {
            return Some((price, Pricing::Listed));
        }
        let mut names = model.names().filter(|_| !self.own_alone);
        names.find_map(dearest_of_family).map(|price| (price, Pricing::Estimated))
    }
}

/// A word to the user where the price of a model is estimated.
pub fn price_estimated(model: &str) -> Warning {
    WarningCode::PriceEstimated.with(format!(
        "the price of `{model}` is unknown: the highest of its family is counted as an estimate; set \
         `providers.NAME.prices.{model}`"
    ))
}

/// Why a model is not asked under a limit in dollars.
pub fn price_unknown(model: &str) -> String {
    format!(
        "the price of `{model}` is unknown, so no limit in dollars can hold; set `providers.NAME.prices.{model}`, or \
         limit tokens (`budget.tokens`) instead of dollars"
    )
}

fn listed<'a>(prices: &'a [Price], model: &str, usage: &Usage) -> Option<&'a Price> {
    let read = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    let fitting = prices.iter().filter(|price| is_model(model, &price.model) && (price.over == 0 || read > price.over));
    fitting.max_by_key(|price| price.over)
}

/// Whether a model is the one of the table, by its name or as a dated edition of it.
fn is_model(model: &str, name: &str) -> bool {
    if model == name {
        return true;
    }
    let Some(rest) = bare(model).strip_prefix(name) else { return false };
    let dated = |rest: &str| rest.len() >= 8 && rest.chars().all(|c| c.is_ascii_digit() || c == '-');
    match rest.strip_prefix('-') {
        None => rest.is_empty(),
        Some(edition) => dated(edition) || matches!(edition, "latest" | "preview"),
    }
}

/// A name without what routers and servers put before it: `models/`, `openai/`.
fn bare(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

/// The dearest price of the models a name is another version of: those that differ in their numbers alone, else all
/// that begin with the same word.
fn dearest_of_family(model: &str) -> Option<Price> {
    let model = bare(model);
    if TABLE.unlike.iter().any(|name| model.starts_with(name.as_str())) {
        return None;
    }
    let own = family(model);
    let first = own.split('-').next().unwrap_or_default();
    let dearest = |fits: &dyn Fn(&str) -> bool| {
        let mut fitting = FAMILIES.iter().filter(|(family, _)| fits(family)).map(|(_, price)| *price);
        let one = fitting.next()?.clone();
        Some(fitting.fold(one, Price::dearer))
    };
    dearest(&|other| other == own).or_else(|| dearest(&|other| other.split('-').next() == Some(first)))
}

/// The words of a model's name, without versions and dates: `claude-opus`, `gpt-mini`, `o`.
fn family(model: &str) -> String {
    let words = model.split('-').filter(|word| !matches!(*word, "latest" | "preview"));
    let words = words.map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

/// What a thousand searches of the web cost.
fn web_search(model: ModelNames<'_>) -> f64 {
    let price_of = |name: &str| TABLE.web_search.get(family(bare(name)).split('-').next()?).copied();
    model.names().find_map(price_of).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(model: &str, usage: Usage) -> Option<f64> {
        Prices::default().cost(ModelNames::asked(model), &usage).map(|cost| (cost * 1e9).round() / 1e9)
    }

    #[test]
    fn a_captured_bill_comes_out_the_same() {
        // Tokens and cost of a run as the provider's own program counted them.
        let usage = Usage { input: 6000, cache_read: 600, output: 66, ..Usage::default() };
        assert_eq!(cost("claude-sonnet-4-5", usage), Some(0.01917));
        assert_eq!(cost("claude-sonnet-4-5-20250929", usage), Some(0.01917));
    }

    #[test]
    fn names_must_fit_and_long_calls_may_cost_more() {
        let usage = |input| Usage { input, ..Usage::default() };
        assert_eq!(cost("gpt-5", usage(1_000_000)), Some(1.25));
        assert_eq!(cost("gpt-5-2025-08-07", usage(1_000_000)), Some(1.25));
        assert_eq!(cost("o1-pro", usage(1_000_000)), Some(150.0));
        assert_eq!(cost("gpt-5.1-codex", usage(1_000_000)), Some(1.25));
        assert_eq!(cost("openai/gpt-5", usage(1_000_000)), Some(1.25), "a router's name for it");
        for unknown in ["llama", "", "my-gpt-5", "gpt-oss-120b", "Qwen/Qwen3-Coder-480B"] {
            assert_eq!(cost(unknown, usage(1)), None, "{unknown}");
        }
        assert_eq!(cost("models/gemini-2.5-pro", usage(200_000)), Some(0.25));
        assert_eq!(cost("gemini-2.5-pro", usage(200_001)), Some(0.500_002_5));
        let cached = Usage { input: 0, cache_read: 1_000_000, cache_write: 1_000_000, ..Usage::default() };
        assert_eq!(cost("gpt-5", cached), Some(0.125 + 1.25), "what has no price of its own is input");
    }

    #[test]
    fn the_configuration_wins() {
        let price = config::Price { input: 1.0, output: 2.0, cache_read: None, cache_write: None };
        let prices = Prices::new(&BTreeMap::from([("gpt-5".to_owned(), price.clone()), ("llama".to_owned(), price)]));
        let usage = Usage { input: 1_000_000, output: 1_000_000, cache_read: 500_000, ..Usage::default() };
        assert_eq!(prices.cost(ModelNames::asked("gpt-5"), &usage), Some(3.5));
        assert_eq!(prices.cost(ModelNames::asked("llama"), &usage), Some(3.5));
        let played = Prices::alone(&BTreeMap::from([("played".to_owned(), config::Price::default())]));
        assert_eq!(played.cost(ModelNames::asked("played"), &usage), Some(0.0));
        assert_eq!(
            played.cost(ModelNames::asked("gpt-5"), &usage),
            None,
            "a script that calls itself so costs nothing"
        );
    }

    #[test]
    fn unknown_versions_cost_the_most_of_their_family() {
        let usage = Usage { input: 1_000_000, ..Usage::default() };
        for (model, dollars) in [
            ("claude-opus-7", 15.0),
            ("claude-haiku-6-20270101", 1.0),
            ("gpt-6.2-sol", 10.0),
            ("gpt-9-nova", 30.0),
            ("gemini-4.5-flash", 1.5),
            ("o9", 2.0),
        ] {
            assert_eq!(cost(model, usage), Some(dollars), "{model}");
            assert_eq!(Prices::default().pricing(ModelNames::asked(model)), Pricing::Estimated, "{model}");
        }
        assert_eq!(Prices::default().pricing(ModelNames::asked("gpt-6.1-sol")), Pricing::Listed);
        assert_eq!(Prices::default().pricing(ModelNames::asked("mistral-large")), Pricing::Unknown);
    }

    #[test]
    fn the_requested_model_name_sets_the_price() {
        let price = config::Price { input: 1.0, output: 2.0, cache_read: None, cache_write: None };
        let prices = Prices::new(&BTreeMap::from([("qwen".to_owned(), price)]));
        let usage = Usage { input: 1_000_000, ..Usage::default() };
        let named = |asked, answered| prices.cost(ModelNames { asked, answered }, &usage);
        assert_eq!(named("qwen", "Qwen/Qwen3-Coder-480B"), Some(1.0));
        assert_eq!(named("qwen", "gpt-5"), Some(1.0), "what the configuration says wins");
        assert_eq!(named("worker", "gpt-5-2025-08-07"), Some(1.25));
        assert_eq!(named("gpt-5", "llama"), Some(1.25));
        assert_eq!(named("gpt-5", "gpt-5-nano"), Some(1.25), "the dearer of two counts");
    }

    #[test]
    fn long_kept_writes_and_searches_have_prices_of_their_own() {
        let usage = Usage { cache_write: 2_000_000, cache_write_1h: 1_000_000, ..Usage::default() };
        assert_eq!(cost("claude-sonnet-4-5", usage), Some(3.75 + 6.0));
        let searches = Usage { web_searches: 100, ..Usage::default() };
        assert_eq!(cost("claude-sonnet-4-5", searches), Some(1.0));
    }

    #[test]
    fn every_model_of_the_table_has_a_size() {
        for row in &TABLE.models {
            let (context, output) = (context_of(&row.model), max_output_of(&row.model));
            assert!(context >= output.map(u64::from) && (row.old || output > Some(8192)), "{}", row.model);
        }
        assert_eq!(max_output_of("claude-sonnet-4-5-20250929"), Some(64_000));
        assert_eq!((context_of("llama"), max_output_of("llama")), (None, None));
    }

    #[test]
    fn every_usual_model_has_a_price() {
        for (provider, tiers) in &TABLE.tiers {
            assert_eq!(
                tiers.keys().map(String::as_str).collect::<Vec<_>>(),
                ["cheap", "smart", "worker"],
                "{provider}"
            );
            for model in tiers.values() {
                assert!(cost(model, Usage::default()).is_some(), "{model}");
            }
        }
        assert_eq!(usual_model("anthropic", "cheap"), Some("claude-haiku-5-5"));
        assert_eq!(usual_model("openrouter", "cheap"), None);
    }
}
