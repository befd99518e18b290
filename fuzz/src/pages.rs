//! Requests for pages of the node's API: queries for logs, and the forms that a client accepts.

use hostlet_serve::node_api::system_logs::{Query, Wanted};
use hostlet_serve::node_api::zpages::{Form, form};

/// Maximum number of services, and maximum bytes of a name.
const MOST_SERVICES: usize = 4;
const MOST_NAME: usize = 256;

/// A query for logs: one that is accepted names a file or a few services, neither of which is read as something else.
pub fn log_query(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Each part that is wrong is quoted, escaped, with a reason.
    let check_length = |message: String| assert!(message.len() <= 20 * data.len() + 1000, "a long message");
    match Query::parse(text).map(|query| query.map(|query| query.wanted())) {
        Err(errors) | Ok(Some(Err(errors))) => check_length(errors.to_string()),
        Ok(None) => {}
        Ok(Some(Ok(Wanted::File(file)))) => {
            assert!(file.contains('/') && !file.contains('\\'), "{file:?} is no path");
        }
        Ok(Some(Ok(Wanted::Services(services)))) => {
            assert!((1..=MOST_SERVICES).contains(&services.len()), "{services:?}");
            for service in services {
                assert!(!service.is_empty() && service.len() <= MOST_NAME, "{service:?}");
                assert!(!service.contains(|c: char| c == '/' || c == ' ' || c.is_control()), "{service:?}");
            }
        }
    }
}

/// The header `Accept`: an object is only for who names it.
pub fn accept(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match form(text, "Statusz") {
        Some(Form::Object(..)) => {
            for part in ["g=config.k8s.io", "v=v1", "as=Statusz"] {
                assert!(text.contains(part), "{part} was not asked for");
            }
        }
        Some(Form::Text) => {
            let is_named = text.contains("text/plain") || text.contains('*');
            assert!(text.trim().is_empty() || is_named, "no text was asked for");
        }
        None => {}
    }
}
