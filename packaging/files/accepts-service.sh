# Whether this version accepts what its service runs with: flags of the unit, its drop-ins and their files, and the configuration.
# Included in the maintainer scripts of deb and rpm; changes nothing.

# usage: accepts_service UNIT      Says what is wrong
accepts_service() {
  ! /usr/bin/hostlet config check --service >/dev/null || return 0
  cat >&2 <<TEXT
hostlet: This version does not accept the flags or the configuration of $1, so it was not restarted: what runs goes on.
hostlet: Correct them, then: systemctl restart ${1%.service}
TEXT
  return 1
}
