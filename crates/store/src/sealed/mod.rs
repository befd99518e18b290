//! Rows that are encrypted in the file, for what must not be on a disk in the clear: each is sealed by an AEAD with a key of this
//! host, and bound to its table and key. Knows nothing of the meaning of the rows, and never logs their content.

mod cipher;
mod host_key;
mod rows;
#[cfg(test)]
mod tests;

pub use host_key::{KEY_CREDENTIAL, KeyError, KeyPlace};
pub use rows::{OpenedRow, SealedRows, UnreadableRow};
