//! A directory of logs as a list of links, and a file as it is. As Go's file server answers, but without following a link out of the
//! directory, and a file that grows meanwhile ends where it ended at the request.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures::stream;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::super::answers::line;
use crate::sys::{InsideError, file_work, open_existing_inside};
use crate::types::error_chain;

/// How much is read at once.
const PIECE: usize = 64 << 10;

/// Characters that are escaped in links.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// What a path leads to.
enum Found {
    /// The names in a directory; those of directories end in a slash.
    Directory(Vec<String>),
    /// A regular file, and its beginning.
    File { rest: File, size: u64, beginning: Vec<u8> },
}

/// Answers with what is at `path`, which may be empty.
pub(super) async fn answer(dir: &Path, path: String) -> Response {
    let (dir, relative) = (dir.to_owned(), path.trim_matches('/').to_owned());
    let name = relative.rsplit('/').next().unwrap_or_default().to_owned();
    let is_directory_path = path.is_empty() || path.ends_with('/');
    match file_work(move || find(&dir, &relative)).await {
        Ok(Ok(Found::Directory(_))) if !is_directory_path => moved(&format!("{name}/")),
        Ok(Ok(Found::File { .. })) if is_directory_path => moved(&format!("../{name}")),
        Ok(Ok(Found::Directory(names))) => listing(&names),
        Ok(Ok(Found::File { rest, size, beginning })) => content(rest, size, beginning),
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

fn find(dir: &Path, relative: &str) -> Result<Found, InsideError> {
    let opened = open_existing_inside(dir, Path::new(relative))?;
    let failed = |source| InsideError::Open { path: dir.join(relative), source };
    if opened.is_dir() {
        return opened.names().map(Found::Directory).map_err(failed);
    }
    let mut file = opened.file().map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let mut beginning = Vec::new();
    file.by_ref().take((PIECE as u64).min(size)).read_to_end(&mut beginning).map_err(failed)?;
    Ok(Found::File { rest: file, size, beginning })
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

fn content(rest: File, size: u64, beginning: Vec<u8>) -> Response {
    // Bytes that no text has.
    let is_binary =
        beginning.iter().take(512).any(|byte| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f));
    let kind = if is_binary { "application/octet-stream" } else { "text/plain; charset=utf-8" };
    let left = size.saturating_sub(beginning.len() as u64);
    let length = beginning.len() as u64 + left;
    let body = stream::try_unfold((beginning, rest, left), |(first, rest, left)| async move {
        if !first.is_empty() {
            return Ok(Some((Bytes::from(first), (Vec::new(), rest, left))));
        }
        if left == 0 {
            return Ok(None);
        }
        let (piece, rest) = piece(rest, left).await?;
        let left = left.saturating_sub(piece.len() as u64);
        Ok::<_, io::Error>(Some((piece, (Vec::new(), rest, left))))
    });
    let headers = [(CONTENT_TYPE, kind.to_owned()), (CONTENT_LENGTH, length.to_string())];
    (headers, Body::from_stream(body)).into_response()
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
