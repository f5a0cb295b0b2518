//! The effort of a request in the terms of its provider; levels it does not know become the nearest it does.

use serde_json::{Value, json};

use super::adjust::thinks;
use crate::llm::Request;
use crate::llm::wire::Format;

/// The fewest tokens a budget for thoughts may have.
const LEAST_BUDGET: u32 = 1024;

/// How thinking is configured for an Anthropic model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thinking {
    /// By an effort; it thinks as much as it needs.
    Adaptive,
    /// By a budget of tokens.
    Budget,
    /// Not at all.
    Never,
}

/// Translates the effort of a request for its model; none where the model has no such setting.
pub(super) fn translate(format: Format, request: &mut Request) {
    let Some(effort) = request.effort.take() else { return };
    let effort = match effort.as_str() {
        // Not every model can do without thoughts, and those that can do little with few.
        "none" | "minimal" | "low" => "low",
        "medium" => "medium",
        _ => "high",
    };
    let is_known = match format {
        Format::Anthropic => thinking(&request.model) != Some(Thinking::Never),
        Format::Responses => thinks(&request.model),
        Format::Chat => of_openai(&request.model).is_none_or(thinks),
        Format::Gemini => true,
    };
    // The largest of these knows two levels only.
    let two = format == Format::Gemini && request.model.contains("gemini-3-pro");
    let effort = if two && effort == "medium" { "high" } else { effort };
    request.effort = is_known.then(|| effort.to_owned());
}

/// Whether a model takes an effort, as far as its name says. Servers of many models refuse what a model does not know.
pub(super) fn is_supported(format: Format, model: &str) -> bool {
    format != Format::Chat || of_openai(model).is_some_and(thinks)
}

/// The name of a model of OpenAI's, by whomever it is served.
fn of_openai(model: &str) -> Option<&str> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_o = name.strip_prefix('o').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    (is_o || name.starts_with("gpt-") || name.starts_with("codex")).then_some(name)
}

/// Completes the body of a request with an effort: thoughts are switched on where that is needed, and their budget
/// stays below the limit of the answer, which counts them.
pub(super) fn complete(format: Format, request: &Request, body: &mut Value) {
    let Some(effort) = request.effort.as_deref() else { return };
    match (format, thinking(&request.model)) {
        (Format::Anthropic, Some(Thinking::Adaptive)) => body["thinking"] = json!({"type": "adaptive"}),
        (Format::Anthropic, Some(Thinking::Budget)) => {
            if let Some(body) = body.as_object_mut() {
                body.shift_remove("output_config");
                if let Some(tokens) = below(budget(effort), request.max_tokens) {
                    body.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": tokens}));
                }
            }
        }
        (Format::Gemini, _) => {
            if let Some(tokens) = body.pointer_mut("/generationConfig/thinkingConfig/thinkingBudget") {
                let asked = tokens.as_u64().and_then(|tokens| u32::try_from(tokens).ok()).unwrap_or_default();
                *tokens = below(asked, request.max_tokens).unwrap_or_default().into();
            }
        }
        _ => {}
    }
}

fn budget(effort: &str) -> u32 {
    match effort {
        "low" => LEAST_BUDGET,
        "medium" => 8192,
        _ => 24_576,
    }
}

/// The budget, or half the limit of the answer where it would not stay below that; none where nothing is left of it.
fn below(budget: u32, limit: Option<u32>) -> Option<u32> {
    let fitting = limit.map_or(budget, |limit| budget.min(limit / 2));
    (fitting >= LEAST_BUDGET).then_some(fitting)
}

/// How thinking is configured for an Anthropic model, by its version; none for other models.
fn thinking(model: &str) -> Option<Thinking> {
    let rest = model.rsplit('/').next().unwrap_or(model).strip_prefix("claude-")?;
    // A number of more digits is a date.
    let mut numbers = rest.split('-').filter(|part| part.len() <= 2).filter_map(|part| part.parse::<u32>().ok());
    let version = (numbers.next()?, numbers.next().unwrap_or_default());
    Some(match version {
        version if version >= (4, 6) => Thinking::Adaptive,
        version if version >= (3, 7) => Thinking::Budget,
        _ => Thinking::Never,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(format: Format, model: &str, effort: &str, limit: Option<u32>) -> Value {
        let effort = Some(effort.to_owned());
        let mut request = Request { model: model.into(), effort, max_tokens: limit, ..Request::default() };
        translate(format, &mut request);
        let mut body = format.encode_request(&request, false);
        complete(format, &request, &mut body);
        body
    }

    #[test]
    fn efforts_are_translated_for_each_model() {
        for word in ["none", "minimal", "low"] {
            assert_eq!(said(Format::Responses, "gpt-5.4", word, None)["reasoning"]["effort"], "low");
            assert_eq!(said(Format::Chat, "m", word, None)["reasoning_effort"], "low");
            let gemini = said(Format::Gemini, "gemini-3-pro", word, None);
            assert_eq!(gemini["generationConfig"]["thinkingConfig"]["thinkingLevel"], "low");
        }
        assert_eq!(said(Format::Responses, "gpt-5.4", "max", None)["reasoning"]["effort"], "high");
        assert!(said(Format::Responses, "gpt-4.1", "high", None).get("reasoning").is_none());
        assert!(said(Format::Chat, "openai/gpt-4.1-mini", "high", None).get("reasoning_effort").is_none());
        assert_eq!(said(Format::Chat, "openai/gpt-5.4", "high", None)["reasoning_effort"], "high");
        let level = |model| said(Format::Gemini, model, "medium", None)["generationConfig"]["thinkingConfig"].clone();
        assert_eq!(level("gemini-3-pro"), json!({"thinkingLevel": "high"}));
        assert_eq!(level("gemini-3-flash"), json!({"thinkingLevel": "medium"}));
    }

    #[test]
    fn thinking_is_enabled_as_each_model_expects() {
        for model in ["claude-opus-4-6", "claude-sonnet-5", "claude-fable-5-1", "anthropic/claude-opus-5-5"] {
            let body = said(Format::Anthropic, model, "medium", Some(64_000));
            assert_eq!(
                (&body["thinking"], &body["output_config"]),
                (&json!({"type": "adaptive"}), &json!({"effort": "medium"}))
            );
        }
        for (limit, tokens) in [(64_000, 24_576), (8_192, 4_096)] {
            let body = said(Format::Anthropic, "claude-sonnet-4-5-20250929", "high", Some(limit));
            assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": tokens}));
            assert!(body.get("output_config").is_none());
        }
        for (model, limit) in [("claude-sonnet-4-5", 2_000), ("claude-3-5-haiku-20241022", 8_192)] {
            let body = said(Format::Anthropic, model, "high", Some(limit));
            assert!(body.get("thinking").is_none() && body.get("output_config").is_none(), "{body}");
        }
        let gemini = said(Format::Gemini, "gemini-2.5-pro", "high", Some(8_192));
        assert_eq!(gemini["generationConfig"]["thinkingConfig"]["thinkingBudget"], 4_096);
    }
}
