//! The queries of requests for streams, read as upstream reads them (`remotecommand.NewOptions`, `portforward.NewV4Options`). Pure.

use hostlet_base::go_quoted;
use hostlet_runtime::cri::StdStreams;

/// A query that asks for nothing. `Display` is upstream's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// An exec or attach that names no stream.
    #[error("you must specify at least 1 of stdin, stdout, stderr")]
    NoStreams,
    /// A port-forward that names no port.
    #[error("query parameter \"port\" is required")]
    NoPort,
    /// An empty one.
    #[error("query parameter \"port\" cannot be empty")]
    EmptyPort,
    /// What is no number, or too large.
    #[error(
        "unable to parse {} as a port: strconv.ParseUint: parsing {}: {why}",
        go_quoted(list),
        go_quoted(port)
    )]
    NotAPort {
        /// The parameter.
        list: String,
        /// The part of it.
        port: String,
        /// The problem.
        why: &'static str,
    },
    /// The port is 0, which nothing listens on.
    #[error("port {} must be > 0", go_quoted(.0))]
    PortZero(String),
}

/// The parameters of a query, in order. What is no UTF-8 is replaced: the CRI has only text.
#[derive(Clone, Debug)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads a query.
    pub fn parse(query: &str) -> Self {
        Self(serde_urlencoded::from_str(query).unwrap_or_default())
    }

    /// All values of a parameter.
    pub fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect()
    }

    /// The first value of a parameter; empty without one.
    pub fn first(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The streams of a process that the client wants.
    ///
    /// # Errors
    /// It wants none.
    pub fn std_streams(&self) -> Result<StdStreams, QueryError> {
        let is_wanted = |name| self.first(name) == "1";
        let (stdin, stdout, tty) = (is_wanted("input"), is_wanted("output"), is_wanted("tty"));
        // A terminal has one output.
        let stderr = is_wanted("error") && !tty;
        if !(stdin || stdout || stderr) {
            return Err(QueryError::NoStreams);
        }
        Ok(StdStreams { stdin, stdout, stderr, tty })
    }

    /// The ports that a WebSocket names in advance.
    ///
    /// # Errors
    /// There is none, or something else among them.
    pub fn ports(&self) -> Result<Vec<u16>, QueryError> {
        let lists = self.all("port");
        if lists.is_empty() {
            return Err(QueryError::NoPort);
        }
        let mut ports = Vec::new();
        for list in &lists {
            if list.is_empty() {
                return Err(QueryError::EmptyPort);
            }
            for port in list.split(',') {
                ports.push(parse_port(list, port)?);
            }
        }
        Ok(ports)
    }
}

fn parse_port(list: &str, port: &str) -> Result<u16, QueryError> {
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let parsed: Option<u16> = port.parse().ok().filter(|_| is_number);
    match parsed {
        Some(0) => Err(QueryError::PortZero(list.to_owned())),
        Some(port) => Ok(port),
        None => {
            let why = if is_number { "value out of range" } else { "invalid syntax" };
            Err(QueryError::NotAPort { list: list.to_owned(), port: port.to_owned(), why })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_1_asks_for_a_stream() {
        let streams = |query| Parameters::parse(query).std_streams();
        let none = StdStreams::default();
        assert_eq!(streams("input=1&output=1"), Ok(StdStreams { stdin: true, stdout: true, ..none }));
        assert_eq!(streams("error=1"), Ok(StdStreams { stderr: true, ..none }));
        assert_eq!(streams("output=1&error=1&tty=1"), Ok(StdStreams { stdout: true, tty: true, ..none }));
        for query in ["", "tty=1", "tty=1&error=1", "output=true", "stdout=1&stdin=1", "output=0&output=1"] {
            let error = streams(query).unwrap_err();
            assert_eq!(error.to_string(), "you must specify at least 1 of stdin, stdout, stderr", "{query}");
        }
    }

    #[test]
    fn the_words_of_a_command_keep_their_order_and_bytes() {
        let command = |query| Parameters::parse(query).all("command");
        assert_eq!(command("command=sh&tty=1&command=-c&command=a%26b+%2B%20c"), ["sh", "-c", "a&b + c"]);
        assert_eq!(command("command="), [""]);
        assert_eq!(command("cmd=ls"), [""; 0]);
    }

    #[test]
    fn ports_are_lists_of_numbers() {
        let ports = |query| Parameters::parse(query).ports().map_err(|error| error.to_string());
        assert_eq!(ports("port=80,443&port=65535"), Ok(vec![80, 443, 65535]));
        for (query, error) in [
            ("", r#"query parameter "port" is required"#),
            ("port=", r#"query parameter "port" cannot be empty"#),
            ("port=0", r#"port "0" must be > 0"#),
            ("port=80,", r#"unable to parse "80," as a port: strconv.ParseUint: parsing "": invalid syntax"#),
            (
                "port=%2B80",
                r#"unable to parse "+80" as a port: strconv.ParseUint: parsing "+80": invalid syntax"#,
            ),
            (
                "port=65536",
                r#"unable to parse "65536" as a port: strconv.ParseUint: parsing "65536": value out of range"#,
            ),
        ] {
            assert_eq!(ports(query), Err(error.to_owned()), "{query}");
        }
    }
}
