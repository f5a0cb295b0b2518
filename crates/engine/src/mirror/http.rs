//! The HTTP side of a CXDB server: it is told the types of turns there, and finds contexts.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;

use super::bundle::{bundle, bundle_id};
use super::error::{MirrorError, told};
use agents::llm::call_plain;
use pleach_core::config::MirrorAddress;
use pleach_core::ids::SessionId;

const PATIENCE: Duration = Duration::from_secs(5);

/// A list of all contexts may be long.
const LISTED: Duration = Duration::from_secs(30);

/// Puts the types of turns, without which the server can show them only as they are stored. It may have them already.
pub(super) async fn put_types(address: &MirrorAddress) -> Result<(), MirrorError> {
    let path = format!("/v1/registry/bundles/{}", bundle_id());
    match call(address, &path, Some(bundle().into_bytes()), PATIENCE).await? {
        (201 | 204, _) => Ok(()),
        (status, text) => Err(refused(address, &format!("it does not take the types of turns: {status} {text}"))),
    }
}

/// Whether the HTTP side answers.
pub async fn check_http(address: &MirrorAddress) -> Result<(), MirrorError> {
    match call(address, "/healthz", None, PATIENCE).await? {
        (200, _) => Ok(()),
        (status, _) => Err(refused(address, &format!("it answers with status {status}"))),
    }
}

/// The contexts about a session. Some servers find forks by what they were forked from in their list alone, others by their
/// own first turn in a search alone.
pub(super) async fn contexts_of(address: &MirrorAddress, session: &SessionId) -> Result<BTreeSet<u64>, MirrorError> {
    #[derive(Deserialize)]
    struct Listed {
        contexts: Vec<ListedContext>,
    }
    #[derive(Deserialize)]
    struct ListedContext {
        context_id: String,
        #[serde(default)]
        client_tag: String,
    }
    let search = format!("/v1/contexts/search?q=tag%20%3D%20%22{session}%22");
    let mut found = BTreeSet::new();
    for path in ["/v1/contexts?limit=1000000", &search] {
        let listed: Listed = match call(address, path, None, LISTED).await? {
            (200, text) => serde_json::from_str(&text)
                .map_err(|error| refused(address, &format!("it does not list contexts as CXDB does: {error}")))?,
            (status, text) => return Err(refused(address, &format!("it does not list contexts: {status} {text}"))),
        };
        let about = listed.contexts.iter().filter(|context| context.client_tag == session.as_str());
        found.extend(about.filter_map(|context| context.context_id.parse::<u64>().ok()));
    }
    Ok(found)
}

async fn call(
    address: &MirrorAddress,
    path: &str,
    body: Option<Vec<u8>>,
    patience: Duration,
) -> Result<(u16, String), MirrorError> {
    let answered = call_plain(&address.http(), path, body, patience).await.map_err(|why| refused(address, &why))?;
    Ok((answered.0, String::from_utf8_lossy(&answered.1).into_owned()))
}

fn refused(address: &MirrorAddress, why: &str) -> MirrorError {
    MirrorError::Http { server: address.http(), why: told(why) }
}
