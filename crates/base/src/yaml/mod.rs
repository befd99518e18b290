//! Strict reading of YAML and JSON, for all files that people write: documents whose fields have line numbers, decoded so that
//! every unknown field and wrong value is found. Does no I/O.

mod document;
mod scalar;
mod spelling;
mod strict;

pub use document::{Document, DocumentError, Lines, enclosing, parse_documents, parse_leniently};
pub use spelling::nearest;
pub use strict::{Flaw, Problem, decode};
