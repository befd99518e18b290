//! Iterates over the entries of a tar archive. The `tar` crate parses the headers; the iteration is our own because the
//! crate's reads extended headers of any size into memory, without an option to limit it.

use tar::{EntryType, Header, PaxExtensions};

use super::ArchiveError;
use super::input::{Input, cut_short};

const BLOCK: usize = 512;
/// Maximum number of entries; no image archive has more.
const ENTRIES_MOST: u32 = 100_000;
/// Maximum length of an extended header, in bytes. Image archives use them only for long names.
const EXTENDED_MOST: u64 = 256 << 10;
/// Maximum length of a path, as in a file system.
const NAME_MOST: usize = 4096;

/// The type of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A regular file.
    File,
    /// A link to this file of the archive.
    Link(String),
    /// A directory, or a type that images do not use.
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Normalized path inside the archive. Empty for the archive's root.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Length of its content, in bytes.
    pub(super) size: u64,
}

/// The iteration.
pub(super) struct Walk {
    input: Input,
    entries: u32,
    /// Remaining content of the current entry.
    left: u64,
    /// Padding of its last block.
    padding: u64,
}

/// Data from extended headers for the entry that follows.
#[derive(Default)]
struct Extended {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
}

impl Walk {
    pub(super) fn new(input: Input) -> Self {
        Self { input, entries: 0, left: 0, padding: 0 }
    }

    /// The next entry; `None` at the end. Skips unread content of the previous entry.
    pub(super) fn next(&mut self) -> Result<Option<Entry>, ArchiveError> {
        let mut extended = Extended::default();
        loop {
            let rest = self.left.saturating_add(self.padding);
            (self.left, self.padding) = (0, 0);
            self.input.skip(rest)?;
            let Some(header) = self.header()? else { return Ok(None) };
            self.entries += 1;
            if self.entries > ENTRIES_MOST {
                return Err(ArchiveError::TooMuch { what: "100,000 entries" });
            }
            self.begin(header.entry_size().map_err(|_| ArchiveError::Header("the size of an entry"))?);
            match header.entry_type() {
                EntryType::GNULongName => extended.path = Some(self.extended_text()?),
                EntryType::GNULongLink => extended.link = Some(self.extended_text()?),
                EntryType::XHeader => self.pax(&mut extended)?,
                EntryType::XGlobalHeader => {}
                EntryType::GNUSparse => return Err(ArchiveError::Header("sparse files are not read")),
                kind => {
                    if let Some(size) = extended.size {
                        self.begin(size);
                    }
                    return entry(&header, kind, extended, self.left).map(Some);
                }
            }
        }
    }

    /// Reads the current entry's content; 0 at its end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ArchiveError> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        match self.input.read(&mut buffer[..most])? {
            0 => Err(cut_short()),
            read => {
                self.left -= read as u64;
                Ok(read)
            }
        }
    }

    /// Fills `buffer` with content; less only at its end.
    pub(super) fn read_full(&mut self, buffer: &mut [u8]) -> Result<usize, ArchiveError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    fn begin(&mut self, size: u64) {
        self.left = size;
        self.padding = size.wrapping_neg() % BLOCK as u64;
    }

    /// The next header; `None` at the end marker, or if the file ends between two entries.
    fn header(&mut self) -> Result<Option<Header>, ArchiveError> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.input.read(&mut block[filled..])? {
                0 if filled == 0 && self.entries > 0 => return Ok(None),
                0 => return Err(cut_short()),
                read => filled += read,
            }
        }
        if block == [0; BLOCK] {
            return Ok(None);
        }
        let header = Header::from_byte_slice(&block).clone();
        let sum = header.cksum().map_err(|_| ArchiveError::Header("no checksum in a header"))?;
        // The checksum is computed with spaces in the checksum field.
        let bytes = block.iter().enumerate();
        let actual: u32 =
            bytes.map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) }).sum();
        if sum == actual {
            Ok(Some(header))
        } else {
            Err(ArchiveError::Header("a wrong checksum in a header"))
        }
    }

    fn extended(&mut self) -> Result<Vec<u8>, ArchiveError> {
        if self.left > EXTENDED_MOST {
            return Err(ArchiveError::TooMuch { what: "256 KiB in an extended header" });
        }
        let mut bytes = vec![0; usize::try_from(self.left).unwrap_or_default()];
        self.read_full(&mut bytes)?;
        Ok(bytes)
    }

    /// A long name that GNU tar puts before an entry, terminated by NUL.
    fn extended_text(&mut self) -> Result<Vec<u8>, ArchiveError> {
        let mut bytes = self.extended()?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        bytes.truncate(end);
        Ok(bytes)
    }

    fn pax(&mut self, extended: &mut Extended) -> Result<(), ArchiveError> {
        const MALFORMED: ArchiveError = ArchiveError::Header("a malformed extended header");
        for record in PaxExtensions::new(&self.extended()?) {
            let record = record.map_err(|_| MALFORMED)?;
            let value = record.value_bytes();
            match record.key_bytes() {
                b"path" => extended.path = Some(value.to_vec()),
                b"linkpath" => extended.link = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                    extended.size = Some(size.ok_or(MALFORMED)?);
                }
                key if key.starts_with(b"GNU.sparse.") => {
                    return Err(ArchiveError::Header("sparse files are not read"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn entry(header: &Header, kind: EntryType, extended: Extended, size: u64) -> Result<Entry, ArchiveError> {
    let name = inside("", &extended.path.unwrap_or_else(|| header.path_bytes().into_owned()))?;
    let link = || {
        let link = extended.link.or_else(|| header.link_name_bytes().map(|name| name.into_owned()));
        link.unwrap_or_default()
    };
    let kind = match kind {
        EntryType::Regular | EntryType::Continuous if !name.is_empty() => Kind::File,
        EntryType::Link => Kind::Link(inside("", &link())?),
        EntryType::Symlink => {
            let directory = name.rsplit_once('/').map_or("", |(directory, _)| directory);
            Kind::Link(inside(directory, &link())?)
        }
        _ => Kind::Other,
    };
    Ok(Entry { name, kind, size })
}

/// Resolves `name` relative to `directory` to a path from the archive's root. An error if it escapes the archive.
fn inside(directory: &str, name: &[u8]) -> Result<String, ArchiveError> {
    if name.len() > NAME_MOST {
        return Err(ArchiveError::TooMuch { what: "4096 bytes in a name" });
    }
    let name = String::from_utf8_lossy(name);
    let escape = || ArchiveError::Escape(name.clone().into_owned());
    if name.starts_with('/') || name.contains('\0') {
        return Err(escape());
    }
    let mut path: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            // A symbolic link may go up, but not out of the archive.
            ".." if !directory.is_empty() => {
                path.pop().ok_or_else(escape)?;
            }
            ".." => return Err(escape()),
            part => path.push(part),
        }
    }
    Ok(path.join("/"))
}

#[cfg(test)]
mod tests {
    use super::inside;

    #[test]
    fn names_stay_inside() {
        assert_eq!(inside("", b"./a//b/").unwrap(), "a/b");
        assert_eq!(inside("a/b", b"../../c").unwrap(), "c");
        assert_eq!(inside("", b"./").unwrap(), "");
        for name in [&b"/etc/passwd"[..], b"../x", b"a/../../x", b"a\0b"] {
            assert!(inside("", name).is_err(), "{name:?}");
        }
        assert!(inside("a", b"../../x").is_err());
        assert!(inside("", &[b'a'; 5000]).is_err());
    }
}
