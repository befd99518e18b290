//! Prints what a command knows as objects, for other programs: JSON or YAML.

use std::io::Write;

use clap::ValueEnum;
use hostlet_base::json;
use serde::Serialize;

use super::error::CommandError;

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectFormat {
    /// Everything that is known, as JSON.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Writes one document.
pub(super) fn write_object(
    out: &mut impl Write,
    format: ObjectFormat,
    object: &impl Serialize,
) -> Result<(), CommandError> {
    match format {
        ObjectFormat::Json => {
            serde_json::to_writer_pretty(&mut *out, object)?;
            writeln!(out)?;
        }
        ObjectFormat::Yaml => write_yaml(out, object)?,
    }
    Ok(())
}

/// Writes one of many documents: a line of JSON, or a document of a YAML stream.
pub(super) fn write_next_object(
    out: &mut impl Write,
    format: ObjectFormat,
    object: &impl Serialize,
) -> Result<(), CommandError> {
    match format {
        ObjectFormat::Json => {
            serde_json::to_writer(&mut *out, object)?;
            writeln!(out)?;
        }
        ObjectFormat::Yaml => {
            writeln!(out, "---")?;
            write_yaml(out, object)?;
        }
    }
    Ok(out.flush()?)
}

fn write_yaml(out: &mut impl Write, object: &impl Serialize) -> Result<(), CommandError> {
    let text = serde_saphyr::to_string(&json::to_value(object)?)?;
    Ok(writeln!(out, "{}", text.trim_end_matches('\n'))?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn both_formats_have_the_same_content() {
        let object = json!([{"name": "a", "n": 1, "text": "x\ny\n"}, {"name": "b"}]);
        let written = |format| {
            let mut out = Vec::new();
            write_object(&mut out, format, &object).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(serde_json::from_str::<Value>(&written(ObjectFormat::Json)).unwrap(), object);
        assert_eq!(serde_saphyr::from_str::<Value>(&written(ObjectFormat::Yaml)).unwrap(), object);
    }

    #[test]
    fn many_objects_are_lines_of_json_or_documents_of_yaml() {
        let written = |format| {
            let mut out = Vec::new();
            for n in 1..3 {
                write_next_object(&mut out, format, &json!({"number": n})).unwrap();
            }
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(ObjectFormat::Json), "{\"number\":1}\n{\"number\":2}\n");
        assert_eq!(written(ObjectFormat::Yaml), "---\nnumber: 1\n---\nnumber: 2\n");
    }
}
