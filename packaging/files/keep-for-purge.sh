# What removes hostlet's pods and files once the package is gone. A purge runs after the program and its configuration were
# deleted, so their last versions are kept until then. Included in the maintainer scripts of deb and rpm.

KEPT=/var/lib/hostlet/uninstall

# Keeps the program and its effective configuration, with flags and drop-ins. A link costs nothing; where it cannot be, a copy.
keep_for_purge() {
  [ -x /usr/bin/hostlet ] || return 0
  install -d -m 700 /var/lib/hostlet "$KEPT"
  rm -f "$KEPT/hostlet" "$KEPT/config.yaml"
  ln /usr/bin/hostlet "$KEPT/hostlet" 2>/dev/null || cp /usr/bin/hostlet "$KEPT/hostlet"
  if ! /usr/bin/hostlet config show --service >"$KEPT/config.yaml" 2>/dev/null; then
    rm -f "$KEPT/config.yaml"
    # An invalid one, to be corrected before a purge.
    [ ! -e /etc/hostlet/config.yaml ] || cp /etc/hostlet/config.yaml "$KEPT/config.yaml"
  fi
}

# An installed program does not need them.
forget_kept() {
  rm -f "$KEPT/hostlet" "$KEPT/config.yaml"
  rmdir "$KEPT" /var/lib/hostlet 2>/dev/null || true
}

# The daemon's directory, which the first line of the kept configuration names.
kept_root() {
  root=$(sed -n '1s/^# --root-dir=//p' "$KEPT/config.yaml" 2>/dev/null)
  echo "${root:-/var/lib/kubelet}"
}

# Prints how a person purges.
purge_command() {
  echo "$KEPT/hostlet purge --yes --config $KEPT/config.yaml --root-dir $(kept_root)"
}

# Ends the pods and deletes the files that hostlet recorded, and nothing else. If that fails, what is needed to try again stays.
purge_recorded() {
  [ -x "$KEPT/hostlet" ] || return 0
  if "$KEPT/hostlet" purge --help >/dev/null 2>&1; then
    set -- --root-dir "$(kept_root)"
    [ ! -e "$KEPT/config.yaml" ] || set -- --config "$KEPT/config.yaml" "$@"
    if ! "$KEPT/hostlet" purge --yes "$@"; then
      cat >&2 <<TEXT
hostlet: Some pods or files of hostlet remain. Once the container runtime runs, remove them with
hostlet:   $(purge_command)
hostlet: and then the directory /var/lib/hostlet.
TEXT
      return 0
    fi
  fi
  forget_kept
}
