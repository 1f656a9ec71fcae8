#!/usr/bin/env bash
# Completes a word with the installed completions of each shell: bash, zsh and fish.
#   packaging/completions.sh ROOT
# ROOT is the root that the packages are installed in; the shells are those of this machine. Exit
# status: 0 if every shell completes every word.
set -euo pipefail
share=$1/usr/share
fail() {
  echo "FAILED: completion: $*" >&2
  exit 1
}
# The command so far, its last word begun, and the whole word.
cases=("spindle|vol|cr create" "spindle|serve|--api-t --api-token-file"
  "spindle-lab|repr reproduce")

in_bash() {
  bash --norc -c '
    source "$1/bash-completion/completions/$2"
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    complete=$(complete -p "$1")
    [[ $complete =~ -F\ ([^ ]+) ]] || exit 1
    "${BASH_REMATCH[1]}" "$1" "${*: -1}" "${*: -2:1}"
    printf "%s\n" "${COMPREPLY[@]}"' bash "$share" "$@"
}
in_fish() {
  local line=$*
  HOME=$home fish --no-config -c "source $share/fish/vendor_completions.d/$1.fish; \
    complete -C '$line'" | cut -f 1
}
# A line editor on a terminal of its own, which gets the words and a tab; the line that it shows.
in_zsh() {
  HOME=$home TERM=dumb timeout 60 zsh -f -c '
    zmodload zsh/zpty
    where=$1 line=$2 whole=$3
    zpty editor zsh -f -i
    zpty -w editor "fpath=($where \$fpath); autoload -Uz compinit; compinit -D -u; PS1=READY"
    # The prompt is followed by an escape; its echo in the line above is not.
    zpty -r -m editor shown "*READY"$'"'\e'"'"*"
    zpty -w -n editor "$line"$'"'\t'"'
    zpty -r -m editor shown "*${whole}[ =]*" && print -r -- "$whole"
    zpty -d editor' zsh "$functions" "${*}" "$whole"
}

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
functions=$share/zsh/vendor-completions
[ -d "$functions" ] || functions=$share/zsh/site-functions
for name in spindle spindle-lab; do
  bash -n "$share/bash-completion/completions/$name" || fail "bash -n: $name"
  zsh -n "$functions/_$name" || fail "zsh -n: $name"
  fish --no-execute "$share/fish/vendor_completions.d/$name.fish" || fail "fish -n: $name"
done
for one in "${cases[@]}"; do
  read -r begun whole <<<"$one"
  IFS='|' read -ra words <<<"$begun"
  for shell in bash fish zsh; do
    "in_$shell" "${words[@]}" | grep -qxe "$whole" || fail "$shell: ${words[*]}: not $whole"
  done
done
echo "bash, fish and zsh complete ${#cases[@]} lines each"
