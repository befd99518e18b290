//! `--version`: hostlet's own or, under the name `kubelet`, the version of Kubernetes, which kubeadm reads from it.

use std::ffi::OsStr;
use std::io::{self, Write};

use hostlet_base::KUBERNETES_VERSION;
use hostlet_config::{VersionForm, is_called_kubelet};

use super::exit::Exit;

/// Prints the version of a program that was called by this name.
pub fn version(program: Option<&OsStr>, form: VersionForm) -> io::Result<Exit> {
    writeln!(io::stdout().lock(), "{}", line(program.unwrap_or_default(), form))?;
    Ok(Exit::Ok)
}

fn line(program: &OsStr, form: VersionForm) -> String {
    let own = env!("CARGO_PKG_VERSION");
    match (is_called_kubelet(Some(program)), form) {
        (true, VersionForm::Raw) => KUBERNETES_VERSION.to_owned(),
        (true, VersionForm::True | VersionForm::False) => format!("Kubernetes {KUBERNETES_VERSION}"),
        (false, VersionForm::Raw) => own.to_owned(),
        (false, VersionForm::True | VersionForm::False) => format!("hostlet {own}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_kubernetes_is_printed_under_the_name_kubelet() {
        for (program, form, expected) in [
            ("/usr/bin/kubelet", VersionForm::True, format!("Kubernetes {KUBERNETES_VERSION}")),
            ("kubelet", VersionForm::Raw, KUBERNETES_VERSION.to_owned()),
            ("/opt/kubelet/hostlet", VersionForm::True, format!("hostlet {}", env!("CARGO_PKG_VERSION"))),
            ("", VersionForm::Raw, env!("CARGO_PKG_VERSION").to_owned()),
        ] {
            assert_eq!(line(OsStr::new(program), form), expected, "{program}");
        }
        // As kubeadm's GetKubeletVersion requires: "Kubernetes v", then a semantic version.
        let line = line(OsStr::new("kubelet"), VersionForm::True);
        let version = line.strip_prefix("Kubernetes v").unwrap();
        assert_eq!(version.split('.').filter(|part| part.parse::<u32>().is_ok()).count(), 3, "{version}");
    }
}
