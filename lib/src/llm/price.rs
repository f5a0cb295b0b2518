//! What tokens cost, and how many a model takes. Both are data: a table that comes with pleach, and for prices what the
//! configuration says over it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::config;
use crate::event::Usage;

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
}

#[derive(Debug, Deserialize)]
struct Table {
    tiers: BTreeMap<String, BTreeMap<String, String>>,
    models: Vec<Price>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    serde_json::from_str(include_str!("prices.json")).expect("the table was read by this module's tests")
});

/// The model of a provider behind a tier, where the configuration names none.
pub fn usual_model(provider: &str, tier: &str) -> Option<&'static str> {
    TABLE.tiers.get(provider)?.get(tier).map(String::as_str)
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
        });
        Self { own: own.collect(), own_alone: false }
    }

    /// The prices a configuration gives, and no others.
    pub fn alone(given: &BTreeMap<String, config::Price>) -> Self {
        Self { own_alone: true, ..Self::new(given) }
    }

    /// What a call cost, if the model's price is known.
    pub fn cost(&self, model: &str, usage: &Usage) -> Option<f64> {
        let table = || find(&TABLE.models, model, usage).filter(|_| !self.own_alone);
        let price = find(&self.own, model, usage).or_else(table)?;
        let dollars = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        Some(
            dollars(usage.input, price.input)
                + dollars(usage.output, price.output)
                + dollars(usage.cache_read, price.cache_read.unwrap_or(price.input))
                + dollars(usage.cache_write, price.cache_write.unwrap_or(price.input)),
        )
    }
}

fn find<'a>(prices: &'a [Price], model: &str, usage: &Usage) -> Option<&'a Price> {
    let read = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    let fitting = prices.iter().filter(|price| is_model(model, &price.model) && (price.over == 0 || read > price.over));
    fitting.max_by_key(|price| price.over)
}

/// Whether a model is the one of the table, by its name or as a dated edition of it.
fn is_model(model: &str, name: &str) -> bool {
    let model = model.strip_prefix("models/").unwrap_or(model);
    let Some(rest) = model.strip_prefix(name) else { return false };
    let dated = |rest: &str| rest.len() >= 8 && rest.chars().all(|c| c.is_ascii_digit() || c == '-');
    match rest.strip_prefix('-') {
        None => rest.is_empty(),
        Some(edition) => dated(edition) || matches!(edition, "latest" | "preview"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(model: &str, usage: Usage) -> Option<f64> {
        Prices::default().cost(model, &usage).map(|cost| (cost * 1e9).round() / 1e9)
    }

    #[test]
    fn a_captured_bill_comes_out_the_same() {
        // Tokens and cost of a run as the provider's own program counted them.
        let usage = Usage { input: 6000, cache_read: 600, cache_write: 0, output: 66, reasoning: 0 };
        assert_eq!(cost("claude-sonnet-4-5", usage), Some(0.01917));
        assert_eq!(cost("claude-sonnet-4-5-20250929", usage), Some(0.01917));
    }

    #[test]
    fn names_must_fit_and_long_calls_may_cost_more() {
        let usage = |input| Usage { input, ..Usage::default() };
        assert_eq!(cost("gpt-5", usage(1_000_000)), Some(1.25));
        assert_eq!(cost("gpt-5-2025-08-07", usage(1_000_000)), Some(1.25));
        for unknown in ["gpt-5.9", "gpt-5-turbo", "llama", "", "my-gpt-5"] {
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
        assert_eq!(prices.cost("gpt-5", &usage), Some(3.5));
        assert_eq!(prices.cost("llama", &usage), Some(3.5));
        let played = Prices::alone(&BTreeMap::from([("played".to_owned(), config::Price::default())]));
        assert_eq!(played.cost("played", &usage), Some(0.0));
        assert_eq!(played.cost("gpt-5", &usage), None, "a script that calls itself so costs nothing");
    }

    #[test]
    fn every_model_of_the_table_has_a_size() {
        for row in &TABLE.models {
            let (context, output) = (context_of(&row.model), max_output_of(&row.model));
            assert!(context > output.map(u64::from) && output > Some(8192), "{}", row.model);
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
        assert_eq!(usual_model("gemini", "cheap"), None);
    }
}
