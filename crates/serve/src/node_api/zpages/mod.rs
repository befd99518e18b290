//! `/statusz` and `/flagz` (KEP-4827, KEP-4828): pages about the process, for people and, on request, as objects.

mod endpoints;
mod flagz;
mod negotiate;
mod page;
mod statusz;
#[cfg(test)]
mod tests;

pub use endpoints::ZPages;
pub use negotiate::{Encoding, Form, Version, form};
