//! The subcommands a person types. They talk to the daemon only through its socket.
