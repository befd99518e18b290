//! Container log layout: directories, file names and the links under `/var/log/containers`.
