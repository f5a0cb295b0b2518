//! What a model gives a tool, held against the tool's schema: errors name the field and never repeat what was given.

use serde_json::{Map, Value};

/// The arguments as the tool takes them. Numbers and booleans may come as text.
pub(super) fn fit(schema: &Value, given: &Value) -> Result<Value, String> {
    let nothing = Map::new();
    let given = match given {
        Value::Object(given) => given,
        Value::Null => &nothing,
        _ => return Err("they are no JSON object".into()),
    };
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let mut fitted = Map::new();
    for (name, value) in given {
        let Some(property) = properties.get(name) else {
            let known: Vec<String> = properties.keys().map(|name| format!("`{name}`")).collect();
            return Err(format!("unknown field `{name}`; it takes {}", known.join(", ")));
        };
        if !value.is_null() {
            let wanted = property["type"].as_str().unwrap_or_default();
            let value = taken(wanted, value).ok_or_else(|| {
                let wanted = match wanted {
                    "integer" => "a whole number from 1",
                    "boolean" => "true or false",
                    _ => "text",
                };
                format!("`{name}` must be {wanted}, not {}", kind(value))
            })?;
            fitted.insert(name.clone(), value);
        }
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    match required.into_iter().find(|name| !fitted.contains_key(*name)) {
        Some(missing) => Err(format!("missing field `{missing}`")),
        None => Ok(fitted.into()),
    }
}

/// The value as one of a type, if it can be taken for one.
fn taken(wanted: &str, value: &Value) -> Option<Value> {
    match (wanted, value) {
        ("integer", Value::Number(number)) if number.is_u64() => Some(value.clone()),
        ("integer", Value::Number(number)) => {
            let number = number.as_f64().filter(|number| number.fract() == 0.0 && (0.0..1e15).contains(number))?;
            Some((number as u64).into())
        }
        ("integer", Value::String(text)) => text.trim().parse::<u64>().ok().map(Value::from),
        ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => Some(value.clone()),
        ("boolean", Value::String(text)) => text.trim().parse::<bool>().ok().map(Value::from),
        _ => None,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "this number",
        Value::String(_) => "this text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_name_the_field_and_repeat_nothing() {
        let schema = json!({"properties": {"path": {"type": "string"}, "limit": {"type": "integer"},
            "all": {"type": "boolean"}}, "required": ["path"]});
        let fitted = fit(&schema, &json!({"path": "a", "limit": "10", "all": "true"}));
        assert_eq!(fitted, Ok(json!({"path": "a", "limit": 10, "all": true})));
        assert_eq!(
            fit(&schema, &json!({"path": "a", "limit": 3.0, "all": null})),
            Ok(json!({"path": "a", "limit": 3}))
        );
        for (given, why) in [
            (json!({"limit": 1}), "missing field `path`"),
            (json!({"path": 7}), "`path` must be text, not this number"),
            (json!({"path": "a", "limit": "secret"}), "`limit` must be a whole number from 1, not this text"),
            (json!({"path": "a", "limit": -1}), "`limit` must be a whole number from 1, not this number"),
            (json!({"path": "a", "all": {"x": "secret"}}), "`all` must be true or false, not an object"),
            (json!({"file": "secret"}), "unknown field `file`; it takes `path`, `limit`, `all`"),
            (json!("secret"), "they are no JSON object"),
        ] {
            assert_eq!(fit(&schema, &given), Err(why.to_owned()));
        }
    }
}
