//! Model calls: one type of request and response for every provider.
//!
//! A provider answers one [`Request`] with one [`Response`] and remembers nothing: whatever it needs is in the request.
//! The caller retries, so that a retry is seen where budgets and records are kept.

mod error;
mod estimate;
mod http;
mod message;
mod price;
mod provider;
mod providers;
mod proxy;
mod remote;
mod request;
mod response;
pub mod script;
pub mod wire;

pub use error::{Charge, ErrorClass, LlmError};
pub(crate) use estimate::{by_length, tokens, warning as uncounted, words};
pub use http::call_plain;
pub(crate) use http::{HttpAnswer, HttpError};
pub(crate) use message::newest_task;
pub use message::{Message, Part, Role};
pub use price::{ModelNames, Prices, Pricing, usual_model};
pub use price::{price_estimated, price_unknown};
pub use provider::Provider;
pub use providers::{NoProvider, Providers};
pub(crate) use remote::{ForwardError, ForwardedCall, end_to_end_headers};
pub use remote::{Remote, Unusable, key_variables};
pub use request::{Request, ToolSpec, meta};
pub use response::{Answered, Response, Stop};
pub use script::{Script, ScriptError};
