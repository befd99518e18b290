//! Inputs of a mebibyte and more: one element, repeated too often or too long.

use std::io::Write;

const MIB: usize = 1 << 20;

/// Inputs for a target, each with a description.
pub(crate) fn inputs(target: &str) -> Vec<(&'static str, Vec<u8>)> {
    let inputs = match target {
        "manifest" => documents("apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n", "spec"),
        "pod_answer" => documents("apiVersion: v1\nkind: PodList\n", "items"),
        "config" => documents(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
            "featureGates",
        ),
        "log_line" => vec![
            ("a line without end", format!("2026-01-02T03:04:05Z stdout F {}", "x".repeat(MIB))),
            ("an endless time", "1".repeat(MIB)),
            ("endless tags", format!("2026-01-02T03:04:05Z stdout {} x", "P:".repeat(MIB))),
        ],
        "kernel_file" => vec![
            ("one key often", "anon 1\n".repeat(MIB / 7)),
            ("many devices", (0..MIB / 16).map(|minor| format!("8:{minor} Read 1\n")).collect()),
            ("an endless line", "some avg10=".repeat(MIB / 11)),
            ("many network devices", "eth0: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n".repeat(MIB / 36)),
        ],
        "image_reference" => vec![
            ("a long path", "a/".repeat(MIB)),
            ("a long domain", format!("{}/a", "a.".repeat(MIB))),
            ("a long digest", format!("a@sha256:{}", "a".repeat(MIB))),
            ("dashes", format!("a{}b", "-".repeat(MIB))),
        ],
        "resolv_conf" => vec![
            ("many servers", "nameserver 10.0.0.1\n".repeat(MIB / 20)),
            ("many domains", format!("search {}", "example.com ".repeat(MIB / 12))),
            ("one option often", format!("options {}", "ndots:5 ".repeat(MIB / 8))),
        ],
        "docker_config" => {
            let entries = |text: &str| format!("{{{}\"a.io\": {{}}}}", text.repeat(MIB / text.len()));
            vec![
                ("one entry often", entries("\"a.io\": {\"username\": \"u\"}, ")),
                ("deep nesting", "{\"auths\":".repeat(MIB / 9)),
                ("stars", format!("{{\"{}\": {{}}}}", "*a".repeat(MIB / 2))),
                ("labels", format!("{{\"{}\": {{}}}}", "*.".repeat(MIB / 2))),
                ("a long auth", format!("{{\"a.io\": {{\"auth\": \"{}\"}}}}", "YTpi".repeat(MIB / 4))),
            ]
        }
        "provider_response" => {
            let head = "{\"apiVersion\": \"credentialprovider.kubelet.k8s.io/v1\", \"kind\": \"CredentialProviderResponse\", \
                        \"cacheKeyType\": \"Image\"";
            vec![
                ("one login often", format!("{head}, \"auth\": {{{}", "\"a.io\": {}, ".repeat(MIB / 12))),
                ("deep nesting", "{\"auth\":".repeat(MIB / 8)),
                ("stars", format!("{head}, \"auth\": {{\"{}\": {{}}}}}}", "*a".repeat(MIB / 2))),
                ("a long duration", format!("{head}, \"cacheDuration\": \"{}h\"}}", "9".repeat(MIB))),
                ("a long kind", format!("{{\"kind\": \"{}\"}}", "a".repeat(MIB))),
            ]
        }
        "kernel_log" => vec![
            ("reports without end", "a invoked oom-killer: b\n".repeat(MIB / 24)),
            ("a long name", format!("invoked oom-killer:\nKilled process 1 ({})", "()".repeat(MIB / 2))),
            ("many commas", format!("invoked oom-killer:\noom-kill:constraint={}", ",pid=".repeat(MIB / 5))),
            ("a long number", format!("6,{},1,-;a", "9".repeat(MIB))),
            (
                "a long name of a task",
                format!("6,1,1,-;INFO: task {} blocked for more than 1", "a:1".repeat(MIB / 3)),
            ),
            ("filesystems", "XFS (".repeat(MIB / 5)),
        ],
        "probe_location" => vec![
            ("a path up and up", "../".repeat(MIB / 3)),
            ("a long host", format!("http://{}/", "a.".repeat(MIB))),
            ("escapes", "%2e".repeat(MIB / 3)),
        ],
        "env_file" => vec![
            ("a value without end", format!("KEY='{}", "x\n".repeat(MIB))),
            ("many variables", "A='x'\n".repeat(MIB / 6)),
            ("a long line", format!("KEY='{}'", "x".repeat(MIB))),
        ],
        "log_query" => vec![
            ("many services", "query=a&".repeat(MIB / 8)),
            ("many files", "query=/&".repeat(MIB / 8)),
            ("a long name", format!("query={}", "a".repeat(MIB))),
            ("long numbers", format!("boot={0}&tailLines={0}", "9".repeat(MIB))),
            ("escapes", format!("query={}", "%25".repeat(MIB / 3))),
        ],
        "accept" => vec![
            ("many clauses", "a/b,".repeat(MIB / 4)),
            ("many qualities", "*/*;q=0.1,".repeat(MIB / 10)),
            ("many parameters", format!("text/plain{}", ";g=a".repeat(MIB / 4))),
            ("a long quality", format!("*/*;q=0.{}", "1".repeat(MIB))),
        ],
        "image_archive" => return archives(),
        "dra_message" => return dra_messages(),
        "store_file" => vec![
            ("nothing but NULs", "\0".repeat(MIB)),
            ("nothing but a letter", "x".repeat(MIB)),
            ("flipped bits everywhere", format!("C{}", "abcd1efgh2ijkl3".repeat(MIB / 15))),
        ],
        _ => vec![
            ("many digits", "9".repeat(MIB)),
            ("many decimals", format!("0.{}1", "0".repeat(MIB))),
            ("a long binary number", format!("{}.{}Ki", "9".repeat(MIB), "9".repeat(MIB))),
            ("a long exponent", format!("1e{}", "9".repeat(MIB))),
        ],
    };
    inputs.into_iter().map(|(what, text)| (what, text.into_bytes())).collect()
}

/// Image archives with large sizes in headers, with long documents, or that unpack to far more than their size.
fn archives() -> Vec<(&'static str, Vec<u8>)> {
    let layout = "=== oci-layout\n{\"imageLayoutVersion\":\"1.0.0\"}\n=== index.json\n";
    let described = |text: String| format!("FILES\n{layout}{text}").into_bytes();
    let file = |name: &str, size: u64| {
        let mut header = tar::Header::new_gnu();
        header.set_path(name).unwrap();
        header.set_size(size);
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    let many: Vec<u8> = (0..200_000).flat_map(|number| file(&format!("file{number}"), 0)).collect();
    let zeros = vec![0; 4 * MIB];
    let bomb = |name: &str| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&file(name, (8 * zeros.len()) as u64)).unwrap();
        (0..8).for_each(|_| gzip.write_all(&zeros).unwrap());
        gzip.finish().unwrap()
    };
    let entry =
        "{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"sha256:0\",\"size\":1},";
    vec![
        ("many files", many),
        ("a file that promises everything", file("a", u64::MAX / 2)),
        ("many mebibytes in a few kilobytes", bomb("a")),
        ("the same as a document", bomb("index.json")),
        ("nothing but brackets", described("[".repeat(3 * MIB))),
        ("many manifests", described(format!("{{\"manifests\":[{}", entry.repeat(3 * MIB / entry.len())))),
        (
            "many names",
            described(format!("{{\"manifests\":[{{\"annotations\":{{{}", "\"a\":\"b\",".repeat(MIB / 4))),
        ),
        (
            "a name without end",
            described(format!(
                "{{\"manifests\":[{{\"digest\":\"sha256:{}\",\"size\":1,\"annotations\":{{\"io.containerd.image.name\":\"{}\"}}}}]}}",
                "0".repeat(64),
                "A".repeat(MIB)
            )),
        ),
        (
            "a kind of content without end",
            described(format!(
                "{{\"manifests\":[{{\"mediaType\":\"{}\",\"digest\":\"sha256:{}\",\"size\":1,\"annotations\":{{\"io.containerd.image.name\":\"a:1\"}}}}]}}",
                "a".repeat(MIB),
                "0".repeat(64),
            )),
        ),
        ("nothing but NULs", vec![0; 4 * MIB]),
    ]
}

/// Messages of DRA drivers with many empty instances, attributes or items of a list, or one long name.
fn dra_messages() -> Vec<(&'static str, Vec<u8>)> {
    // A field with bytes; the length as a varint of four bytes.
    let field = |tag: u8, content: &[u8]| {
        let length = content.len() as u32;
        let varint =
            [0, 7, 14, 21].map(|shift| (length >> shift & 0x7f) as u8 | if shift < 21 { 0x80 } else { 0 });
        [&[tag << 3 | 2][..], &varint, content].concat()
    };
    let instance = |content: &[u8]| field(1, &field(1, &field(1, content)));
    let instances = |content: &[u8]| field(1, &field(1, &content.repeat(MIB / content.len())));
    let attribute = |value: &[u8]| field(2, &[&field(1, b"a")[..], &field(2, value)].concat());
    vec![
        ("empty instances", instances(&[0x0a, 0])),
        ("instances of one name", instances(&[0x0a, 3, 0x0a, 1, b'a'])),
        ("a long name", instance(&field(1, &vec![b'.'; MIB]))),
        ("a long name of an attribute", instance(&field(2, &field(1, &[0xc3, 0xa9].repeat(MIB / 2))))),
        ("empty attributes", instance(&[0x12, 0].repeat(MIB / 2))),
        ("a long list", instance(&attribute(&field(8, &[8, 1].repeat(MIB / 2))))),
        ("a long string", instance(&attribute(&field(5, &vec![b'a'; MIB])))),
        ("a long quantity", instance(&attribute(&field(6, &field(1, &vec![b'9'; MIB]))))),
    ]
}

/// Documents that begin with `head`, and have `field`.
fn documents(head: &str, field: &str) -> Vec<(&'static str, String)> {
    let long = "x".repeat(MIB);
    let many = |piece: &str| piece.repeat(MIB / piece.len());
    let fields: String = (0..20_000).map(|n| format!("  f{n}: 1\n")).collect();
    vec![
        ("nothing but brackets", many("[")),
        ("nothing but braces", many("{a: ")),
        ("nothing but dashes", many("- ")),
        ("nothing but NULs", many("\0")),
        ("nothing but tabs", many("\t")),
        ("one word", long.clone()),
        ("documents", many("---\n")),
        ("directives", many("%YAML 1.2\n")),
        ("unknown aliases", format!("{head}{field}: [{}]\n", many("*a, "))),
        ("aliases of a long value", format!("a: &a {long}\n{head}{field}: [{}]\n", "*a, ".repeat(50_000))),
        ("items under a long name", format!("{head}? {long}\n: [{}]\n", "1, ".repeat(50_000))),
        (
            "anchors around a long value",
            format!("{head}{field}: {}{long}{}", "&a [".repeat(90), "]".repeat(90)),
        ),
        ("one field often", format!("{head}{}", "a: 1\n".repeat(50_000))),
        ("one long field twice", format!("{head}? {long}\n: 1\n? {long}\n: 2\n")),
        ("many fields", format!("{head}{field}:\n{fields}")),
        ("a quoted control character often", format!("{head}\"{}\": 1\n", many("\\n"))),
    ]
}
