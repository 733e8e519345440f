#!/bin/sh
# feishuperm @VERSION@, one file for Python 3.9 and newer. Try: feishuperm --help
c=${XDG_CONFIG_HOME:-${HOME-}/.config}/feishuperm/python p=
case $c in /*) [ -f "$c" ] && [ -r "$c" ] && IFS= read -r p <"$c" ;; esac
case $p in /*) [ -f "$p" ] && [ -x "$p" ] ;; *) false ;; esac || {
  p=python3
  command -v $p >/dev/null 2>&1 || {
    echo "feishuperm: python3 is not in PATH; install Python 3.9 or newer" >&2
    case ${0##*/} in @SH_NAMES@) exit 0 ;; esac
    [ "${1-}" = hook ]
    exit
  }
}
exec "$p" -IBS -c '@BOOT@' "$0" "$@"
