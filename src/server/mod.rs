//! What the daemon serves to people and peers on this host.
