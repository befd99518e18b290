//! Generates the types, clients and servers of the CRI. Needs `protoc`.

fn main() -> std::io::Result<()> {
    tonic_prost_build::configure()
        // A fake runtime implements what it needs; the rest answers Unimplemented.
        .generate_default_stubs(true)
        // Their links and lists are not rustdoc's; the definitions are next to this file.
        .disable_comments(["."])
        // Its secrets must not be printed: `cri.rs` does it without them.
        .skip_debug(["runtime.v1.AuthConfig"])
        .compile_protos(&["proto/cri.proto"], &["proto"])
}
