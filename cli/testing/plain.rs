//! Talking to a model without tools.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

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

/// Makes calls for a whole answer, one after the other, and leaves each when it is not answered in time.
pub fn abandon(model: &Model, count: usize, patience: Duration) -> Result<(), String> {
    let (host, path) = model.place(model.language.path(false))?;
    let leave = |number: usize| -> io::Result<()> {
        let mut body = model.language.request(&[model.language.task(&format!("Question {number}"))], &[], false);
        body["max_tokens"] = 64_000.into();
        let body = body.to_string();
        let mut stream = TcpStream::connect(&host)?;
        let (key, length) = (&model.key, body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n\
             content-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        stream.set_read_timeout(Some(patience))?;
        // Whatever comes is not looked at.
        let _ = stream.read(&mut [0; 4096]);
        Ok(())
    };
    (0..count).try_for_each(leave).map_err(|error| error.to_string())
}

/// Makes so many calls at once, each of a conversation of its own, and waits for all their answers. What `more` has is
/// laid over the requests.
pub fn burst(model: &Model, count: usize, more: &Value) -> Result<(), String> {
    let ask = |number: usize| say(model, &mut Vec::new(), &format!("Question {number}"), more, false).map(drop);
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..count).map(|number| scope.spawn(move || ask(number))).collect();
        calls.into_iter().try_for_each(|call| call.join().expect("calls do not panic"))
    })
}

/// Starts calls of that length, sends them but for their ends as far as they are taken, and leaves them open.
pub fn swamp(model: &Model, count: usize, megabytes: usize) -> Result<(), String> {
    let megabyte = vec![b' '; 1 << 20];
    let (host, path) = model.place(model.language.path(true))?;
    let begin = || -> io::Result<()> {
        let mut stream = TcpStream::connect(&host)?;
        stream.set_write_timeout(Some(Duration::from_secs(1)))?;
        let (key, length) = (&model.key, megabytes << 20);
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n\
             content-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        // It ends when nothing more is taken.
        let _ = (1..megabytes).all(|_| stream.write_all(&megabyte).is_ok());
        std::mem::forget(stream);
        Ok(())
    };
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..count).map(|_| scope.spawn(begin)).collect();
        calls.into_iter().try_for_each(|call| call.join().expect("calls do not panic"))
    })
    .map_err(|error| error.to_string())
}
