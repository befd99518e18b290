//! Newtypes for IDs over shared strings, so that a sandbox's is never passed for a container's.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

string_id! {
    /// The UID of a pod: from the API server, or derived from a manifest's content for a static pod.
    PodUid
}

impl PodUid {
    /// Whether it can be the name of a directory. The UID of a pod that is known only from the runtime can be any text.
    pub fn is_file_name(&self) -> bool {
        !matches!(self.as_str(), "" | "." | "..") && !self.as_str().contains(['/', '\0'])
    }
}

string_id! {
    /// The runtime's identifier of a pod sandbox.
    SandboxId
}
string_id! {
    /// The runtime's identifier of a container, without the `containerd://` scheme.
    ContainerId
}
