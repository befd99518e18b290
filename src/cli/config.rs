//! `hostlet config`: checks configuration files and shows what the daemon would run with. Starts nothing.
