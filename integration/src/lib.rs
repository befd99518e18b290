//! What the tests of hostlet against a runtime share: fakes that the real daemon can run on.

pub mod fake_cri;
