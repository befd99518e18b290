//! Reads configuration files: one file, or the drop-ins of a directory. Does not parse them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::error::{ConfigError, Place};

/// Size limit of a file, in bytes: far above any configuration, far below the available memory.
const MAX_BYTES: u64 = 4 << 20;
const DROP_IN_EXTENSION: &str = "conf";
/// The extensions of files in a directory of credential providers.
const PROVIDER_EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// The content of a file.
#[derive(Debug)]
pub(super) struct TextFile {
    /// Its absolute path.
    pub(super) path: PathBuf,
    /// Its content.
    pub(super) text: String,
}

/// Reads a text file.
pub(super) fn read_text(path: &Path) -> Result<TextFile, ConfigError> {
    let failed = |action, source| ConfigError::Read { path: path.to_owned(), action, source };
    let path = std::path::absolute(path).map_err(|source| failed("find the file", source))?;
    let mut bytes = Vec::new();
    let file = File::open(&path).map_err(|source| failed("open the file", source))?;
    match file.take(MAX_BYTES + 1).read_to_end(&mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            return Err(ConfigError::IsDirectory(path));
        }
        Err(source) => return Err(failed("read the file", source)),
        Ok(length) if u64::try_from(length).is_ok_and(|length| length > MAX_BYTES) => {
            return Err(ConfigError::TooLarge { path, limit: MAX_BYTES });
        }
        Ok(_) => {}
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(TextFile { path, text }),
        Err(error) => {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
            Err(ConfigError::NotUtf8(Place::File { path, line: Some(line) }))
        }
    }
}

/// Reads the drop-ins in a directory tree: files whose names end in `.conf`, in lexical order. Links to directories are not
/// followed.
pub(super) fn read_drop_ins(directory: &Path) -> (Vec<TextFile>, Vec<ConfigError>) {
    let mut paths = Vec::new();
    let mut errors = Vec::new();
    find_drop_ins(directory, &mut paths, &mut errors);
    let mut files = Vec::new();
    for path in paths {
        match read_text(&path) {
            Ok(file) => files.push(file),
            Err(error) => errors.push(error),
        }
    }
    (files, errors)
}

/// Reads the configuration of credential providers: one file, or the JSON and YAML files of a directory in lexical order.
pub(super) fn read_provider_files(path: &Path) -> (Vec<TextFile>, Vec<ConfigError>) {
    let failed = |action, source| ConfigError::Read { path: path.to_owned(), action, source };
    let is_directory = match fs::metadata(path) {
        Ok(found) => found.is_dir(),
        Err(source) => return (Vec::new(), vec![failed("open the file", source)]),
    };
    if !is_directory {
        return match read_text(path) {
            Ok(file) => (vec![file], Vec::new()),
            Err(error) => (Vec::new(), vec![error]),
        };
    }
    let entries = match list(path) {
        Ok(entries) => entries,
        Err(source) => return (Vec::new(), vec![failed("list the directory", source)]),
    };
    let has_extension = |path: &Path| {
        path.extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|e| PROVIDER_EXTENSIONS.contains(&e))
    };
    let paths = entries.into_iter().filter(|(path, is_directory)| !is_directory && has_extension(path));
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    for (path, _) in paths {
        match read_text(&path) {
            Ok(file) => files.push(file),
            Err(error) => errors.push(error),
        }
    }
    if files.is_empty() && errors.is_empty() {
        let at = Place::File { path: path.to_owned(), line: None };
        let message = "the directory has no file that ends in .json, .yaml or .yml".to_owned();
        errors.push(ConfigError::Document { at, message });
    }
    (files, errors)
}

fn find_drop_ins(directory: &Path, found: &mut Vec<PathBuf>, errors: &mut Vec<ConfigError>) {
    let entries = match list(directory) {
        Ok(entries) => entries,
        Err(source) => {
            errors.push(ConfigError::Read {
                path: directory.to_owned(),
                action: "list the directory",
                source,
            });
            return;
        }
    };
    for (path, is_directory) in entries {
        if is_directory {
            find_drop_ins(&path, found, errors);
        } else if path.extension().is_some_and(|extension| extension == DROP_IN_EXTENSION) {
            found.push(path);
        }
    }
}

/// The entries of a directory in lexical order, and whether each is a directory.
fn list(directory: &Path) -> io::Result<Vec<(PathBuf, bool)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        entries.push((entry.path(), entry.file_type()?.is_dir()));
    }
    entries.sort();
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{MAX_BYTES, read_drop_ins, read_text};

    #[test]
    fn drop_ins_are_read_in_lexical_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in
            ["20-b.conf", "10-a.conf", "15-dir/z.conf", "15-dir/a.conf", "README", "05.yaml", ".conf.swp"]
        {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        let (files, errors) = read_drop_ins(dir.path());
        assert!(errors.is_empty());
        let texts: Vec<&str> = files.iter().map(|file| file.text.as_str()).collect();
        assert_eq!(texts, ["10-a.conf", "15-dir/a.conf", "15-dir/z.conf", "20-b.conf"]);
    }

    #[test]
    fn unreadable_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let message = |path: &Path| read_text(path).unwrap_err().to_string();
        let missing = dir.path().join("missing.yaml");
        assert_eq!(message(&missing), format!("{}: cannot open the file", missing.display()));
        assert_eq!(
            message(dir.path()),
            format!(
                "{}: is a directory; name a file, or give the directory with --config-dir",
                dir.path().display()
            )
        );
        let binary = dir.path().join("binary.yaml");
        fs::write(&binary, b"a: 1\nb: \xff\n").unwrap();
        assert_eq!(
            message(&binary),
            format!("{}:2: the file is not UTF-8 text; save it as UTF-8", binary.display())
        );
        let endless = message(Path::new("/dev/zero"));
        assert!(endless.contains(&format!("larger than {MAX_BYTES} bytes")), "{endless}");

        let (files, errors) = read_drop_ins(&dir.path().join("no.d"));
        assert!(files.is_empty());
        assert!(errors[0].to_string().ends_with("no.d: cannot list the directory"));
    }
}
