//! Seals and opens bytes with ChaCha20-Poly1305 (RFC 8439), which is as fast without AES instructions and has no table lookups that
//! depend on the key. Pure, except for the random nonces.
//!
//! A sealed row is a byte with the version of this format, the nonce, the ciphertext and the tag. Nonces are random: 2³² rows under one
//! key, a write each second for 136 years, collide with a probability of 2⁻³³, the bound that NIST SP 800-38D sets for such nonces.

use std::fmt;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

/// Length of a key in bytes.
pub(super) const KEY_BYTES: usize = 32;

/// The version of the format.
const VERSION: u8 = 1;
/// Length of what precedes the ciphertext.
const HEADER: usize = 1 + NONCE_LEN;

/// A key. Never printed.
pub(super) struct Cipher(LessSafeKey);

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher")
    }
}

/// Why something cannot be sealed or opened. Says nothing about the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CipherError {
    /// The kernel gives no random bytes.
    #[error("the kernel gives no random bytes")]
    Random,
    /// The content is longer than the cipher permits (256 GiB).
    #[error("it is too long")]
    TooLong,
    /// The format is that of another version, or there is too little of it.
    #[error("its format is unknown")]
    Format,
    /// The key is another one, or the bytes or what they are bound to were changed.
    #[error("it was encrypted with another key, or is damaged")]
    Rejected,
}

/// Random bytes for a new key.
pub(super) fn random_key() -> Result<[u8; KEY_BYTES], CipherError> {
    let mut bytes = [0; KEY_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| CipherError::Random)?;
    Ok(bytes)
}

impl Cipher {
    /// The cipher with this key; `None` if its length is not [`KEY_BYTES`].
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        UnboundKey::new(&CHACHA20_POLY1305, key).ok().map(|key| Self(LessSafeKey::new(key)))
    }

    /// Encrypts `content` with a fresh nonce, bound to `bound_to`.
    pub(super) fn seal(&self, mut content: Vec<u8>, bound_to: &[u8]) -> Result<Vec<u8>, CipherError> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| CipherError::Random)?;
        let unique = Nonce::assume_unique_for_key(nonce);
        let sealed = self.0.seal_in_place_append_tag(unique, Aad::from(bound_to), &mut content);
        sealed.map_err(|_| CipherError::TooLong)?;
        let mut row = Vec::with_capacity(HEADER + content.len());
        row.push(VERSION);
        row.extend_from_slice(&nonce);
        row.append(&mut content);
        Ok(row)
    }

    /// Decrypts what [`Cipher::seal`] returned for the same `bound_to`.
    pub(super) fn open(&self, sealed: &[u8], bound_to: &[u8]) -> Result<Vec<u8>, CipherError> {
        let (header, content) = sealed.split_at_checked(HEADER).ok_or(CipherError::Format)?;
        let Some((&VERSION, nonce)) = header.split_first() else { return Err(CipherError::Format) };
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| CipherError::Format)?;
        let mut content = content.to_vec();
        let opened = self.0.open_in_place(nonce, Aad::from(bound_to), &mut content);
        let length = opened.map_err(|_| CipherError::Rejected)?.len();
        content.truncate(length);
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cipher(seed: u8) -> Cipher {
        Cipher::new(&[seed; KEY_BYTES]).unwrap()
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..200)
    }

    proptest! {
        #[test]
        fn what_was_sealed_opens_and_shows_nothing(content in bytes(), bound_to in bytes()) {
            let sealed = cipher(1).seal(content.clone(), &bound_to).unwrap();
            prop_assert_eq!(cipher(1).open(&sealed, &bound_to), Ok(content.clone()));
            // Shorter runs occur by chance.
            prop_assert!(content.windows(6).all(|part| !sealed.windows(6).any(|found| found == part)));
            // A fresh nonce each time.
            prop_assert_ne!(cipher(1).seal(content, &bound_to).unwrap(), sealed);
        }

        #[test]
        fn no_bit_can_be_flipped(content in bytes(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut sealed = cipher(1).seal(content, b"row").unwrap();
            let at = at.index(sealed.len());
            sealed[at] ^= 1 << bit;
            prop_assert!(cipher(1).open(&sealed, b"row").is_err());
        }

        #[test]
        fn nothing_can_be_cut_off_or_added(content in bytes(), cut in any::<prop::sample::Index>(), more in 1usize..40) {
            let sealed = cipher(1).seal(content, b"row").unwrap();
            prop_assert!(cipher(1).open(&sealed[..cut.index(sealed.len())], b"row").is_err());
            let longer = [sealed.as_slice(), &vec![0; more]].concat();
            prop_assert_eq!(cipher(1).open(&longer, b"row"), Err(CipherError::Rejected));
        }

        #[test]
        fn another_key_or_another_row_opens_nothing(content in bytes(), bound_to in bytes(), other in bytes(), seed in 2u8..) {
            let sealed = cipher(1).seal(content, &bound_to).unwrap();
            prop_assert_eq!(cipher(seed).open(&sealed, &bound_to), Err(CipherError::Rejected));
            prop_assume!(other != bound_to);
            prop_assert_eq!(cipher(1).open(&sealed, &other), Err(CipherError::Rejected));
        }
    }

    #[test]
    fn a_key_has_256_bits_and_is_never_printed() {
        assert!(Cipher::new(&[0; 31]).is_none() && Cipher::new(&[0; 33]).is_none());
        assert_eq!(format!("{:?}", cipher(7)), "Cipher");
        assert_ne!(random_key(), random_key());
    }

    #[test]
    fn a_row_of_another_format_is_reported_as_such() {
        let mut sealed = cipher(1).seal(b"x".to_vec(), b"row").unwrap();
        sealed[0] = 2;
        assert_eq!(cipher(1).open(&sealed, b"row"), Err(CipherError::Format));
        assert_eq!(cipher(1).open(b"", b"row"), Err(CipherError::Format));
    }
}
