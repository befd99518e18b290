//! Whether two error messages have the same cause. Retries of a failed call give messages that differ only in IDs, ports and
//! times: writing each of them into a status would be one write for every retry. Pure.

/// The least length of a number or an ID that differs between retries.
const MIN_NUMBER: usize = 4;
const MIN_ID: usize = 12;

/// Whether both messages are equal apart from IDs in hexadecimal digits and long numbers.
pub(super) fn is_same_cause(a: &str, b: &str) -> bool {
    words(a).eq(words(b))
}

/// The parts of a message, without those that differ between retries.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !is_variable(word))
}

fn is_variable(word: &str) -> bool {
    let is_number = word.len() >= MIN_NUMBER && word.bytes().all(|byte| byte.is_ascii_digit());
    let is_id = word.len() >= MIN_ID && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number || is_id
}

#[cfg(test)]
mod tests {
    use super::is_same_cause;

    #[test]
    fn ids_and_ports_make_no_other_cause() {
        let failed = |id: &str, port: u16| {
            format!(
                "failed to setup network for sandbox \"{id}\": dial tcp 10.0.0.1:{port}->10.0.0.2:80: refused"
            )
        };
        let (one, other) = ("a".repeat(64), "0123456789ab".to_owned());
        assert!(is_same_cause(&failed(&one, 40_123), &failed(&other, 51_234)));
        assert!(!is_same_cause(&failed(&one, 40_123), &failed(&one, 40_123).replace("refused", "timeout")));
        assert!(!is_same_cause("configmap \"a\" not found", "configmap \"b\" not found"));
        assert!(!is_same_cause("exit status 1", "exit status 2"));
    }
}
