//! A directory of logs as a list of links, and a file as it is, or the part of it that was asked for. As Go's file server answers, but
//! without following a link out of the directory, and a file that grows meanwhile ends where it ended at the request.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures::stream;
use hostlet_base::error_chain;
use hostlet_host::{InsideError, file_work, open_existing_inside};
use http::StatusCode;
use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderName, LAST_MODIFIED, LOCATION,
};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::super::answers::line;
use super::conditions::{Conditions, Portion, http_date};

/// How much of a file decides its type.
const SNIFFED: u64 = 512;

/// How much is read at once.
const PIECE: usize = 64 << 10;

/// Characters that are escaped in links.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// What a path leads to.
enum Found {
    /// The names in a directory; those of directories end in a slash.
    Directory(Vec<String>),
    /// A regular file.
    File(LogFile),
}

/// A regular file, and what of it is sent.
struct LogFile {
    /// At the first byte that is sent.
    file: File,
    size: u64,
    modified: Timestamp,
    /// Its type, by its beginning.
    kind: &'static str,
    portion: Portion,
}

/// Answers with what is at `path`, which may be empty, as far as it is `wanted`.
pub(super) async fn answer(dir: &Path, path: String, wanted: Conditions) -> Response {
    let (dir, relative) = (dir.to_owned(), path.trim_matches('/').to_owned());
    let name = relative.rsplit('/').next().unwrap_or_default().to_owned();
    let is_directory_path = path.is_empty() || path.ends_with('/');
    match file_work(move || find(&dir, &relative, &wanted)).await {
        Ok(Ok(Found::Directory(_))) if !is_directory_path => moved(&format!("{name}/")),
        Ok(Ok(Found::File(_))) if is_directory_path => moved(&format!("../{name}")),
        Ok(Ok(Found::Directory(names))) => listing(&names),
        Ok(Ok(Found::File(file))) => content(file),
        Ok(Err(error)) => failed(&error),
        Err(_) => line(StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error"),
    }
}

/// Why there is no file at `path`; `None` if there is one.
pub(super) async fn missing(dir: &Path, path: &str) -> Option<String> {
    let (dir, relative) = (dir.to_owned(), path.trim_matches('/').to_owned());
    match file_work(move || open_existing_inside(&dir, Path::new(&relative)).map(drop)).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error_chain(&error)),
        Err(error) => Some(error.to_string()),
    }
}

/// Opens a regular file inside the directory, for a stream.
pub(super) fn open(dir: &Path, relative: &str) -> Result<File, InsideError> {
    let path = dir.join(relative);
    let opened = open_existing_inside(dir, Path::new(relative))?;
    opened.file().map_err(|source| InsideError::Open { path, source })
}

fn find(dir: &Path, relative: &str, wanted: &Conditions) -> Result<Found, InsideError> {
    let opened = open_existing_inside(dir, Path::new(relative))?;
    let failed = |source| InsideError::Open { path: dir.join(relative), source };
    if opened.is_dir() {
        return opened.names().map(Found::Directory).map_err(failed);
    }
    opened.file().and_then(|file| inspect(file, wanted)).map(Found::File).map_err(failed)
}

fn inspect(mut file: File, wanted: &Conditions) -> io::Result<LogFile> {
    let metadata = file.metadata()?;
    let size = metadata.len();
    // Headers have seconds.
    let modified = Timestamp::from_second(metadata.mtime()).unwrap_or_default();
    let portion = wanted.portion(size, modified);
    let mut beginning = Vec::new();
    file.by_ref().take(SNIFFED).read_to_end(&mut beginning)?;
    // Bytes that no text has.
    let is_binary = beginning.iter().any(|byte| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f));
    let kind = if is_binary { "application/octet-stream" } else { "text/plain; charset=utf-8" };
    let first = match &portion {
        Portion::Part(part) => part.start,
        Portion::Whole | Portion::Unsatisfiable | Portion::NotModified => 0,
    };
    file.seek(SeekFrom::Start(first))?;
    Ok(LogFile { file, size, modified, kind, portion })
}

fn failed(error: &InsideError) -> Response {
    match error {
        InsideError::NotBelow { .. } => line(StatusCode::NOT_FOUND, "404 page not found"),
        InsideError::Outside { .. } | InsideError::Replaced { .. } => {
            line(StatusCode::FORBIDDEN, "403 Forbidden")
        }
        InsideError::Open { source, .. } | InsideError::Make { source, .. } => match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                line(StatusCode::NOT_FOUND, "404 page not found")
            }
            io::ErrorKind::PermissionDenied => line(StatusCode::FORBIDDEN, "403 Forbidden"),
            _ => line(StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error"),
        },
    }
}

fn moved(to: &str) -> Response {
    let to = utf8_percent_encode(to, ESCAPED).to_string();
    (StatusCode::MOVED_PERMANENTLY, [(LOCATION, to)]).into_response()
}

fn listing(names: &[String]) -> Response {
    let escape = |name: &str| {
        let name = name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        name.replace('"', "&#34;").replace('\'', "&#39;")
    };
    let mut html =
        "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n".to_owned();
    for name in names {
        let link = utf8_percent_encode(name, ESCAPED);
        html.push_str(&format!("<a href=\"{link}\">{}</a>\n", escape(name)));
    }
    html.push_str("</pre>\n");
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response()
}

fn content(LogFile { file, size, modified, kind, portion }: LogFile) -> Response {
    let mut answer = match portion {
        Portion::Whole => bytes(StatusCode::OK, file, 0..size, kind),
        Portion::Part(part) => {
            let range = format!("bytes {}-{}/{size}", part.start, part.end - 1);
            let mut answer = bytes(StatusCode::PARTIAL_CONTENT, file, part, kind);
            add(&mut answer, CONTENT_RANGE, &range);
            answer
        }
        Portion::Unsatisfiable => {
            let mut answer = line(StatusCode::RANGE_NOT_SATISFIABLE, "invalid range");
            add(&mut answer, CONTENT_RANGE, &format!("bytes */{size}"));
            answer
        }
        Portion::NotModified => StatusCode::NOT_MODIFIED.into_response(),
    };
    add(&mut answer, ACCEPT_RANGES, "bytes");
    if let Some(date) = http_date(modified) {
        add(&mut answer, LAST_MODIFIED, &date);
    }
    answer
}

fn add(answer: &mut Response, name: HeaderName, value: &str) {
    // All of them are ASCII.
    if let Ok(value) = value.try_into() {
        answer.headers_mut().insert(name, value);
    }
}

/// An answer with the next bytes of the file, which is at the start of `part`.
fn bytes(status: StatusCode, file: File, part: Range<u64>, kind: &'static str) -> Response {
    let length = part.end.saturating_sub(part.start);
    let body = stream::try_unfold((file, length), |(rest, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let (piece, rest) = piece(rest, left).await?;
        let left = left.saturating_sub(piece.len() as u64);
        Ok::<_, io::Error>(Some((piece, (rest, left))))
    });
    let headers = [(CONTENT_TYPE, kind.to_owned()), (CONTENT_LENGTH, length.to_string())];
    (status, headers, Body::from_stream(body)).into_response()
}

/// The next piece of at most `left` bytes. The end is an error: the file became shorter than it was.
async fn piece(mut rest: File, left: u64) -> io::Result<(Bytes, File)> {
    let read = file_work(move || {
        let mut piece = Vec::new();
        match rest.by_ref().take((PIECE as u64).min(left)).read_to_end(&mut piece)? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            _ => Ok((Bytes::from(piece), rest)),
        }
    });
    read.await.map_err(io::Error::other)?
}
