//! Talking to a model without tools.

use serde_json::Value;

use crate::model::Model;

/// Says something more in a conversation, and gives the answer. What `more` has is laid over the request. `hasty` is who
/// hangs up with the last word of a streamed answer.
pub fn say(model: &Model, said: &mut Vec<Value>, text: &str, more: &Value, hasty: bool) -> Result<String, String> {
    said.push(model.language.task(text));
    let mut body = model.language.request(said, &[], true);
    for (key, value) in more.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    let stream = model.post(model.language.path(true), &body)?;
    let answer = model.read_stream(stream, hasty)?;
    said.extend(answer.repeated);
    Ok(answer.text)
}
